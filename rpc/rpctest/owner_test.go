package rpctest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/rpctest"
)

// issue makes a soldier that another one owns.
func (c *camp) issue(owner rpc.Owner) *trooper {
	c.t.Helper()
	_, s, err := rpc.Spawn(c.server.binding, owner, nil, rpc.AlwaysRelevant())
	require.NoError(c.t, err)
	return s
}

// 12.3f: the owner chain (actor, owner, …, connection) decides GetNetConnection.
func TestTheOwnerChainDecidesTheConnection(t *testing.T) {
	everywhere(t, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 2, rpc.Config{})
		pawn := c.spawn(0, func(s *trooper) { s.pose.Ammo = 1 })
		gun := c.issue(pawn.actor)
		scope := c.issue(gun.actor)
		net.Advance(settle)
		require.Same(t, c.conns[0], scope.actor.Conn())
		require.Same(t, gun.actor, scope.actor.Owner())
		require.Nil(t, pawn.actor.Owner())
		require.NoError(t, report.Call(c.at(0, scope).actor, 1))
		require.ErrorIs(t, report.Call(c.at(1, scope).actor, 2), rpc.ErrNotOwner)
		require.NoError(t, salute.Call(scope.actor, 3))
		scope.pose.Ammo = 30
		net.Advance(settle)
		require.Equal(t, []string{"report 1"}, scope.heard)
		require.Contains(t, c.at(0, scope).heard, "salute 3")
		require.EqualValues(t, 30, c.at(0, scope).pose.Ammo)
		require.Zero(t, c.at(1, scope).pose.Ammo, "12.1d: COND_OwnerOnly follows the chain")
		scope.heard = nil

		require.NoError(t, c.server.SetOwner(pawn.actor, c.conns[1]))
		net.Advance(settle)
		for _, s := range []*trooper{pawn, gun, scope} {
			require.Same(t, c.conns[1], s.actor.Conn())
			require.Len(t, s.heard, 1, "OnOwner runs for all")
			require.Equal(t, "owned false", last(c.at(0, s).heard))
			require.Contains(t, c.at(1, s).heard, "owned true")
		}
		require.EqualValues(t, 30, c.at(1, scope).pose.Ammo)
		c.requireSame()
	})
}

// The open for a new owner is made in SetOwner: it has what is set before, and
// what is set after follows.
func TestTheOpenForANewOwnerHasWhatIsThere(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 2, rpc.Config{})
		for _, before := range []bool{false, true} {
			_, s, err := rpc.Spawn(c.server.binding, c.conns[0], func(s *trooper) { s.pose.Ammo = 30 })
			require.NoError(t, err)
			net.Advance(settle)
			first := uint16(30)
			if before {
				s.pose.Ammo, first = 7, 7
			}
			require.NoError(t, c.server.SetOwner(s.actor, c.conns[1]))
			s.pose.Ammo = 7
			require.True(t, net.Until(settle, func() bool { return c.at(1, s) != nil }))
			require.Equal(t, first, c.at(1, s).pose.Ammo)
			net.Advance(settle)
			require.EqualValues(t, 7, c.at(1, s).pose.Ammo)
		}
	})
}

func last(heard []string) string { return heard[len(heard)-1] }

// An actor opens for the connection at the new end of its chain, whoever sees it else.
func TestWhatIsOwnedOpensForItsOwner(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 2, rpc.Config{})
		pawn, _, err := rpc.Spawn(c.server.binding, nil, nil)
		require.NoError(t, err)
		gun, _, err := rpc.Spawn(c.server.binding, pawn, nil)
		require.NoError(t, err)
		require.False(t, gun.Channel(c.conns[0]).Open())
		require.NoError(t, c.server.SetOwner(pawn, c.conns[0]))
		require.True(t, gun.Channel(c.conns[0]).Open())
		require.False(t, gun.Channel(c.conns[1]).Open())
	})
}

// No actor owns itself, by however many others.
func TestCyclesOfOwnersAreRefused(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 1, rpc.Config{})
		a := c.spawn(0, nil)
		b := c.issue(a.actor)
		d := c.issue(b.actor)
		require.ErrorContains(t, c.server.SetOwner(a.actor, a.actor), "is the actor itself")
		require.ErrorContains(t, c.server.SetOwner(a.actor, d.actor), "or owned by it")
		require.Same(t, c.conns[0], d.actor.Conn())
		require.NoError(t, c.server.SetOwner(d.actor, c.conns[0]), "directly")
		require.Nil(t, d.actor.Owner())
		require.NoError(t, c.server.SetOwner(b.actor, d.actor))
		require.NoError(t, c.server.Destroy(d.actor))
		require.ErrorIs(t, c.server.SetOwner(b.actor, d.actor), rpc.ErrClosed)
		net.Advance(time.Second)
		require.ErrorIs(t, c.server.SetOwner(b.actor, c.at(0, a).actor), rpc.ErrWrongRole, "of another world")
		var none *rpc.Actor
		require.NoError(t, c.server.SetOwner(b.actor, none), "a nil *Actor is nobody")
	})
}

// A connection that has begun to close takes no more actors and no message,
// although what it owns lives until OnDisconnect has run.
func TestNothingIsGivenToAConnectionThatCloses(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 1, rpc.Config{})
		own, other := c.spawn(0, nil), c.spawn(-1, nil)
		net.Advance(time.Second)
		c.conns[0].Close(1024, "kicked")
		require.True(t, own.actor.Alive())
		for _, owner := range []rpc.Owner{c.conns[0], own.actor} {
			a, _, err := rpc.Spawn(c.server.binding, owner, nil)
			require.ErrorIs(t, err, rpc.ErrClosed)
			require.Nil(t, a)
			require.ErrorIs(t, c.server.SetOwner(other.actor, owner), rpc.ErrClosed)
			require.Nil(t, other.actor.Conn())
			require.Nil(t, other.actor.Owner())
		}
		require.NoError(t, other.actor.OpenTo(c.conns[0]), "it is open there")
		require.ErrorIs(t, c.spawn(-1, nil).actor.OpenTo(c.conns[0]), rpc.ErrClosed)
		require.ErrorIs(t, c.conns[0].SendMessage(1, nil), rpc.ErrClosed)
		net.Advance(3 * time.Second)
		require.False(t, own.actor.Alive())
		require.True(t, other.actor.Alive())
	})
}

// UE: what a destroyed actor owned has no owner; its clients hear of it.
func TestDestroyedOwnersLeaveTheirActors(t *testing.T) {
	everywhere(t, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 1, rpc.Config{})
		pawn := c.spawn(0, nil)
		gun := c.issue(pawn.actor)
		scope := c.issue(gun.actor)
		net.Advance(settle)
		require.NoError(t, c.server.Destroy(pawn.actor))
		net.Advance(settle)
		require.Nil(t, gun.actor.Owner())
		require.Same(t, gun.actor, scope.actor.Owner())
		for _, s := range []*trooper{gun, scope} {
			require.Nil(t, s.actor.Conn())
			require.Equal(t, []string{"owner no conn"}, s.heard)
			require.Equal(t, []string{"owned false"}, c.at(0, s).heard)
		}
	})
}

// 12.4a: when a connection ends, what it owned by whatever chain goes with it.
func TestChainsGoWithTheirConnection(t *testing.T) {
	everywhere(t, func(t *testing.T, net *rpctest.Network) {
		var c *camp
		var kept *trooper
		c = newCamp(t, net, 2, rpc.Config{OnDisconnect: func(w *rpc.World, _ *rpc.Conn, _ error) { require.NoError(t, w.SetOwner(kept.actor, nil)) }})
		pawn := c.spawn(0, nil)
		gun := c.issue(pawn.actor)
		scope := c.issue(gun.actor)
		kept = c.issue(gun.actor)
		other := c.spawn(1, nil)
		net.Advance(settle)
		c.clients[0].conn.Close(0, "bye")
		net.Advance(settle)
		for _, s := range []*trooper{pawn, gun, scope} {
			require.False(t, s.actor.Alive())
			require.Equal(t, []string{"end Destroyed"}, s.heard, "and nobody hears of another owner")
		}
		require.True(t, kept.actor.Alive())
		require.True(t, other.actor.Alive())
		require.Len(t, c.clients[1].troopers, 2)
		require.False(t, c.at(1, kept).actor.Owned())
	})
}

// 12.3f: ROLE_Authority, ROLE_AutonomousProxy, ROLE_SimulatedProxy, ROLE_None.
func TestRoles(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 2, rpc.Config{})
		s, nobodys := c.spawn(0, nil), c.spawn(-1, nil)
		net.Advance(time.Second)
		roles := func(a *rpc.Actor) string { return a.Role().String() + " " + a.RemoteRole().String() }
		require.Equal(t, "Authority AutonomousProxy", roles(s.actor))
		require.Equal(t, "Authority SimulatedProxy", roles(nobodys.actor))
		require.Equal(t, "AutonomousProxy Authority", roles(c.at(0, s).actor))
		require.Equal(t, "SimulatedProxy Authority", roles(c.at(1, s).actor))
		torn, gone := c.at(0, s).actor, c.at(0, nobodys).actor
		require.NoError(t, s.actor.TearOff())
		require.NoError(t, c.server.Destroy(nobodys.actor))
		net.Advance(time.Second)
		require.Equal(t, "Authority None", roles(s.actor))
		require.Equal(t, "Authority None", roles(torn))
		require.Equal(t, "None None", roles(gone))
	})
}
