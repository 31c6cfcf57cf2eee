package main

import (
	"io"
	"math"
	"math/rand/v2"
	"time"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/stream"
)

// bot is a client: a world of its own, in which the server opens copies of the actors that are relevant for it.
type bot struct {
	world    *rpc.World
	fighters *rpc.Binding[*proxy]
	self     *proxy // the fighter that it owns (ROLE_AutonomousProxy); the others are ROLE_SimulatedProxy
	felt     *felt
	who      string
	random   *rand.Rand

	goal  Spot
	fired Stamp
	booms int
	kills uint16 // by the scores

	needsLevel bool
	hasLevel   chan error // has one when the download has ended
}

// proxy is a client's object of a Fighter actor: what the server last told of it.
type proxy struct {
	actor  *rpc.Actor
	pose   Pose
	opened time.Time
}

// newBot makes a client's world. Who drives it calls tick between Dispatch and Flush.
func newBot(config rpc.Config, seed uint64, felt *felt, who string) *bot {
	b := &bot{felt: felt, who: who, random: rand.New(rand.NewPCG(seed, 1)), hasLevel: make(chan error, 1)}
	b.needsLevel = who == "joiner"
	b.world = must(rpc.NewWorld(config))
	b.fighters = rpc.Bind(b.world, FighterClass, b.open)
	rpc.Replicate(b.fighters, FighterPose, func(p *proxy) *Pose { return &p.pose })
	rpc.OnRep(b.fighters, FighterPose, func(p *proxy, old Pose) { // OnRep_Pose, after all fields of a packet
		if p == b.self && p.pose.Health > 0 && old.Health == 0 {
			b.goal = b.anywhere() // it got up: away from here
		}
	})
	feel := func(_ *proxy, call *rpc.Call, wound Wound) {
		b.felt.add(b.who, way, StampOf(call.Now).Since(wound.Sent))
	}
	rpc.On(b.fighters, Hit, feel)
	rpc.On(b.fighters, Landed, feel)
	rpc.On(b.fighters, Killed, func(*proxy, *rpc.Call, rpc.Ref) {}) // a game turns its camera to who that was
	rpc.On(b.fighters, Boom, func(*proxy, *rpc.Call, Spot) { b.booms++ })

	matches := rpc.Bind(b.world, MatchClass, func(*rpc.Actor) *match { return &match{} })
	rpc.ReplicateList(matches, MatchScores, func(m *match) *rpc.List[rpc.Ref, Score] { return &m.scores })
	rpc.OnList(matches, MatchScores, func(_ *match, row rpc.ListChange[rpc.Ref, Score]) {
		if b.self != nil && row.Key == b.self.actor.Ref() {
			b.kills = row.Value.Kills
		}
	})
	Level.Handle(must(stream.Install(b.world, stream.Config{})), b.receive)
	return b
}

// open makes the object of a fighter that came into sight. Its pose is not there yet: what needs that waits for OnRep.
func (b *bot) open(a *rpc.Actor) *proxy {
	p := &proxy{actor: a, opened: time.Now()}
	if a.Owned() {
		b.self, b.goal = p, b.anywhere()
	}
	return p
}

// tick plays: it looks, walks and shoots.
func (b *bot) tick(now time.Time) {
	if b.self == nil || !b.self.actor.Alive() {
		return
	}
	if b.needsLevel { // only senders start a transfer: who wants one asks by a call of the game
		b.needsLevel = Download.Call(b.self.actor, rpc.None{}) != nil
	}
	target := b.look(now)
	b.walk(target)
	b.shoot(target, StampOf(now))
}

// look returns the nearest of those who stand, nil if there is none. What left its sight is not in All any more.
func (b *bot) look(now time.Time) (nearest *proxy) {
	here := b.self.pose.Spot()
	for _, p := range b.fighters.All() {
		if p == b.self {
			continue
		}
		what := age
		if now.Sub(p.opened) < newcomer {
			what = fresh
		}
		b.felt.add(b.who, what, StampOf(now).Since(p.pose.Stamp))
		if p.pose.Health > 0 && (nearest == nil || here.To(p.pose.Spot()) < here.To(nearest.pose.Spot())) {
			nearest = p
		}
	}
	return nearest
}

func (b *bot) walk(target *proxy) {
	here := b.self.pose.Spot()
	if here.To(b.goal) < Speed {
		b.goal = b.anywhere()
	}
	input := Input{Yaw: float32(math.Atan2(float64(b.goal.Y-here.Y), float64(b.goal.X-here.X)))}
	if target != nil {
		input.Target = target.actor.Ref()
	}
	Steer.Call(b.self.actor, input) // an error says that the actor or the connection is gone
}

func (b *bot) shoot(target *proxy, now Stamp) {
	me := b.self.pose
	if target == nil || me.Spot().To(target.pose.Spot()) > Reach || me.Health == 0 || me.Ammo == 0 || now.Since(b.fired) < Cooldown {
		return
	}
	b.fired = now
	Shoot.Call(b.self.actor, Shot{Target: target.actor.Ref(), Seen: target.pose.Stamp, Stood: me.Stamp, Fired: now})
}

func (b *bot) anywhere() Spot { return Spot{b.random.Float32() * Side, b.random.Float32() * Side} }

// receive takes the level on a goroutine of its own, where a game would write it to disk. OnEnd comes back to the world's.
func (b *bot) receive(in *stream.IncomingBlob) {
	in.OnEnd(func(err error) { b.hasLevel <- err })
	go io.Copy(io.Discard, in)
}
