package rpctest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/rpctest"
)

// place makes a soldier of the level on the server, for everybody.
func (c *camp) place(name string, options ...rpc.SpawnOption) *trooper {
	c.t.Helper()
	_, s, err := rpc.Place(c.server.binding, name, func(s *trooper) { s.pose.Health = 100 }, options...)
	require.NoError(c.t, err)
	return s
}

// joinLevel adds a client that places soldiers of the level as soon as it is in.
func (c *camp) joinLevel(names ...string) []*trooper {
	c.t.Helper()
	b := newBarracks(c.t, rpc.Config{})
	placed := make([]*trooper, len(names))
	b.OnConnect(func(*rpc.Conn) {
		for i, name := range names {
			a, s, err := rpc.Place(b.binding, name, func(s *trooper) { s.pose.Name = name })
			require.NoError(c.t, err)
			require.Same(c.t, a, s.actor)
			placed[i] = s
		}
	})
	b.conn = c.net.Client(b.World)
	c.clients = append(c.clients, b)
	require.True(c.t, c.net.Until(settle, func() bool { return len(names) == 0 || placed[len(names)-1] != nil }))
	return placed
}

// 12.3g: actors of a level have stable names on both ends and need no spawn:
// the server's open uses the client's object.
func TestPlacedActorsAreTheSameOnBothEnds(t *testing.T) {
	everywhere(t, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 0, rpc.Config{})
		s, hidden := c.place("gate", rpc.AlwaysRelevant()), c.place("cellar")
		placed := c.joinLevel("gate", "cellar", "only here")
		gate, cellar, own := placed[0], placed[1], placed[2]
		net.Advance(settle)
		require.Same(t, gate.actor, c.clients[0].Actor(s.actor.Ref()))
		require.EqualValues(t, 100, gate.pose.Health)
		require.False(t, gate.actor.Dormant())
		require.Equal(t, rpc.SimulatedProxy, gate.actor.Role())
		require.Zero(t, cellar.actor.Ref())
		require.True(t, cellar.actor.Alive())
		require.ErrorIs(t, report.Call(cellar.actor, 1), rpc.ErrDormant)
		require.ErrorContains(t, report.Call(cellar.actor, 1), `placed as "cellar", which has no channel because it is too far away, dormant or not open yet`)
		require.Len(t, refs(c.clients[0]), 3)

		again, object, err := rpc.Place(c.clients[0].binding, "gate", func(*trooper) { t.Error("it is there") })
		require.NoError(t, err)
		require.Same(t, gate.actor, again)
		require.Same(t, gate, object)
		require.NoError(t, hidden.actor.OpenTo(c.conns[0]))
		require.NoError(t, c.clients[0].Destroy(own.actor), "it has no channel")
		require.ErrorIs(t, c.clients[0].Destroy(gate.actor), rpc.ErrWrongRole)
		net.Advance(settle)
		require.Equal(t, hidden.actor.Ref(), cellar.actor.Ref())
		require.EqualValues(t, 100, cellar.pose.Health)
	})
}

// An open that comes before the client has placed its own makes it, and Place returns it.
func TestPlacedActorsThatOpenFirst(t *testing.T) {
	everywhere(t, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 1, rpc.Config{})
		s := c.place("gate", rpc.AlwaysRelevant())
		net.Advance(settle)
		made := c.at(0, s)
		a, object, err := rpc.Place(c.clients[0].binding, "gate", nil)
		require.NoError(t, err)
		require.Same(t, made, object)
		require.Same(t, made.actor, a)
		require.EqualValues(t, 100, object.pose.Health)
	})
}

// 12.3g: their destruction is told to all, also to late joiners, whether or not
// the actor was ever open there.
func TestTheEndOfPlacedActorsIsTold(t *testing.T) {
	everywhere(t, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 0, rpc.Config{})
		gate, cellar, stays := c.place("gate", rpc.AlwaysRelevant()), c.place("cellar"), c.place("roof")
		first := c.joinLevel("gate", "cellar", "roof")
		net.Advance(settle)
		require.NoError(t, c.server.Destroy(gate.actor))
		require.NoError(t, c.server.Destroy(cellar.actor))
		net.Advance(settle)
		late, later := c.joinLevel("gate", "cellar", "roof"), c.joinLevel()
		net.Advance(settle)
		for _, placed := range [][]*trooper{first, late} {
			require.Equal(t, "end Destroyed", last(placed[0].heard))
			require.Equal(t, []string{"end Destroyed"}, placed[1].heard)
			require.True(t, placed[2].actor.Alive())
		}
		require.Empty(t, later)
		for _, name := range []string{"gate", "cellar"} {
			_, _, err := rpc.Place(c.clients[2].binding, name, nil)
			require.ErrorIs(t, err, rpc.ErrClosed, "it loads its level later")
		}
		_, _, err := rpc.Place(c.clients[2].binding, "roof", nil)
		require.NoError(t, err)

		_, _, err = rpc.Place(c.server.binding, "roof", nil)
		require.ErrorContains(t, err, "has that name")
		_, _, err = rpc.Place(c.server.binding, "gate", nil)
		require.ErrorIs(t, err, rpc.ErrClosed, "its clients know that it is gone for good")
		require.True(t, stays.actor.Alive())
	})
}

// 5.3: a placed actor is kept when its level is unloaded, or when it is
// relevant no more, and used again.
func TestPlacedCopiesOutliveTheirChannels(t *testing.T) {
	everywhere(t, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 0, rpc.Config{})
		s := c.place("gate", rpc.AlwaysRelevant())
		gate := c.joinLevel("gate")[0]
		net.Advance(settle)
		for i, close := range []func(*rpc.Conn){s.actor.CloseTo, s.actor.UnloadTo} {
			close(c.conns[0])
			net.Advance(settle)
			require.True(t, gate.actor.Alive())
			require.True(t, gate.actor.Dormant(), "it has no channel")
			require.Same(t, gate.actor, c.clients[0].Actor(s.actor.Ref()))
			s.pose.Health = uint16(i)
			require.NoError(t, s.actor.FlushDormancy(), "it is not dormant")
			require.False(t, s.actor.Channel(c.conns[0]).Open())
			require.NoError(t, s.actor.OpenTo(c.conns[0]))
			net.Advance(settle)
			require.EqualValues(t, i, gate.pose.Health)
			require.False(t, gate.actor.Dormant())
		}
		s.actor.CloseTo(c.conns[0])
		require.NoError(t, c.server.Destroy(s.actor))
		net.Advance(settle)
		require.Equal(t, "end Destroyed", last(gate.heard))
	})
}

// Who has a placed actor when it is torn off keeps it; the copies of all others end.
func TestPlacedActorsThatAreTornOff(t *testing.T) {
	everywhere(t, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 0, rpc.Config{})
		s := c.place("gate")
		has, parked, never := c.joinLevel("gate")[0], c.joinLevel("gate")[0], c.joinLevel("gate")[0]
		require.NoError(t, s.actor.OpenTo(c.conns[0]))
		require.NoError(t, s.actor.OpenTo(c.conns[1]))
		net.Advance(settle)
		s.actor.UnloadTo(c.conns[1])
		s.pose.Health = 1
		require.NoError(t, s.actor.TearOff())
		net.Advance(settle)
		require.NoError(t, c.server.Destroy(s.actor))
		late := c.joinLevel("gate")[0]
		net.Advance(settle)
		for _, copied := range []*trooper{has, parked} {
			require.True(t, copied.actor.TornOff())
			require.Equal(t, "torn off at health 1", last(copied.heard))
		}
		require.Equal(t, []string{"end Destroyed"}, never.heard)
		require.Equal(t, []string{"end Destroyed"}, late.heard)
		for _, client := range c.clients {
			require.NoError(t, client.conn.Err())
		}
	})
}

// A placed copy that was open ends with its connection; one that was not waits for the next.
func TestPlacedCopiesAndTheirConnection(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 0, rpc.Config{})
		c.place("gate", rpc.AlwaysRelevant())
		placed := c.joinLevel("gate", "cellar")
		net.Advance(time.Second)
		c.clients[0].conn.Close(0, "bye")
		net.Advance(time.Second)
		require.Equal(t, "end Disconnected", last(placed[0].heard))
		require.True(t, placed[1].actor.Alive())
		require.Empty(t, placed[1].heard)
	})
}

// A client that comes again before its old connection has ended is connected twice
// for a moment. The end of the first copy of a name leaves the next one to Place.
func TestPlacedCopiesOfSomeConnections(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 1, rpc.Config{})
		s, b := c.place("gate", rpc.AlwaysRelevant()), c.clients[0]
		net.Advance(settle)
		second, third := net.Client(b.World), net.Client(b.World)
		net.Advance(settle)
		require.Len(t, refs(b), 3)
		gate := func() rpc.Ref {
			a, _, err := rpc.Place(b.binding, "gate", nil)
			require.NoError(t, err)
			return a.Ref()
		}
		for _, conn := range []*rpc.Conn{second, b.conn} {
			conn.Close(0, "bye")
			net.Advance(settle)
			require.Equal(t, s.actor.Ref(), gate())
		}
		third.Close(0, "bye")
		net.Advance(settle)
		require.Zero(t, gate(), "it is a new one")
	})
}

// Names are said to be wrong at the call.
func TestNamesOfPlacedActors(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 0, rpc.Config{})
		for _, name := range []string{"", "a\nb", string(make([]byte, 129))} {
			_, _, err := rpc.Place(c.server.binding, name, nil)
			require.ErrorContains(t, err, "printable bytes")
		}
	})
}

// A server that places and destroys for weeks keeps each name for those who
// join later. That must neither make Place slow nor keep everybody out.
func TestNamesForWeeks(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 0, rpc.Config{})
		var err error
		names := 0
		for ; err == nil && names < 300_000; names++ {
			var a *rpc.Actor
			if a, _, err = rpc.Place(c.server.binding, fmt.Sprint("gate ", names), nil); err == nil {
				require.NoError(t, c.server.Destroy(a))
			}
		}
		require.ErrorContains(t, err, "world has placed 262144 actors, which is the limit")
		b := newBarracks(t, rpc.Config{})
		conn := net.Client(b.World)
		last := fmt.Sprint("gate ", names-2)
		require.True(t, net.Until(time.Minute, func() bool {
			a, _, err := rpc.Place(b.binding, last, nil)
			if err == nil {
				require.NoError(t, b.Destroy(a))
			}
			return err != nil || conn.Err() != nil
		}))
		net.Advance(time.Second)
		require.NoError(t, conn.Err())
		_, _, err = rpc.Place(b.binding, last, nil)
		require.ErrorIs(t, err, rpc.ErrClosed)
	})
}
