package rpc

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRouting is the table of unreal.md 6.1: two clients see one actor.
func TestRouting(t *testing.T) {
	const nobody, server, first, second = -2, -1, 0, 1
	fires := func(a *Actor) error { return fire.Call(a, shot{}) }
	hits := func(a *Actor) error { return hit.Call(a, 1) }
	explodes := func(a *Actor) error { return blast.Call(a, 1) }
	shouts := func(a *Actor) error { return shout.Call(a, "x") }
	for _, row := range []struct {
		name  string
		call  func(*Actor) error
		on    int   // where it is called
		owner int   // whose actor it is
		runs  []int // where it runs
		heard string
		err   error
	}{
		{"Server on the server, owned", fires, server, first, []int{server}, "fire", nil},
		{"Server on the server, nobody's", fires, server, nobody, []int{server}, "fire", nil},
		{"Server on its owner", fires, first, first, []int{server}, "fire", nil},
		{"Server on another client", fires, second, first, nil, "fire", ErrNotOwner},
		{"Server on a client, nobody's", fires, first, nobody, nil, "fire", ErrNotOwner},
		{"AnyCaller on another client", shouts, second, first, []int{server}, "shout x", nil},
		{"Client on the server, owned", hits, server, second, []int{second}, "hit", nil},
		{"Client on the server, nobody's", hits, server, nobody, []int{server}, "hit", nil},
		{"Client on its owner", hits, first, first, []int{first}, "hit", nil},
		{"Client on another client", hits, second, first, []int{second}, "hit", nil},
		{"Multicast on the server", explodes, server, first, []int{server, first, second}, "explode", nil},
		{"Multicast on the server, nobody's", explodes, server, nobody, []int{server, first, second}, "explode", nil},
		{"Multicast on a client", explodes, first, second, []int{first}, "explode", nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			inNet(t, 2, Config{}, func(n *network) {
				a := n.spawn(max(row.owner, server), AlwaysRelevant())
				called := a
				if row.on >= 0 {
					called = n.mirror(row.on, a)
				}
				require.ErrorIs(t, row.call(called), row.err)
				n.tick(3)
				for i, w := range []*testWorld{n.server, n.clients[0], n.clients[1]} {
					want := []string(nil)
					for _, place := range row.runs {
						if place == i-1 {
							want = []string{row.heard}
						}
					}
					require.Equal(t, want, w.take(), "world %d", i-1)
				}
			})
		})
	}
}

func TestOpenTravelsBeforeTheFirstCall(t *testing.T) {
	inNet(t, 1, Config{}, func(n *network) {
		a := n.named(-1, "full of holes")
		n.tick(3)
		require.Empty(t, n.clients[0].take(), "nobody's actor is open nowhere")

		a.conn = n.conns[0] // as after CloseTo: owned, and not open
		require.NoError(t, hit.Call(a, 1))
		n.tick(3)
		require.Equal(t, []string{"open full of holes", "hit"}, n.clients[0].take())
		require.True(t, n.mirror(0, a).Owned())
		a.conn = nil
	})
}

func TestUnreliableCallArrives(t *testing.T) {
	inNet(t, 1, Config{}, func(n *network) {
		a := n.spawn(0)
		require.NoError(t, blink.Call(a, 1))
		n.tick(2)
		require.Equal(t, []string{"blink"}, n.clients[0].take())
	})
}

func TestMulticastReachesThoseForWhomTheActorIsOpen(t *testing.T) {
	inNet(t, 3, Config{}, func(n *network) {
		a := n.spawn(0)
		require.NoError(t, a.OpenTo(n.conns[2]))
		require.NoError(t, blast.Call(a, 1))
		n.tick(3)
		require.Equal(t, []string{"explode"}, n.server.take())
		require.Equal(t, []string{"explode"}, n.clients[0].take())
		require.Empty(t, n.clients[1].take())
		require.Equal(t, []string{"open ", "explode"}, n.clients[2].take())
	})
}

// TestSkipOwner: the present owner does not get the call; the server and other clients do.
func TestSkipOwner(t *testing.T) {
	inNet(t, 2, Config{}, func(n *network) {
		a := n.spawn(0)
		require.NoError(t, a.OpenTo(n.conns[1]))
		n.tick(3)
		n.clients[1].take()
		hear := func(server, first, second []string) {
			t.Helper()
			require.NoError(t, voice.Call(a, "hi"))
			n.tick(3)
			require.Equal(t, server, n.server.take())
			require.Equal(t, first, n.clients[0].take())
			require.Equal(t, second, n.clients[1].take())
		}
		said := []string{"voice hi"}
		hear(said, nil, said)
		require.NoError(t, n.server.SetOwner(a, nil))
		require.NoError(t, a.OpenTo(n.conns[0]))
		n.tick(3)
		n.clients[0].take()
		hear(said, said, said)
		require.NoError(t, n.server.SetOwner(a, n.conns[1]))
		hear(said, said, nil)
	})
}

func TestCallsThatCanNotBeMade(t *testing.T) {
	inNet(t, 1, Config{MaxLocalCalls: 2}, func(n *network) {
		a := n.spawn(0)
		mirror := n.mirror(0, a)
		other := NewClass("Other")
		far := Client[None](other, "Far", Reliable)
		require.ErrorContains(t, far.Call(a, None{}), `Other.Far called on Hero 1`)
		require.EqualError(t, bulk.Call(a, make(Raw, 65536)), fmt.Sprintf("rpc: Hero.Bulk: call of 65537 bytes to %v; the limit is 65536 "+
			"(Config.Bunch.MaxBunch): use package stream for larger data: bunch: message too large", n.conns[0]))

		require.NoError(t, fire.Call(a, shot{}))
		require.NoError(t, fire.Call(a, shot{}))
		require.ErrorIs(t, fire.Call(a, shot{}), ErrBacklogFull)

		_, err := n.clients[0].Spawn(hero, nil)
		for by, err := range map[string]error{
			`Spawn of a "Hero"`: err,
			"Destroy of Hero 1, which is not torn off, nor placed without a channel,": n.clients[0].Destroy(mirror),
			"SetOwner of Hero 1": n.clients[0].SetOwner(mirror, nil),
			"OpenTo of Hero 1":   mirror.OpenTo(n.ends[0]),
			"SetView":            n.ends[0].SetView(nil),
			"SetViewPoint":       n.ends[0].SetViewPoint(0, 0, 0),
		} {
			require.ErrorIs(t, err, ErrWrongRole)
			require.EqualError(t, err, "rpc: "+by+" on a client: only the server may do that: wrong role")
		}

		require.NoError(t, n.server.Destroy(a))
		require.ErrorIs(t, hit.Call(a, 1), ErrClosed)
		n.tick(3)
		require.Equal(t, []string{"close Destroyed"}, n.server.take(), "local calls on a destroyed actor do not run")
		require.EqualValues(t, 2, n.server.Dropped())
		require.Equal(t, []string{"close Destroyed"}, n.clients[0].take())
		require.ErrorIs(t, fire.Call(mirror, shot{}), ErrClosed)
	})
}

// TestCallAfterTheCloseSaysWhy: on the client, before and after the world has learned of the end.
func TestCallAfterTheCloseSaysWhy(t *testing.T) {
	inNet(t, 1, Config{}, func(n *network) {
		a := n.spawn(0)
		mirror := n.mirror(0, a)
		says := func(err error, want string) {
			t.Helper()
			var closed *CloseError
			require.ErrorAs(t, err, &closed)
			require.ErrorIs(t, err, ErrClosed)
			require.ErrorContains(t, err, want)
		}
		n.conns[0].Close(1024, "round over")
		require.NoError(t, hit.Call(a, 1), "the game may not have heard of it")
		<-n.ends[0].Done()
		want := "rpc: Hero.Fire for conn 1: connection closed by the peer: Code(1024): round over"
		says(fire.Call(mirror, shot{}), want)
		n.tick(3)
		require.Equal(t, []string{"close Disconnected"}, n.clients[0].take())
		says(fire.Call(mirror, shot{}), want)
	})
}

// TestCallsToAClientThatIsGoneAreCounted: between the end of a connection and its OnDisconnect
// no call returns an error. Afterwards its actors have ended, and calls on them do.
func TestCallsToAClientThatIsGoneAreCounted(t *testing.T) {
	for name, end := range map[string]func(n *network){
		"closed here": func(n *network) { n.conns[0].Close(1024, "enough") },
		"closed there": func(n *network) {
			n.ends[0].Close(1024, "enough")
			<-n.conns[0].Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			inNet(t, 2, Config{}, func(n *network) {
				a := n.spawn(0, AlwaysRelevant())
				end(n)
				require.NoError(t, hit.Call(a, 1))
				require.NoError(t, blink.Call(a, 1))
				require.NoError(t, blast.Call(a, 1))
				require.ErrorContains(t, haul.Call(a, nil), "another class", "other misuse is said")
				require.NoError(t, fire.Call(a, shot{}), "it runs here")
				require.EqualValues(t, 3, n.conns[0].Stats().Drops.Gone)
				n.tick(4)
				require.Equal(t, []string{"explode", "fire", "close Destroyed"}, n.server.take())
				require.Equal(t, []string{"explode", "close Destroyed"}, n.clients[1].take())
				require.ErrorIs(t, hit.Call(a, 1), ErrClosed)
			})
		})
	}
}

// TestNoActorIsSaid: before, it was a nil dereference in an inner function.
func TestNoActorIsSaid(t *testing.T) {
	w := newTestWorld(t, Config{})
	for _, a := range []*Actor{nil, {}} {
		require.ErrorContains(t, fire.Call(a, shot{}), "rpc: Hero.Fire called on a nil *Actor or an Actor{}")
		require.ErrorContains(t, w.Destroy(a), "rpc: Destroy of a nil *Actor")
		require.ErrorContains(t, w.SetOwner(a, nil), "rpc: SetOwner of a nil *Actor")
	}
}

// TestActorOfAnotherWorld: before, a world changed actors of another world,
// which another goroutine may drive.
func TestActorOfAnotherWorld(t *testing.T) {
	here, other := newTestWorld(t, Config{Classes: []*Class{hero}}), newTestWorld(t, Config{Classes: []*Class{hero}})
	a, err := other.Spawn(hero, nil)
	require.NoError(t, err)
	require.ErrorContains(t, here.Destroy(a), `rpc: Destroy of Hero 1 of another world: use Actor.World`)
	require.ErrorContains(t, here.SetOwner(a, nil), `rpc: SetOwner of Hero 1 of another world: use Actor.World`)
	require.True(t, a.Alive())
}

// TestConnOfAnotherWorld: before, if both ends were in one program, an actor
// could open on a client's own end, which closed the connection.
func TestConnOfAnotherWorld(t *testing.T) {
	inNet(t, 1, Config{}, func(n *network) {
		a, other := n.spawn(0), newTestWorld(t, Config{Classes: []*Class{hero}})
		stranger, err := other.Spawn(hero, nil)
		require.NoError(t, err)
		for _, c := range []*Conn{n.ends[0], nil} {
			err := a.OpenTo(c)
			require.ErrorIs(t, err, ErrWrongRole)
			require.ErrorContains(t, err, "rpc: OpenTo of "+a.String())
			a.CloseTo(c)
			a.UnloadTo(c)
		}
		require.ErrorIs(t, stranger.OpenTo(n.conns[0]), ErrWrongRole)
		err = n.conns[0].SetView(stranger)
		require.ErrorIs(t, err, ErrWrongRole)
		require.ErrorContains(t, err, "rpc: SetView to Hero 1: actor belongs to another world")
		n.tick(4)
		require.NoError(t, hit.Call(a, 1))
		n.tick(4)
		require.Contains(t, n.clients[0].take(), "hit")
	})
}

// TestNoClassIsSaid: before, it was a nil dereference in an inner function.
func TestNoClassIsSaid(t *testing.T) {
	_, err := newTestWorld(t, Config{}).Spawn(nil, nil)
	require.ErrorContains(t, err, "rpc: Spawn of a nil *Class")
	_, err = NewWorld(Config{Classes: []*Class{nil}})
	require.ErrorContains(t, err, "nil *Class")
}

func TestUnboundIsSaid(t *testing.T) {
	lonely := NewClass("Lonely")
	ping := Server[None](lonely, "Ping", Reliable)
	w, err := NewWorld(Config{Classes: []*Class{lonely}})
	require.NoError(t, err)
	a, err := w.Spawn(lonely, nil)
	require.NoError(t, err)
	require.ErrorIs(t, ping.Call(a, None{}), ErrUnbound)
	require.EqualError(t, ping.Call(a, None{}), "rpc: Lonely.Ping would run in this world: no handler bound: bind one with On or OnRequest")
}

// TestConstructorCallsThisWorld: a call that runs here waits for the next
// Dispatch, when the constructor has returned its object.
func TestConstructorCallsThisWorld(t *testing.T) {
	robot := NewClass("Robot")
	arm := NewComponent(robot, "Arm")
	wake := Client[int](robot, "Wake", Reliable)
	shout := Multicast[int](robot, "Shout", Reliable)
	grip := Server[int](arm, "Grip", Reliable)
	w := newTestWorld(t, Config{})
	var heard []string
	note := func(name string) func(*Actor, *Call, int) {
		return func(a *Actor, _ *Call, n int) { heard = append(heard, fmt.Sprint(name, n, a.Alive())) }
	}
	robots := Bind(w.World, robot, func(a *Actor) *Actor {
		require.NoError(t, wake.Call(a, 1))
		require.NoError(t, shout.Call(a, 2))
		require.NoError(t, grip.Call(a, 3))
		return a
	})
	arms := Bind(w.World, arm, func(a *Actor) *Actor {
		require.NoError(t, grip.Call(a, 4))
		return a
	})
	On(robots, wake, note("wake"))
	On(robots, shout, note("shout"))
	On(arms, grip, note("grip"))
	_, err := w.Spawn(robot, nil)
	require.NoError(t, err)
	require.Empty(t, heard, "before the next Dispatch")
	w.Tick(time.Now())
	require.Equal(t, []string{"wake1 true", "shout2 true", "grip3 true", "grip4 true"}, heard)
}

// TestCallWithoutObjectIsDropped: a constructor may return a nil interface, and
// there is nothing on which its calls could run.
func TestCallWithoutObjectIsDropped(t *testing.T) {
	ghost := NewClass("Ghost")
	boo := Client[None](ghost, "Boo", Reliable)
	w := newTestWorld(t, Config{})
	ghosts := Bind(w.World, ghost, func(a *Actor) fmt.Stringer {
		require.NoError(t, boo.Call(a, None{}))
		return nil
	})
	On(ghosts, boo, func(fmt.Stringer, *Call, None) { t.Error("a handler ran without an object") })
	_, err := w.Spawn(ghost, nil)
	require.NoError(t, err)
	w.Tick(time.Now())
	require.EqualValues(t, 1, w.Dropped())
}

// TestHandlersOfOnesOwnCalls: a nil Conn answers the methods that a handler
// calls on its caller if the server has called itself.
func TestHandlersOfOnesOwnCalls(t *testing.T) {
	w := newTestWorld(t, Config{})
	a, err := w.Spawn(hero, nil)
	require.NoError(t, err)
	heard := false
	w.onFire = func(call *Call, _ shot) {
		heard = true
		require.Nil(t, call.Conn)
		require.Empty(t, call.Conn.Identity())
		require.Nil(t, call.Conn.RemoteAddr())
		require.Zero(t, call.Conn.RTT())
		require.Equal(t, "no conn", fmt.Sprint(call.Conn))
		require.Equal(t, "no conn", call.Conn.LogValue().String())
		require.ErrorContains(t, call.Conn.SendMessage(1, nil), "made in this world")
		call.Conn.Close(1024, "nobody to close")
	}
	require.NoError(t, fire.Call(a, shot{1}))
	w.Tick(time.Now())
	require.True(t, heard)
}
