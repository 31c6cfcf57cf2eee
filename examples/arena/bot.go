package main

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/stream"
)

// bot is a client: a world of its own, in which the server opens copies of the actors that are relevant for it.
type bot struct {
	world  *rpc.World
	felt   *felt
	who    who
	random *rand.Rand

	self   *proxy   // the fighter that it owns (ROLE_AutonomousProxy)
	others []*proxy // those it sees (ROLE_SimulatedProxy)
	scores *rpc.List[rpc.Ref, Score]

	goal  Spot
	fired Stamp
	booms int

	needsLevel bool
	asked      bool
}

// proxy is a client's object of a Fighter actor: what the server last told of it.
type proxy struct {
	actor *rpc.Actor
	pose  Pose
}

// newBot makes a client's world. Who drives it calls tick between Dispatch and Flush.
func newBot(config rpc.Config, name string, seed uint64, f *felt, w who) (*bot, error) {
	config.Token = []byte(name)
	world, err := rpc.NewWorld(config)
	if err != nil {
		return nil, err
	}
	b := &bot{world: world, felt: f, who: w, random: rand.New(rand.NewPCG(seed, 1)), needsLevel: w == joiner}
	fighters := rpc.Bind(world, FighterClass, b.open)
	rpc.Replicate(fighters, FighterPose, func(p *proxy) *Pose { return &p.pose })
	rpc.OnRep(fighters, FighterPose, b.onPose)
	rpc.On(fighters, Hit, b.onWound)
	rpc.On(fighters, Landed, b.onWound)
	rpc.On(fighters, Killed, func(p *proxy, _ *rpc.Call, by rpc.Ref) { b.goal = b.anywhere() })
	rpc.On(fighters, Boom, func(*proxy, *rpc.Call, Spot) { b.booms++ })

	matches := rpc.Bind(world, MatchClass, func(*rpc.Actor) *match { return &match{} })
	rpc.ReplicateList(matches, MatchScores, func(m *match) *rpc.List[rpc.Ref, Score] { b.scores = &m.scores; return b.scores })

	streams, err := stream.Install(world, stream.Config{})
	if err != nil {
		return nil, err
	}
	Level.Handle(streams, b.receive)
	return b, nil
}

// open makes the object of a fighter that came into sight. Its pose is not there yet: what needs it waits for OnRep.
func (b *bot) open(a *rpc.Actor) *proxy {
	p := &proxy{actor: a}
	if a.Owned() {
		b.self, b.goal = p, b.anywhere()
	} else {
		b.others = append(b.others, p)
	}
	return p
}

// onPose runs when fields of a pose have changed, all of a packet at once (OnRep_Pose).
func (b *bot) onPose(p *proxy, old Pose) {
	if p == b.self && p.pose.Health > 0 && old.Health == 0 {
		b.goal = b.anywhere() // it got up: away from here
	}
}

func (b *bot) onWound(_ *proxy, call *rpc.Call, wound Wound) {
	b.felt.way(b.who, StampOf(call.Now).Since(wound.Sent))
}

// tick plays: it looks, walks and shoots.
func (b *bot) tick(now time.Time) {
	b.others = slices.DeleteFunc(b.others, func(p *proxy) bool { return !p.actor.Alive() }) // out of sight, or gone
	for _, p := range b.others {
		b.felt.age(b.who, StampOf(now).Since(p.pose.Stamp))
	}
	if b.self == nil || !b.self.actor.Alive() {
		return
	}
	b.felt.sight(b.who, len(b.others))
	if b.needsLevel && !b.asked {
		// A receiver can not start a transfer: it asks for one by an RPC of the game.
		b.asked = Download.Call(b.self.actor, rpc.None{}) == nil
		b.felt.enter(during)
	}
	target := b.nearest()
	b.steer(target)
	if target != nil && b.self.pose.Spot().Distance(target.pose.Spot()) < Reach {
		b.shoot(target, now)
	}
}

func (b *bot) steer(target *proxy) {
	here := b.self.pose.Spot()
	if here.Distance(b.goal) < Speed {
		b.goal = b.anywhere()
	}
	input := Input{Run: true, Yaw: float32(math.Atan2(float64(b.goal.Y-here.Y), float64(b.goal.X-here.X)))}
	input.Yaw = min(max(input.Yaw, -math.Pi), math.Pi) // float32(math.Pi) is more than π
	if target != nil {
		input.Target = target.actor.Ref()
	}
	_ = Steer.Call(b.self.actor, input) // an error says that the server is gone, and the driver sees that
}

func (b *bot) shoot(target *proxy, now time.Time) {
	fired := StampOf(now)
	if b.self.pose.Health == 0 || b.self.pose.Ammo == 0 || fired.Since(b.fired) < Cooldown {
		return
	}
	b.fired = fired
	_ = Shoot.Call(b.self.actor, Shot{Target: target.actor.Ref(), Seen: target.pose.Stamp, Fired: fired})
}

// nearest is the nearest of those who stand, nil if there is none.
func (b *bot) nearest() (nearest *proxy) {
	here := b.self.pose.Spot()
	for _, p := range b.others {
		if p.pose.Health > 0 && (nearest == nil || here.Distance(p.pose.Spot()) < here.Distance(nearest.pose.Spot())) {
			nearest = p
		}
	}
	return nearest
}

func (b *bot) anywhere() Spot { return Spot{b.random.Float32() * Side, b.random.Float32() * Side} }

// receive takes the level, on a goroutine of its own: a game would write it to disk. OnEnd comes back to the world's.
func (b *bot) receive(in *stream.IncomingBlob) {
	in.OnEnd(func(err error) {
		if err == nil && in.Progress().Acked != LevelSize {
			err = fmt.Errorf("the level has %d bytes", in.Progress().Acked)
		}
		b.felt.downloaded(err)
	})
	go io.Copy(io.Discard, in)
}
