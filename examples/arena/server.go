package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/stream"
)

// server is the authority. All of it runs on the goroutine that drives its world, as on Unreal's game thread: no locks.
type server struct {
	world    *rpc.World
	streams  *stream.Streams
	bindings struct {
		fighters *rpc.Binding[*fighter]
		matches  *rpc.Binding[*match]
	}

	match    *match
	fighters []*fighter // in the order of their coming
	level    []byte
	random   *rand.Rand

	shots, hits int
	err         error // the first that should not happen
}

// match is the server's object of the Match actor.
type match struct{ scores rpc.List[rpc.Ref, Score] }

// fighter is the server's object of a Fighter actor.
type fighter struct {
	actor *rpc.Actor
	pose  Pose // replicated: the game writes here, and what differs at Flush travels
	input Input

	past  [2 * TickRate]Pose // the last two seconds, to look up what a shooter saw
	fired Stamp              // of its last shot
	ready time.Time          // when it has reloaded, or gets up
}

// newServer makes the server's world. Who drives it calls tick between Dispatch and Flush.
func newServer(config rpc.Config, seed uint64) (*server, error) {
	s := &server{level: make([]byte, LevelSize), random: rand.New(rand.NewPCG(seed, 0))}
	config.Authenticate = login
	config.OnConnect = s.join     // AGameMode::PostLogin
	config.OnDisconnect = s.leave // AGameMode::Logout
	world, err := rpc.NewWorld(config)
	if err != nil {
		return nil, err
	}
	s.world = world
	s.bindFighters()
	s.bindings.matches = rpc.Bind(world, MatchClass, func(*rpc.Actor) *match { return &match{} })
	rpc.ReplicateList(s.bindings.matches, MatchScores, func(m *match) *rpc.List[rpc.Ref, Score] { return &m.scores })
	if s.streams, err = stream.Install(world, stream.Config{}); err != nil {
		return nil, err
	}
	// Everybody has the match, however late they come (bAlwaysRelevant).
	_, s.match, err = rpc.Spawn(s.bindings.matches, nil, nil, rpc.AlwaysRelevant())
	return s, err
}

func (s *server) bindFighters() {
	b := rpc.Bind(s.world, FighterClass, func(a *rpc.Actor) *fighter { return &fighter{actor: a} })
	rpc.Replicate(b, FighterPose, func(f *fighter) *Pose { return &f.pose })
	// With At, a fighter is open for those who stand near enough. Each connection sees from the fighter that it owns, and what
	// left its sight closes 5 s later: IsNetRelevantFor, and RelevantTimeout.
	rpc.At(b, func(f *fighter) (x, y, z float32) { return f.pose.X, f.pose.Y, 0 })
	rpc.On(b, Steer, func(f *fighter, _ *rpc.Call, input Input) { f.input = input })
	rpc.Check(b, Shoot, s.mayShoot)
	rpc.On(b, Shoot, s.shoot)
	rpc.On(b, Download, s.download)
	rpc.On(b, Boom, func(*fighter, *rpc.Call, Spot) {}) // a Multicast runs on the server, too, where nobody watches
	s.bindings.fighters = b
}

// login makes an identity of a client's token. A real one would ask whoever sold the game.
func login(_ context.Context, token []byte) (identity string, err error) {
	if len(token) == 0 || len(token) > 16 {
		return "", errors.New("a name has 1 to 16 bytes")
	}
	return string(token), nil
}

func (s *server) join(_ *rpc.World, conn *rpc.Conn) {
	// SpawnActorDeferred: the open carries the pose as it is set here.
	actor, f, err := rpc.Spawn(s.bindings.fighters, conn, func(f *fighter) {
		f.pose = Pose{X: s.random.Float32() * Side, Y: s.random.Float32() * Side, Health: 100, Ammo: Magazine, Name: conn.Identity()}
	})
	if err != nil {
		s.failed(err)
		return
	}
	s.fighters = append(s.fighters, f)
	s.match.scores.Set(actor.Ref(), Score{Name: conn.Identity()})
}

// leave runs before the world destroys what the connection owned.
func (s *server) leave(_ *rpc.World, conn *rpc.Conn, _ error) {
	s.fighters = slices.DeleteFunc(s.fighters, func(f *fighter) bool {
		if f.actor.Conn() == conn {
			s.match.scores.Delete(f.actor.Ref())
			return true
		}
		return false
	})
}

// tick moves everybody. It writes into the poses and sends nothing: Flush compares and sends.
func (s *server) tick(now time.Time) {
	for _, f := range s.fighters {
		if now.After(f.ready) {
			f.recover()
		}
		if f.pose.Health > 0 && f.input.Run {
			f.pose.X = inside(f.pose.X + Speed/TickRate*float32(math.Cos(float64(f.input.Yaw))))
			f.pose.Y = inside(f.pose.Y + Speed/TickRate*float32(math.Sin(float64(f.input.Yaw))))
		}
		f.pose.Yaw, f.pose.Target, f.pose.Stamp = f.input.Yaw, f.input.Target, StampOf(now)
		copy(f.past[1:], f.past[:])
		f.past[0] = f.pose
	}
}

// recover reloads, or gets up.
func (f *fighter) recover() {
	if f.pose.Ammo == 0 {
		f.pose.Ammo = Magazine
	}
	if f.pose.Health == 0 {
		f.pose.Health = 100
	}
}

func inside(v float32) float32 { return min(max(v, 0), Side) }

// mayShoot is the other half of WithValidation: whether this caller may do this now. An error closes its connection, so here
// stands only what no honest client does, however late its calls come.
func (s *server) mayShoot(f *fighter, call *rpc.Call, shot Shot) error {
	// Two shots may arrive together when the first one was lost and sent again. So the pauses count that the shooter says it
	// made, and RateLimit on the declaration bounds what it can gain by lying.
	if pause := shot.Fired.Since(f.fired); f.fired != 0 && pause < Cooldown {
		return fmt.Errorf("shot again after %v", pause)
	}
	if ahead := shot.Seen.Since(StampOf(call.Now)); ahead > 0 {
		return fmt.Errorf("saw its target %v in the future", ahead)
	}
	// Both were moving, and the shooter saw itself as old as its target, more or less: hence the second.
	if distance, known := s.seen(f, call.Conn, shot); known && distance > Reach+Speed {
		return fmt.Errorf("shot at %v, %.0f m away", shot.Target, distance)
	}
	return nil
}

// seen returns how far the target was when the shooter saw it; not if that is long ago, or the target is gone.
func (s *server) seen(f *fighter, conn *rpc.Conn, shot Shot) (distance float32, known bool) {
	target := s.fighter(conn, shot.Target)
	if target == nil {
		return 0, false
	}
	here, there := f.at(shot.Seen), target.at(shot.Seen)
	return here.Distance(there), here != Spot{} && there != Spot{}
}

// at is where the fighter stood when the server wrote that stamp; the zero Spot if that is more than two seconds ago.
func (f *fighter) at(stamp Stamp) Spot {
	for _, p := range f.past {
		if p.Stamp == stamp {
			return p.Spot()
		}
	}
	return Spot{}
}

// fighter returns whom a client means by ref, nil if that is not open for it: nobody shoots what he can not see.
func (s *server) fighter(conn *rpc.Conn, ref rpc.Ref) *fighter {
	for _, f := range s.fighters {
		if f.actor.Ref() == ref && f.actor == conn.Actor(ref) {
			return f
		}
	}
	return nil
}

// shoot is Shoot_Implementation. What an honest client may ask too late, it refuses without a word: it was hit while its
// shot was on the way, or it did not know yet that its magazine is empty.
func (s *server) shoot(f *fighter, call *rpc.Call, shot Shot) {
	f.fired = shot.Fired
	distance, known := s.seen(f, call.Conn, shot)
	if f.pose.Health == 0 || f.pose.Ammo == 0 || !known {
		return
	}
	s.shots++
	if f.pose.Ammo--; f.pose.Ammo == 0 {
		f.ready = call.Now.Add(Reload)
	}
	if target := s.fighter(call.Conn, shot.Target); target.pose.Health > 0 && distance <= Reach {
		s.hit(f, target, call.Now)
	}
}

func (s *server) hit(by, target *fighter, now time.Time) {
	s.hits++
	target.pose.Health -= min(Damage, target.pose.Health)
	s.failed(Hit.Call(target.actor, Wound{Other: by.actor.Ref(), Damage: Damage, Sent: StampOf(now)}))
	s.failed(Landed.Call(by.actor, Wound{Other: target.actor.Ref(), Damage: Damage, Sent: StampOf(now)}))
	if target.pose.Health > 0 {
		return
	}
	target.ready = now.Add(Down)
	s.failed(Killed.Call(target.actor, by.actor.Ref()))
	s.failed(Boom.Call(target.actor, target.pose.Spot())) // to all who see the target
	s.score(by, func(row *Score) { row.Kills++ })
	s.score(target, func(row *Score) { row.Deaths++ })
}

// score changes a row. A list is told what changes (MarkItemDirty), so that nobody compares long ones.
func (s *server) score(f *fighter, change func(row *Score)) {
	row, _ := s.match.scores.Get(f.actor.Ref())
	change(&row)
	s.match.scores.Set(f.actor.Ref(), row)
}

// download sends the level to who asked. Start returns at once. The stream takes what play leaves of the path, tick by tick, and
// fills no more than half of a reliable buffer: Unreal has nothing like it.
func (s *server) download(_ *fighter, call *rpc.Call, _ rpc.None) {
	_, err := Level.Start(s.streams.Peer(call.Conn), bytes.NewReader(s.level), LevelSize)
	s.failed(err)
}

// failed keeps the first error that should not happen. A player that is just leaving is none.
func (s *server) failed(err error) {
	if s.err == nil && err != nil && !errors.Is(err, rpc.ErrClosed) {
		s.err = err
	}
}
