package main

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/stream"
)

// server is the authority. All of it runs on the goroutine that drives its world, as on Unreal's game thread: no locks.
type server struct {
	world    *rpc.World
	streams  *stream.Streams
	fighters *rpc.Binding[*fighter]
	match    *match
	random   *rand.Rand

	shots, hits int
}

// match is the object of the Match actor, on either side.
type match struct{ scores rpc.List[rpc.Ref, Score] }

// fighter is the server's object of a Fighter actor.
type fighter struct {
	actor *rpc.Actor
	pose  Pose // replicated: the game writes into it, and what differs at Flush travels
	input Input

	past  [2 * TickRate]Pose // the last two seconds, to look up what a shooter saw
	fired Stamp              // of its last shot
	ready time.Time          // when it has reloaded, or gets up
}

// newServer makes the server's world. Who drives it calls tick between Dispatch and Flush.
func newServer(config rpc.Config, seed uint64) *server {
	s := &server{random: rand.New(rand.NewPCG(seed, 0))}
	config.OnConnect = s.join // AGameMode::PostLogin
	s.world = must(rpc.NewWorld(config))
	s.streams = must(stream.Install(s.world, stream.Config{}))
	s.bindFighters()
	matches := rpc.Bind(s.world, MatchClass, func(*rpc.Actor) *match { return &match{} })
	rpc.ReplicateList(matches, MatchScores, func(m *match) *rpc.List[rpc.Ref, Score] { return &m.scores })
	_, s.match, _ = rpc.Spawn(matches, nil, nil, rpc.AlwaysRelevant()) // open for all, however late they come
	return s
}

func (s *server) bindFighters() {
	b := rpc.Bind(s.world, FighterClass, func(a *rpc.Actor) *fighter { return &fighter{actor: a} })
	rpc.Replicate(b, FighterPose, func(f *fighter) *Pose { return &f.pose })
	// A fighter is open for those who stand near enough (IsNetRelevantFor). Each connection sees from the fighter that it owns,
	// and what left its sight closes 5 s later (RelevantTimeout).
	rpc.At(b, func(f *fighter) (x, y, z float32) { return f.pose.X, f.pose.Y, 0 })
	rpc.On(b, Steer, func(f *fighter, _ *rpc.Call, input Input) { f.input = input })
	rpc.Check(b, Shoot, s.mayShoot)
	rpc.On(b, Shoot, s.shoot)
	rpc.On(b, Download, s.download)
	// The world destroys what a connection owned when that ends.
	rpc.OnClose(b, func(f *fighter, _ rpc.CloseReason) { s.match.scores.Delete(f.actor.Ref()) }) // EndPlay
	s.fighters = b
}

// join has a new player come in.
func (s *server) join(w *rpc.World, conn *rpc.Conn) {
	// SpawnActorDeferred: the open carries the pose as it is set here.
	actor, f, err := rpc.Spawn(s.fighters, conn, func(f *fighter) {
		f.pose = Pose{Stamp: StampOf(w.Now()), Health: Health, Ammo: Magazine, Name: f.actor.String()}
		f.pose.X, f.pose.Y = s.random.Float32()*Side, s.random.Float32()*Side
	})
	if err != nil {
		conn.Close(1024, err.Error())
		return
	}
	s.match.scores.Set(actor.Ref(), Score{Name: f.pose.Name})
}

// tick moves everybody. It writes into the poses and sends nothing: Flush compares and sends.
func (s *server) tick(now time.Time) {
	for _, f := range s.fighters.All() {
		if ready := now.After(f.ready); ready && f.pose.Health == 0 {
			f.pose.Health = Health
		} else if ready && f.pose.Ammo == 0 {
			f.pose.Ammo = Magazine
		}
		if f.pose.Health > 0 {
			sin, cos := math.Sincos(float64(f.input.Yaw))
			f.pose.X = min(max(f.pose.X+Speed/TickRate*float32(cos), 0), Side)
			f.pose.Y = min(max(f.pose.Y+Speed/TickRate*float32(sin), 0), Side)
		}
		f.pose.Yaw, f.pose.Target, f.pose.Stamp = f.input.Yaw, f.input.Target, StampOf(now)
		copy(f.past[1:], f.past[:])
		f.past[0] = f.pose
	}
}

// mayShoot is the other half of WithValidation: whether this caller may do this now. An error closes its connection, so here
// stands only what no honest client does, however late its calls come.
func (s *server) mayShoot(f *fighter, call *rpc.Call, shot Shot) error {
	// Two shots arrive together when the first was lost and sent again. So what counts are the pauses that the shooter says it
	// made, and RateLimit on the declaration bounds what it can gain by lying.
	if pause := shot.Fired.Since(f.fired); f.fired != 0 && pause < Cooldown {
		return fmt.Errorf("shot again after %v", pause)
	}
	if _, distance, known := s.seen(f, call.Conn, shot); known && distance > Reach+1 { // positions travel rounded
		return fmt.Errorf("shot at %v, %.0f m away", shot.Target, distance)
	}
	return nil
}

// seen returns the target of a shot and how far the shooter saw it; not if that is long ago, or the target is gone. It asks the
// connection and not the world: nobody shoots what is not open for it.
func (s *server) seen(f *fighter, conn *rpc.Conn, shot Shot) (target *fighter, distance float32, known bool) {
	target, ok := s.fighters.Of(conn.Actor(shot.Target))
	if !ok {
		return nil, 0, false
	}
	here, mine := f.at(shot.Stood)
	there, its := target.at(shot.Seen)
	return target, here.To(there), mine && its
}

// at is where the fighter stood when the server wrote that stamp; not if that is more than two seconds ago.
func (f *fighter) at(stamp Stamp) (Spot, bool) {
	for _, p := range f.past {
		if p.Stamp == stamp && stamp != 0 {
			return p.Spot(), true
		}
	}
	return Spot{}, false
}

// shoot is Shoot_Implementation. What an honest client may ask too late it refuses without a word: that was hit while its shot
// was on the way, or did not know yet that its magazine is empty.
func (s *server) shoot(f *fighter, call *rpc.Call, shot Shot) {
	f.fired = shot.Fired
	target, _, known := s.seen(f, call.Conn, shot)
	if f.pose.Health == 0 || f.pose.Ammo == 0 || !known {
		return
	}
	s.shots++
	if f.pose.Ammo--; f.pose.Ammo == 0 {
		f.ready = call.Now.Add(Reload)
	}
	if target.pose.Health > 0 {
		s.hit(f, target, call.Now)
	}
}

func (s *server) hit(by, target *fighter, now time.Time) {
	s.hits++
	Hit.Call(target.actor, Wound{Other: by.actor.Ref(), Sent: StampOf(now)})
	Landed.Call(by.actor, Wound{Other: target.actor.Ref(), Sent: StampOf(now)})
	if target.pose.Health -= min(Damage, target.pose.Health); target.pose.Health > 0 {
		return
	}
	target.ready = now.Add(Down)
	Killed.Call(target.actor, by.actor.Ref())
	Boom.Call(target.actor, target.pose.Spot()) // to all who see the target; no handler is bound here, where nobody watches
	s.score(by, 1, 0)
	s.score(target, 0, 1)
}

// score sets a row anew. A list is told what changes (MarkItemDirty), so that nobody compares long ones.
func (s *server) score(f *fighter, kills, deaths uint16) {
	row, _ := s.match.scores.Get(f.actor.Ref())
	s.match.scores.Set(f.actor.Ref(), Score{row.Name, row.Kills + kills, row.Deaths + deaths})
}

// download sends the level, which is empty here, to who asked. Start returns at once; the stream takes what play leaves of the path,
// and its error comes when the client is leaving.
func (s *server) download(_ *fighter, call *rpc.Call, _ rpc.None) {
	_, _ = Level.Start(s.streams.Peer(call.Conn), bytes.NewReader(make([]byte, LevelSize)), LevelSize)
}
