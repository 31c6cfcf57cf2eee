package rpctest_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/emulation"
	"github.com/quivernet/quiver/rpc/rpctest"
)

// sleep puts a soldier to sleep and waits until its clients know.
func (c *camp) sleep(s *trooper) {
	c.t.Helper()
	require.NoError(c.t, s.actor.SetDormant(true))
	c.net.Advance(settle)
	for i := range c.clients {
		require.False(c.t, s.actor.Channel(c.conns[i]).Open())
	}
}

// 12.3d: the channel of a dormant actor closes, the client keeps the actor,
// with its last state; when it wakes the same object goes on.
func TestDormantCopiesLiveOnAndWake(t *testing.T) {
	everywhere(t, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 2, rpc.Config{})
		s := c.spawn(0, func(s *trooper) { s.pose.Health = 100 })
		net.Advance(settle)
		s.pose.Health = 90
		net.Advance(100 * time.Millisecond) // on its way
		s.pose.Health, s.wares.Gold = 80, 7
		c.sleep(s)
		copies := []*trooper{c.at(0, s), c.at(1, s)}
		for i, copied := range copies {
			require.EqualValues(t, 80, copied.pose.Health, "client %d", i)
			require.EqualValues(t, 7, copied.wares.Gold)
			require.True(t, copied.actor.Alive())
			require.True(t, copied.actor.Dormant())
			require.Same(t, copied.actor, c.clients[i].Actor(s.actor.Ref()))
			copied.heard = nil
		}
		s.pose.Health = 70
		net.Advance(settle)
		require.EqualValues(t, 80, copies[0].pose.Health, "whatever the game changes")
		require.ErrorIs(t, report.Call(copies[0].actor, 1), rpc.ErrDormant)
		require.ErrorIs(t, report.Call(copies[1].actor, 1), rpc.ErrDormant)

		require.NoError(t, s.actor.SetDormant(false))
		net.Advance(settle)
		for i, copied := range copies {
			require.Same(t, copied, c.at(i, s), "the same object")
			require.False(t, copied.actor.Dormant())
			require.Equal(t, []string{"pose 70 was 80"}, copied.heard, "OnRep runs for what differs")
		}
		require.NoError(t, report.Call(copies[0].actor, 2))
		s.pose.Health = 60
		net.Advance(settle)
		require.Equal(t, []string{"report 2"}, s.heard)
		c.requireSame()
	})
}

// 12.3d: what was lost on its way when an actor falls asleep, or is torn off, comes with the close.
func TestTheLastStateIsNeverLost(t *testing.T) {
	for name, leave := range map[string]func(*rpc.Actor) error{
		"dormancy": func(a *rpc.Actor) error { return a.SetDormant(true) }, "tear-off": (*rpc.Actor).TearOff,
	} {
		t.Run(name, func(t *testing.T) {
			rpctest.Run(t, emulation.Settings{PktLag: 20 * time.Millisecond}, func(t *testing.T, net *rpctest.Network) {
				c := newCamp(t, net, 1, rpc.Config{})
				s := c.spawn(0, nil)
				net.Advance(time.Second)
				net.Dark(c.clients[0].conn, 90*time.Millisecond)
				s.pose.Health, s.pose.Secret = 1, 2
				net.Advance(66 * time.Millisecond)
				s.wares.Gold = 3
				require.NoError(t, leave(s.actor))
				net.Advance(time.Second)
				require.False(t, s.actor.Channel(c.conns[0]).Open())
				require.EqualValues(t, 1, c.at(0, s).pose.Health)
				require.EqualValues(t, 3, c.at(0, s).wares.Gold)
				require.Zero(t, c.at(0, s).pose.Secret, "what is not for the client does not")
			})
		})
	}
}

// 12.3d: FlushNetDormancy replicates once; a call to clients does so, too.
func TestDormantActorsReplicateOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 2, rpc.Config{})
		s := c.spawn(0, nil)
		net.Advance(settle)
		c.sleep(s)
		first, second := c.at(0, s), c.at(1, s)
		s.pose.Health = 1
		require.NoError(t, s.actor.FlushDormancy())
		net.Advance(settle)
		require.Equal(t, []string{"pose 1 was 0"}, first.heard)
		require.True(t, first.actor.Dormant())

		s.pose.Health = 2
		require.NoError(t, salute.Call(s.actor, 1))
		require.NoError(t, salute.Call(s.actor, 2))
		s.pose.Health = 3
		net.Advance(settle)
		require.ElementsMatch(t, []string{"pose 2 was 1", "salute 1", "salute 2", "pose 3 was 2"}, first.heard[1:])
		require.Equal(t, "pose 2 was 1", first.heard[1], "it came with the open, before any call")
		require.Less(t, slices.Index(first.heard, "salute 1"), slices.Index(first.heard, "salute 2"))
		require.True(t, first.actor.Dormant())
		require.EqualValues(t, 1, second.pose.Health, "the call was for the owner")

		require.NoError(t, cheer.Call(s.actor, 1))
		net.Advance(settle)
		require.ElementsMatch(t, []string{"pose 3 was 1", "cheer 1"}, second.heard[1:])
		require.True(t, second.actor.Dormant())
		require.Equal(t, []string{"cheer 1"}, s.heard)
		require.NoError(t, c.server.SetOwner(s.actor, c.conns[1]))
		net.Advance(settle)
		require.False(t, first.actor.Owned())
		require.True(t, second.actor.Owned())
		require.True(t, first.actor.Dormant() && second.actor.Dormant())
	})
}

// 12.3d: late joiners get dormant actors, asleep.
func TestLateJoinersGetDormantActors(t *testing.T) {
	everywhere(t, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 1, rpc.Config{})
		s := c.spawn(-1, func(s *trooper) { s.pose.Health = 5 })
		net.Advance(settle)
		c.sleep(s)
		c.join()
		net.Advance(settle)
		require.EqualValues(t, 5, c.at(1, s).pose.Health)
		require.True(t, c.at(1, s).actor.Dormant())
		require.NoError(t, s.actor.OpenTo(c.conns[1]), "it has it")
		require.False(t, s.actor.Channel(c.conns[1]).Open())
		require.NoError(t, s.actor.SetDormant(false))
		s.pose.Health = 6
		net.Advance(settle)
		c.requireSame()
	})
}

// 5.3: the end of a dormant actor reaches those who have its copy, though they have no channel.
func TestTheEndOfADormantActorIsTold(t *testing.T) {
	everywhere(t, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 3, rpc.Config{})
		s, other := c.spawn(0, nil), c.spawn(1, nil)
		net.Advance(settle)
		copies := []*trooper{c.at(0, s), c.at(1, s), c.at(2, s)}
		c.sleep(other)
		c.sleep(s)
		s.actor.CloseTo(c.conns[1])
		s.actor.UnloadTo(c.conns[2])
		net.Advance(settle)
		require.Equal(t, []string{"end Relevancy"}, copies[1].heard)
		require.Equal(t, []string{"end LevelUnloaded"}, copies[2].heard)
		require.NoError(t, s.actor.OpenTo(c.conns[2]))
		net.Advance(settle)
		require.NotSame(t, copies[2], c.at(2, s))
		copies[2] = c.at(2, s)
		require.True(t, copies[2].actor.Dormant())

		require.NoError(t, c.server.Destroy(s.actor))
		require.NoError(t, c.server.Destroy(other.actor))
		net.Advance(settle)
		require.Equal(t, []string{"end Destroyed"}, copies[0].heard)
		require.Equal(t, []string{"end Destroyed"}, copies[2].heard)
		for _, client := range c.clients {
			require.Empty(t, client.troopers)
			require.NoError(t, client.conn.Err())
		}
	})
}

// A dormant copy ends with its connection.
func TestDormantCopiesEndWithTheirConnection(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 2, rpc.Config{})
		s := c.spawn(-1, nil)
		net.Advance(time.Second)
		c.sleep(s)
		copied := c.at(0, s)
		c.clients[0].conn.Close(0, "bye")
		net.Advance(time.Second)
		require.Equal(t, []string{"end Disconnected"}, copied.heard)
		require.NoError(t, s.actor.SetDormant(false))
		s.pose.Health = 1
		net.Advance(time.Second)
		require.EqualValues(t, 1, c.at(1, s).pose.Health)
	})
}

// 5.3, UE: LevelUnloaded: the copy of a spawned actor ends.
func TestLevelUnloadedEndsTheCopy(t *testing.T) {
	everywhere(t, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 1, rpc.Config{})
		s := c.spawn(-1, nil)
		net.Advance(settle)
		copied := c.at(0, s)
		s.actor.UnloadTo(c.conns[0])
		net.Advance(settle)
		require.Equal(t, []string{"end LevelUnloaded"}, copied.heard)
		require.NoError(t, s.actor.OpenTo(c.conns[0]))
		net.Advance(settle)
		require.NotSame(t, copied, c.at(0, s))
	})
}

// What its own set tears off opens for nobody afterwards: not for its owner,
// and not for who joins later.
func TestTornOffBeforeItOpens(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 1, rpc.Config{})
		s := c.spawn(0, func(s *trooper) { require.NoError(t, s.actor.TearOff()) })
		require.True(t, s.actor.Alive() && s.actor.TornOff())
		late := newBarracks(t, rpc.Config{})
		net.Client(late.World)
		net.Advance(settle)
		for _, b := range append(c.clients, late) {
			require.Empty(t, refs(b))
		}
	})
}

// 12.3e: after the last update the channel closes; the client's copy lives on,
// becomes its own authority, and TornOff runs.
func TestTornOffCopiesAreTheClientsOwn(t *testing.T) {
	everywhere(t, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 2, rpc.Config{})
		s := c.spawn(0, func(s *trooper) { s.pose.Health = 100 })
		net.Advance(settle)
		first, second := c.at(0, s), c.at(1, s)
		first.heard, second.heard = nil, nil
		require.NoError(t, cheer.Call(s.actor, 1))
		s.pose.Health = 0
		require.NoError(t, s.actor.TearOff())
		require.NoError(t, s.actor.TearOff())
		s.pose.Health = 50
		require.ErrorIs(t, salute.Call(s.actor, 1), rpc.ErrClosed)
		require.ErrorIs(t, s.actor.OpenTo(c.conns[0]), rpc.ErrClosed)
		require.ErrorIs(t, s.actor.SetDormant(true), rpc.ErrClosed)
		require.NoError(t, cheer.Call(s.actor, 2))
		net.Advance(settle)
		require.Equal(t, []string{"cheer 1", "cheer 2"}, s.heard)
		for i, copied := range []*trooper{first, second} {
			require.Equal(t, []string{"cheer 1", "pose 0 was 100", "torn off at health 0"}, copied.heard, "client %d", i)
			require.True(t, copied.actor.Alive() && copied.actor.TornOff())
			require.False(t, copied.actor.Owned())
			require.Nil(t, copied.actor.Conn())
		}
		require.NoError(t, report.Call(first.actor, 3))
		require.NoError(t, salute.Call(second.actor, 4))
		require.NoError(t, c.server.Destroy(s.actor))
		net.Advance(settle)
		require.Equal(t, "report 3", first.heard[3], "it runs where it is called")
		require.Equal(t, "salute 4", second.heard[3])
		c.join()
		net.Advance(settle)
		require.Empty(t, c.clients[2].troopers, "it opens for nobody")

		c.clients[0].conn.Close(0, "bye")
		net.Advance(settle)
		require.True(t, first.actor.Alive(), "it is the client's own")
		require.NoError(t, c.clients[0].Destroy(first.actor))
		require.NoError(t, c.clients[1].Destroy(second.actor))
		require.Equal(t, "end Destroyed", first.heard[4])
		require.Equal(t, "end Destroyed", second.heard[4])
		require.Nil(t, c.clients[1].Actor(s.actor.Ref()))
	})
}

// A copy that ended with its connection hears nothing more, also when a body
// that it named is destroyed later: that outlives the connection.
func TestNothingFollowsTheEndOfAConnection(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 1, rpc.Config{})
		body := c.spawn(0, nil)
		awake := c.spawn(0, func(s *trooper) { s.wares.Mate = body.actor.Ref() })
		asleep := c.spawn(0, func(s *trooper) { s.wares.Mate = body.actor.Ref() })
		net.Advance(settle)
		require.NoError(t, asleep.actor.SetDormant(true))
		require.NoError(t, body.actor.TearOff())
		net.Advance(settle)
		corpse, mourners := c.at(0, body), []*trooper{c.at(0, awake), c.at(0, asleep)}
		c.clients[0].conn.Close(0, "bye")
		net.Advance(settle)
		require.NoError(t, c.clients[0].Destroy(corpse.actor))
		for _, m := range mourners {
			require.Equal(t, "end Disconnected", m.heard[len(m.heard)-1])
		}
	})
}

// A dormant actor that is torn off reaches the copies that sleep.
func TestTearOffReachesDormantCopies(t *testing.T) {
	everywhere(t, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 1, rpc.Config{})
		s := c.spawn(0, nil)
		net.Advance(settle)
		c.sleep(s)
		s.pose.Health = 9
		require.NoError(t, s.actor.TearOff())
		net.Advance(settle)
		require.Equal(t, []string{"pose 9 was 0", "torn off at health 9"}, c.at(0, s).heard)
		require.False(t, s.actor.Dormant() || c.at(0, s).actor.Dormant())
	})
}

// 12.3d: a dormant actor is not considered, and wakes with whatever it has, on
// a bad network, however fast it falls asleep and wakes.
func TestDormancyOnABadNetwork(t *testing.T) {
	rpctest.Run(t, rpctest.Bad, func(t *testing.T, net *rpctest.Network) {
		random := rand.New(rand.NewPCG(net.Seed(), 1))
		c := newCamp(t, net, 3, rpc.Config{})
		var all []*trooper
		for i := range 12 {
			all = append(all, c.spawn(i%4-1, nil))
		}
		net.Advance(settle)
		first := make(map[string]*trooper)
		for i := range c.clients {
			for j := range all {
				first[fmt.Sprint(i, j)] = c.at(i, all[j])
			}
		}
		for range 600 {
			s := all[random.IntN(len(all))]
			s.stir(random)
			switch random.IntN(6) {
			case 0, 1:
				require.NoError(t, s.actor.SetDormant(random.IntN(2) == 0))
			case 2:
				require.NoError(t, s.actor.FlushDormancy())
			case 3:
				require.NoError(t, c.server.SetOwner(s.actor, c.conns[random.IntN(3)]))
			case 4:
				require.NoError(t, cheer.Call(s.actor, 1))
			}
			net.Advance(33 * time.Millisecond)
		}
		for _, s := range all {
			require.NoError(t, s.actor.SetDormant(false))
		}
		net.Advance(20 * time.Second)
		c.requireSame()
		for i := range c.clients {
			for j := range all {
				require.Same(t, first[fmt.Sprint(i, j)], c.at(i, all[j]), "it was never made anew")
				require.Equal(t, all[j].actor.Conn() == c.conns[i], c.at(i, all[j]).actor.Owned())
			}
		}
	})
}

var (
	drone     = rpc.NewClass("Drone")
	droneBuzz = rpc.Server[int](drone, "Buzz", rpc.Reliable, rpc.AnyCaller())
	droneHum  = rpc.Server[int](drone, "Hum", rpc.Unreliable, rpc.AnyCaller())
	droneLoad = rpc.Server[rpc.Raw](drone, "Load", rpc.Reliable, rpc.AnyCaller())
	droneAsk  = rpc.ServerRequest[int, int](drone, "Ask", rpc.AnyCaller())
	droneTank = rpc.NewState[fuel](drone)
)

type fuel struct{ Left int32 }

// TestConstructorsThatCallWhatCloses: if the close has arrived with the open, a
// call in the constructor returns the error that it would return after the close.
func TestConstructorsThatCallWhatCloses(t *testing.T) {
	for name, row := range map[string]struct {
		end  func(server *rpc.World, a *rpc.Actor, c *rpc.Conn) error
		want error
	}{
		"dormant":   {func(_ *rpc.World, a *rpc.Actor, _ *rpc.Conn) error { return a.SetDormant(true) }, rpc.ErrDormant},
		"destroyed": {func(w *rpc.World, a *rpc.Actor, _ *rpc.Conn) error { return w.Destroy(a) }, rpc.ErrClosed},
		"torn off":  {func(_ *rpc.World, a *rpc.Actor, _ *rpc.Conn) error { return a.TearOff() }, rpc.ErrClosed},
		"closed":    {func(_ *rpc.World, a *rpc.Actor, c *rpc.Conn) error { a.CloseTo(c); return nil }, rpc.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			off(t, func(t *testing.T, net *rpctest.Network) {
				var got []error
				server, _ := droneWorld(t, nil)
				client, _ := droneWorld(t, func(a *rpc.Actor) {
					got = []error{droneBuzz.Call(a, 1), droneHum.Call(a, 1), droneAsk.Then(a, 1, func(int, error) { t.Error("it was asked") })}
				})
				net.Server(server)
				conn := net.Client(client)
				server.Post(func() {
					for range 40 { // more than one Take
						a, err := server.Spawn(drone, nil, rpc.AlwaysRelevant())
						require.NoError(t, err)
						require.NoError(t, row.end(server, a, server.Conns()[0]))
					}
				})
				net.Advance(time.Second)
				require.Len(t, got, 3)
				for _, err := range got {
					require.ErrorIs(t, err, row.want)
				}
				require.NoError(t, conn.Err())
				for a := range client.Actors() {
					if row.want == rpc.ErrDormant {
						require.ErrorIs(t, droneBuzz.Call(a, 1), row.want, "later, too")
					}
				}
			})
		})
	}
}

// TestOnRepThatCallsWhatCloses: a call in an OnRep that runs because of the close,
// or only when the close arrives, returns the error that it would return after the
// close. Before, that was ErrClosed even for an actor that falls asleep.
func TestOnRepThatCallsWhatCloses(t *testing.T) {
	for want, end := range map[error]func(*rpc.Actor) error{
		rpc.ErrDormant: func(a *rpc.Actor) error { return a.SetDormant(true) },
		rpc.ErrClosed:  (*rpc.Actor).TearOff,
	} {
		for _, ticks := range []int{0, 1} { // between the state and the close; with one, the state leaves before
			t.Run(fmt.Sprint(want, ", ", ticks), func(t *testing.T) {
				off(t, func(t *testing.T, net *rpctest.Network) {
					var got []error
					server, drones := droneWorld(t, nil)
					client, copies := droneWorld(t, nil)
					rpc.OnRep(copies, droneTank, func(d *droneObject, _ fuel) { got = append(got, droneBuzz.Call(d.actor, 1)) })
					net.Server(server)
					net.Client(client)
					a, object, err := rpc.Spawn(drones, nil, nil, rpc.AlwaysRelevant())
					require.NoError(t, err)
					net.Advance(time.Second)
					net.Pause(client, time.Second)
					object.tank.Left++
					net.Advance(time.Duration(ticks) * time.Second / 30)
					require.NoError(t, end(a))
					net.Advance(2 * time.Second)
					require.Len(t, got, 1)
					require.ErrorIs(t, got[0], want)
				})
			})
		}
	}
}

type droneObject struct {
	actor *rpc.Actor
	tank  fuel
}

func droneWorld(t *testing.T, construct func(*rpc.Actor)) (*rpc.World, *rpc.Binding[*droneObject]) {
	w, err := rpc.NewWorld(rpc.Config{})
	require.NoError(t, err)
	b := rpc.Bind(w, drone, func(a *rpc.Actor) *droneObject {
		if construct != nil {
			construct(a)
		}
		return &droneObject{actor: a}
	})
	rpc.Replicate(b, droneTank, func(d *droneObject) *fuel { return &d.tank })
	return w, b
}
