package rpctest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/emulation"
	"github.com/quivernet/quiver/rpc/rpctest"
)

// lobby is a camp whose clients get their soldier in Login.
func newLobby(t testing.TB, net *rpctest.Network, order *[]string, login func(c *rpc.Conn) error) *camp {
	c := &camp{t: t, net: net}
	note := func(what string) { *order = append(*order, what) }
	c.server = newBarracks(t, rpc.Config{
		Authenticate: func(_ context.Context, token []byte) (string, error) { note("PreLogin"); return string(token), nil },
		Login:        func(_ *rpc.World, conn *rpc.Conn) error { note("Login " + conn.Identity()); return login(conn) },
		OnConnect:    func(_ *rpc.World, conn *rpc.Conn) { note("PostLogin"); c.conns = append(c.conns, conn) },
		OnDisconnect: func(*rpc.World, *rpc.Conn, error) { note("Logout") },
	})
	net.Server(c.server.World)
	return c
}

// 12.4a: PreLogin may refuse, Login makes the controller, PostLogin is the
// first place where its RPCs may be called, Logout when it goes.
func TestLoginMakesThePlayerBeforeTheClientIsIn(t *testing.T) {
	everywhere(t, func(t *testing.T, net *rpctest.Network) {
		var order []string
		var player, gun *trooper
		var c *camp
		c = newLobby(t, net, &order, func(conn *rpc.Conn) (err error) {
			_, player, err = rpc.Spawn(c.server.binding, conn, func(s *trooper) { s.pose.Name = conn.Identity() })
			require.NoError(t, err)
			_, gun, err = rpc.Spawn(c.server.binding, nil, nil)
			require.NoError(t, err)
			require.NoError(t, c.server.SetOwner(gun.actor, player.actor))
			require.ErrorContains(t, salute.Call(player.actor, 1), "in OnConnect or later")
			require.Empty(t, c.server.Conns())
			return nil
		})
		c.server.OnConnect(func(*rpc.Conn) { require.NoError(t, salute.Call(player.actor, 2)) })
		b := newBarracks(t, rpc.Config{Token: []byte("ada")})
		b.conn = net.Client(b.World)
		net.Advance(settle)
		require.Equal(t, []string{"PreLogin", "Login ada", "PostLogin"}, order)
		copied := b.troopers[player.actor.Ref()]
		require.Equal(t, "ada", copied.pose.Name)
		require.True(t, copied.actor.Owned())
		require.Contains(t, copied.heard, "salute 2")
		require.True(t, b.troopers[gun.actor.Ref()].actor.Owned())
		b.conn.Close(0, "bye")
		net.Advance(settle)
		require.Equal(t, "Logout", order[3])
		require.Empty(t, c.server.troopers)
	})
}

// 12.4a: a refused client reads why; what Login made of it is gone.
func TestLoginMayRefuse(t *testing.T) {
	everywhere(t, func(t *testing.T, net *rpctest.Network) {
		var order []string
		var c *camp
		c = newLobby(t, net, &order, func(conn *rpc.Conn) error {
			_, _, err := rpc.Spawn(c.server.binding, conn, nil, rpc.AlwaysRelevant())
			require.NoError(t, err)
			return errors.New("the match is full")
		})
		_, err := net.Join(newBarracks(t, rpc.Config{}).World)
		var closed *rpc.CloseError
		require.ErrorAs(t, err, &closed)
		require.Equal(t, rpc.PreLoginFailure, closed.Code)
		require.Equal(t, "the match is full", closed.Reason)
		net.Advance(settle)
		require.Equal(t, []string{"PreLogin", "Login "}, order, "no Logout without PostLogin")
		require.Empty(t, c.server.troopers)
	})
}

// A client that goes between Login and Join leaves nothing behind.
func TestWhoNeverJoinsLeavesNothing(t *testing.T) {
	rpctest.Run(t, emulation.Settings{PktLag: 100 * time.Millisecond}, func(t *testing.T, net *rpctest.Network) {
		var order []string
		var c *camp
		c = newLobby(t, net, &order, func(conn *rpc.Conn) error {
			_, _, err := rpc.Spawn(c.server.binding, conn, nil)
			require.NoError(t, err)
			conn.Close(2000, "not today")
			return nil
		})
		_, err := net.Join(newBarracks(t, rpc.Config{}).World)
		require.ErrorContains(t, err, "not today")
		net.Advance(settle)
		require.Equal(t, []string{"PreLogin", "Login "}, order)
		require.Empty(t, c.server.troopers)
	})
}

// The handshake's time limit bounds a Login that has no world to run on.
func TestLoginIsBoundedByTheHandshake(t *testing.T) {
	rpctest.Run(t, emulation.Settings{PktLag: 50 * time.Millisecond}, func(t *testing.T, net *rpctest.Network) {
		var order []string
		c := newLobby(t, net, &order, func(*rpc.Conn) error { return nil })
		net.Pause(c.server.World, time.Minute)
		_, err := net.Join(newBarracks(t, rpc.Config{}).World)
		var closed *rpc.CloseError
		require.ErrorAs(t, err, &closed)
		require.Equal(t, rpc.HandshakeTimeout, closed.Code)
		require.InDelta(t, 10, net.Elapsed().Seconds(), 1)
		net.Advance(time.Minute)
		require.Equal(t, []string{"PreLogin"}, order, "it does not run for who is gone")
	})
}

// 12.4a: nothing replicates to a client before PostLogin is over, unless PostLogin itself shows
// it. So what PostLogin gives back, such as a player state, is its owner's from the beginning.
func TestWhatPostLoginGivesIsTheOwnersFromTheBeginning(t *testing.T) {
	everywhere(t, func(t *testing.T, net *rpctest.Network) {
		var kept, other *trooper
		s := newBarracks(t, rpc.Config{OnConnect: func(w *rpc.World, conn *rpc.Conn) {
			require.False(t, other.actor.Channel(conn).Open())
			require.NoError(t, w.SetOwner(kept.actor, conn))
			require.NoError(t, salute.Call(kept.actor, 1))
			kept.pose.Health, other.pose.Health = 2, 2
		}})
		net.Server(s.World)
		spawn := func() (o *trooper) {
			_, o, err := rpc.Spawn(s.binding, nil, func(o *trooper) { o.pose.Health, o.pose.Ammo, o.pose.Cover = 1, 5, 6 }, rpc.AlwaysRelevant())
			require.NoError(t, err)
			return o
		}
		kept, other = spawn(), spawn()
		b := newBarracks(t, rpc.Config{})
		net.Client(b.World)
		net.Advance(settle)
		copied := b.troopers[kept.actor.Ref()]
		require.NotContains(t, copied.heard, "owned true", "it has been since the constructor")
		require.Contains(t, copied.heard, "salute 1")
		require.True(t, copied.actor.Owned())
		require.EqualValues(t, 5, copied.pose.Ammo)
		require.Zero(t, copied.pose.Cover)
		require.EqualValues(t, 2, copied.pose.Health)
		copied = b.troopers[other.actor.Ref()]
		require.Equal(t, []string{"pose 2 was 0"}, copied.heard, "the open carries what PostLogin has changed")
		require.EqualValues(t, 6, copied.pose.Cover)
	})
}

// 12.4a: what is for everybody is not open in PostLogin yet, unless PostLogin opens it.
func TestWhatIsForEverybodyOpensBehindPostLogin(t *testing.T) {
	everywhere(t, func(t *testing.T, net *rpctest.Network) {
		var state, opened *trooper
		s := newBarracks(t, rpc.Config{OnConnect: func(_ *rpc.World, conn *rpc.Conn) {
			for _, o := range []*trooper{state, opened} {
				require.Nil(t, conn.Actor(o.actor.Ref()))
				require.Zero(t, o.actor.Channel(conn))
			}
			require.NoError(t, opened.actor.OpenTo(conn))
			require.Equal(t, opened.actor, conn.Actor(opened.actor.Ref()))
			require.True(t, opened.actor.Channel(conn).Open())
			require.Nil(t, conn.Actor(state.actor.Ref()))
		}})
		net.Server(s.World)
		for _, o := range []**trooper{&state, &opened} {
			var err error
			_, *o, err = rpc.Spawn(s.binding, nil, nil, rpc.AlwaysRelevant())
			require.NoError(t, err)
		}
		conn := net.Client(newBarracks(t, rpc.Config{}).World)
		require.True(t, net.Until(settle, func() bool { return conn.Actor(state.actor.Ref()) != nil && conn.Actor(opened.actor.Ref()) != nil }))
		require.Equal(t, state.actor, s.Conns()[0].Actor(state.actor.Ref()), "it opened in the same Dispatch")
	})
}

// 12.4a: who joins is among those whom PostLogin tells, and what it closes for him stays closed.
func TestPostLoginTellsAllAndMayClose(t *testing.T) {
	everywhere(t, func(t *testing.T, net *rpctest.Network) {
		var state, hidden *trooper
		s := newBarracks(t, rpc.Config{OnConnect: func(w *rpc.World, conn *rpc.Conn) {
			require.NoError(t, cheer.Call(state.actor, len(w.Conns())))
			hidden.actor.CloseTo(conn)
		}})
		net.Server(s.World)
		var err error
		_, state, err = rpc.Spawn(s.binding, nil, nil, rpc.AlwaysRelevant())
		require.NoError(t, err)
		_, hidden, err = rpc.Spawn(s.binding, nil, nil, rpc.AlwaysRelevant())
		require.NoError(t, err)
		ada, bob := newBarracks(t, rpc.Config{}), newBarracks(t, rpc.Config{})
		net.Client(ada.World)
		net.Client(bob.World)
		net.Advance(settle)
		require.Subset(t, ada.troopers[state.actor.Ref()].heard, []string{"cheer 1", "cheer 2"})
		require.Contains(t, bob.troopers[state.actor.Ref()].heard, "cheer 2")
		require.NotContains(t, bob.troopers[state.actor.Ref()].heard, "cheer 1")
		require.Nil(t, ada.troopers[hidden.actor.Ref()])
		require.Nil(t, bob.troopers[hidden.actor.Ref()])
		require.NoError(t, hidden.actor.OpenTo(s.Conns()[0]))
		net.Advance(settle)
		require.NotNil(t, ada.troopers[hidden.actor.Ref()])
	})
}

// What a constructor tells all reaches nobody, also when PostLogin spawns: the
// open carries the states that Spawn leaves.
func TestPostLoginSpawns(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		var made *trooper
		s := newBarracks(t, rpc.Config{})
		s.OnConnect(func(c *rpc.Conn) {
			var err error
			_, made, err = rpc.Spawn(s.binding, c, func(o *trooper) {
				require.NoError(t, cheer.Call(o.actor, 1))
				o.pose.Health = 3
			}, rpc.AlwaysRelevant())
			require.NoError(t, err)
		})
		net.Server(s.World)
		b := newBarracks(t, rpc.Config{})
		net.Client(b.World)
		net.Advance(settle)
		require.Equal(t, []string{"pose 3 was 0"}, b.troopers[made.actor.Ref()].heard)
	})
}
