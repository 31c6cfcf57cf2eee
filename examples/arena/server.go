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

// A server is the authority. It runs entirely on the goroutine that drives its world, as on
// Unreal's game thread, so it needs no locks.
type server struct {
	world    *rpc.World
	streams  *stream.Streams
	fighters *rpc.Binding[*fighter]
	match    *match
	random   *rand.Rand

	shots, hits int
}

// A match is the object for the Match actor, on either end.
type match struct{ scores rpc.List[rpc.Ref, Score] }

// A fighter is the server's object for a Fighter actor.
type fighter struct {
	actor *rpc.Actor
	pose  Pose // replicated: the game writes it, and Flush sends what changed
	input Input

	past  [2 * TickRate]Pose // the last two seconds, newest first, to look up what a shooter saw
	fired Stamp              // time of its last shot
	ready time.Time          // when it has reloaded, or may get up
}

// newServer returns a server. The caller drives the server's world, and calls tick
// between Dispatch and Flush.
func newServer(config rpc.Config, seed uint64) *server {
	s := &server{random: rand.New(rand.NewPCG(seed, 0))}
	config.OnConnect = s.join // AGameMode::PostLogin
	s.world = must(rpc.NewWorld(config))
	s.streams = must(stream.Install(s.world, stream.Config{}))
	s.bindFighters()
	matches := rpc.Bind(s.world, MatchClass, func(*rpc.Actor) *match { return &match{} })
	rpc.ReplicateList(matches, MatchScores, func(m *match) *rpc.List[rpc.Ref, Score] { return &m.scores })
	// AlwaysRelevant opens it for all clients, however late they join.
	_, s.match, _ = rpc.Spawn(matches, nil, nil, rpc.AlwaysRelevant())
	return s
}

func (s *server) bindFighters() {
	b := rpc.Bind(s.world, FighterClass, func(a *rpc.Actor) *fighter { return &fighter{actor: a} })
	rpc.Replicate(b, FighterPose, func(f *fighter) *Pose { return &f.pose })
	// A fighter is open for clients whose own fighter is near enough (IsNetRelevantFor), and closes
	// 5 s after it is no longer near (RelevantTimeout).
	rpc.At(b, func(f *fighter) (x, y, z float32) { return f.pose.X, f.pose.Y, 0 })
	rpc.On(b, Steer, func(f *fighter, _ *rpc.Call, input Input) { f.input = input })
	rpc.Check(b, Shoot, s.mayShoot)
	rpc.On(b, Shoot, s.shoot)
	rpc.On(b, Download, s.download)
	// The world destroys the actors of a connection when the connection ends.
	rpc.OnClose(b, func(f *fighter, _ rpc.CloseReason) { s.match.scores.Delete(f.actor.Ref()) }) // EndPlay
	s.fighters = b
}

// join spawns the fighter of a new player.
func (s *server) join(w *rpc.World, conn *rpc.Conn) {
	// As with SpawnActorDeferred, the message that opens the actor includes the pose set here.
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

// tick moves all fighters. It only writes to the poses; Flush compares them with what was sent, and
// sends the changes.
func (s *server) tick(now time.Time) {
	for _, f := range s.fighters.All() {
		ready := now.After(f.ready)
		switch {
		case ready && f.pose.Health == 0:
			f.pose.Health = Health
		case ready && f.pose.Ammo == 0:
			f.pose.Ammo = Magazine
		}
		if f.pose.Health > 0 {
			sin, cos := math.Sincos(float64(f.input.Yaw))
			f.pose.X = min(max(f.pose.X+Speed/TickRate*float32(cos), 0), Side)
			f.pose.Y = min(max(f.pose.Y+Speed/TickRate*float32(sin), 0), Side)
		}
		f.pose.Yaw = f.input.Yaw
		f.pose.Target = f.input.Target
		f.pose.Stamp = StampOf(now)
		copy(f.past[1:], f.past[:])
		f.past[0] = f.pose
	}
}

// mayShoot is the other half of WithValidation. It checks whether the caller may shoot now. Since
// an error closes the caller's connection, mayShoot rejects only what no honest client does,
// however late its calls arrive.
func (s *server) mayShoot(f *fighter, call *rpc.Call, shot Shot) error {
	// Two shots arrive together if the first was lost and sent again, so the pause that counts is
	// the one that the shooter reports. RateLimit in the declaration limits what a client can gain
	// by lying.
	if pause := shot.Fired.Since(f.fired); f.fired != 0 && pause < Cooldown {
		return fmt.Errorf("shot again after %v; the limit is %v (Cooldown)", pause, Cooldown)
	}
	// Positions are rounded on the wire.
	if _, distance, known := s.seen(f, call.Conn, shot); known && distance > Reach+1 {
		return fmt.Errorf("shot at %v from %.0f m away; the limit is %d m (Reach)", shot.Target, distance, Reach)
	}
	return nil
}

// seen returns the target of a shot, and the distance at which the shooter saw it. known is false
// if that was too long ago, or if the target no longer exists.
//
// seen looks up the actor in the connection, not in the world, because nobody can shoot an actor
// that isn't open on their connection.
func (s *server) seen(f *fighter, conn *rpc.Conn, shot Shot) (target *fighter, distance float32, known bool) {
	target, ok := s.fighters.Of(conn.Actor(shot.Target))
	if !ok {
		return nil, 0, false
	}
	here, mine := f.at(shot.Stood)
	there, its := target.at(shot.Seen)
	return target, here.To(there), mine && its
}

// at returns the position of the fighter when the server wrote the given stamp. It
// returns false if that was more than two seconds ago.
func (f *fighter) at(stamp Stamp) (Spot, bool) {
	for _, p := range f.past {
		if p.Stamp == stamp && stamp != 0 {
			return p.Spot(), true
		}
	}
	return Spot{}, false
}

// shoot is Shoot_Implementation. It silently ignores a request that an honest client may send too
// late: the player may have been hit while its shot was in flight, or may not know yet that its
// magazine is empty.
func (s *server) shoot(f *fighter, call *rpc.Call, shot Shot) {
	f.fired = shot.Fired
	target, _, known := s.seen(f, call.Conn, shot)
	if f.pose.Health == 0 || f.pose.Ammo == 0 || !known {
		return
	}
	s.shots++
	f.pose.Ammo--
	if f.pose.Ammo == 0 {
		f.ready = call.Now.Add(Reload)
	}
	if target.pose.Health > 0 {
		s.hit(f, target, call.Now)
	}
}

// hit applies a hit, and tells both players.
func (s *server) hit(by, target *fighter, now time.Time) {
	s.hits++
	Hit.Call(target.actor, Wound{Other: by.actor.Ref(), Sent: StampOf(now)})
	Landed.Call(by.actor, Wound{Other: target.actor.Ref(), Sent: StampOf(now)})
	target.pose.Health -= min(Damage, target.pose.Health)
	if target.pose.Health > 0 {
		return
	}
	target.ready = now.Add(Down)
	Killed.Call(target.actor, by.actor.Ref())
	// This goes to all clients that see the target. The server has no handler for it, because
	// nobody watches there.
	Boom.Call(target.actor, target.pose.Spot())
	s.score(by, 1, 0)
	s.score(target, 0, 1)
}

// score adds to a row of the scores. Set marks the row as changed (MarkItemDirty), so that long
// lists needn't be compared.
func (s *server) score(f *fighter, kills, deaths uint16) {
	row, _ := s.match.scores.Get(f.actor.Ref())
	s.match.scores.Set(f.actor.Ref(), Score{row.Name, row.Kills + kills, row.Deaths + deaths})
}

// download sends the level, which consists of zeros here, to the caller. Start returns immediately,
// and the stream uses the rate that play leaves. Start fails only if the client is disconnecting.
func (s *server) download(_ *fighter, call *rpc.Call, _ rpc.None) {
	_, _ = Level.Start(s.streams.Peer(call.Conn), bytes.NewReader(make([]byte, LevelSize)), LevelSize)
}
