package main

import (
	"io"
	"math"
	"math/rand/v2"
	"time"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/stream"
)

// A bot is a client. It has its own world, in which the server opens copies of the actors that are
// relevant to the bot.
type bot struct {
	world    *rpc.World
	fighters *rpc.Binding[*proxy]
	// self is the fighter that the bot owns (Unreal's ROLE_AutonomousProxy), or nil if it has
	// none yet. The others are ROLE_SimulatedProxy.
	self   *proxy
	felt   *felt
	who    string
	random *rand.Rand

	goal  Spot
	fired Stamp
	booms int
	kills uint16 // the bot's kills, from the scores

	needsLevel bool
	hasLevel   chan error // receives the result of the download
}

// A proxy is a client's object for a Fighter actor. It holds the fighter's state as last sent by
// the server.
type proxy struct {
	actor  *rpc.Actor
	pose   Pose
	opened time.Time
}

// newBot returns a client. The caller drives the client's world, and calls tick between
// Dispatch and Flush.
func newBot(config rpc.Config, seed uint64, felt *felt, who string) *bot {
	b := &bot{
		felt:       felt,
		who:        who,
		random:     rand.New(rand.NewPCG(seed, 1)),
		needsLevel: who == "joiner",
		hasLevel:   make(chan error, 1),
	}
	b.world = must(rpc.NewWorld(config))
	b.fighters = rpc.Bind(b.world, FighterClass, b.open)
	rpc.Replicate(b.fighters, FighterPose, func(p *proxy) *Pose { return &p.pose })
	// OnRep_Pose, which runs after all fields in a packet have been set.
	rpc.OnRep(b.fighters, FighterPose, func(p *proxy, old Pose) {
		if p == b.self && p.pose.Health > 0 && old.Health == 0 {
			b.goal = b.anywhere() // it got up, so walk away
		}
	})
	feel := func(_ *proxy, call *rpc.Call, wound Wound) {
		b.felt.add(b.who, way, StampOf(call.Now).Since(wound.Sent))
	}
	rpc.On(b.fighters, Hit, feel)
	rpc.On(b.fighters, Landed, feel)
	// A real game would turn its camera to the killer.
	rpc.On(b.fighters, Killed, func(*proxy, *rpc.Call, rpc.Ref) {})
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

// open creates the object for a fighter that has become relevant. Since the fighter's pose hasn't
// arrived yet, code that needs it must wait for OnRep.
func (b *bot) open(a *rpc.Actor) *proxy {
	p := &proxy{actor: a, opened: time.Now()}
	if a.Owned() {
		b.self = p
		b.goal = b.anywhere()
	}
	return p
}

// tick makes the bot look, walk and shoot.
func (b *bot) tick(now time.Time) {
	if b.self == nil || !b.self.actor.Alive() {
		return
	}
	// Only a sender can start a transfer, so the bot asks for it with an RPC.
	if b.needsLevel {
		b.needsLevel = Download.Call(b.self.actor, rpc.None{}) != nil
	}
	target := b.look(now)
	b.walk(target)
	b.shoot(target, StampOf(now))
}

// look returns the nearest living fighter, or nil if there is none. All doesn't include fighters
// that are no longer relevant.
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
	Steer.Call(b.self.actor, input) // an error means that the actor or the connection is closed
}

func (b *bot) shoot(target *proxy, now Stamp) {
	me := b.self.pose
	if target == nil || me.Spot().To(target.pose.Spot()) > Reach {
		return
	}
	if me.Health == 0 || me.Ammo == 0 || now.Since(b.fired) < Cooldown {
		return
	}
	b.fired = now
	Shoot.Call(b.self.actor, Shot{
		Target: target.actor.Ref(),
		Seen:   target.pose.Stamp,
		Stood:  me.Stamp,
		Fired:  now,
	})
}

func (b *bot) anywhere() Spot { return Spot{b.random.Float32() * Side, b.random.Float32() * Side} }

// receive reads the level on a separate goroutine, where a real game would write it to disk. OnEnd
// runs on the world's goroutine.
func (b *bot) receive(in *stream.IncomingBlob) {
	in.OnEnd(func(err error) { b.hasLevel <- err })
	go io.Copy(io.Discard, in)
}
