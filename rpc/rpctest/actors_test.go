package rpctest_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/emulation"
	"github.com/quivernet/quiver/rpc/rpctest"
)

// 4.5c, 6.4b: the calls of an actor are in order, those of different actors are not.
func TestActorsAreNotOrdered(t *testing.T) {
	weather := emulation.Settings{PktLag: 50 * time.Millisecond, PktLoss: 20}
	rpctest.Run(t, weather, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 1, rpc.Config{})
		var ours [2]*trooper
		for i := range ours {
			ours[i] = c.spawn(0, nil)
		}
		net.Advance(time.Second)
		const calls = 400
		for n := range calls {
			require.NoError(t, salute.Call(ours[n%2].actor, n))
			net.Advance(33 * time.Millisecond)
		}
		net.Advance(10 * time.Second)
		heard := c.clients[0].saluted
		require.Len(t, heard, calls)
		require.False(t, slices.IsSorted(heard), "one overtakes the other")
		for i := range ours {
			of := slices.DeleteFunc(slices.Clone(heard), func(n int) bool { return n%2 != i })
			require.True(t, slices.IsSorted(of), "actor %d", i)
		}
	})
}

// 4.1c: a state needs no entry of the reliable buffer, and arrives though calls have filled it.
func TestStateNeedsNoEntry(t *testing.T) {
	rpctest.Run(t, emulation.Settings{PktLag: 200 * time.Millisecond}, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 1, rpc.Config{Bunch: bunch.Config{ReliableBuffer: 8, Overflow: bunch.OverflowError}})
		s := c.spawn(0, nil)
		net.Advance(2 * time.Second)
		calls := 0
		for salute.Call(s.actor, calls) == nil {
			calls++
		}
		s.pose.Health = 9
		net.Advance(300 * time.Millisecond)
		out, slots := s.actor.Channel(c.conns[0]).Reliable()
		require.Equal(t, slots-1, out, "nothing was acknowledged yet")
		require.EqualValues(t, 9, c.at(0, s).pose.Health)
		require.Len(t, c.clients[0].saluted, calls)
	})
}
