package rpctest_test

import (
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/emulation"
	"github.com/quivernet/quiver/rpc/rpctest"
)

// bagOf returns what a bag holds.
func bagOf(s *trooper) map[itemID]item { return maps.Collect(s.bag.All()) }

// 12.1h: only changed items travel, removals until they are kept.
func TestListItemByItem(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 1, rpc.Config{})
		s := c.spawn(0, func(s *trooper) { _ = s.bag.Set(1, item{Name: "sword"}) })
		net.Advance(time.Second)
		require.Equal(t, map[itemID]item{1: {Name: "sword"}}, bagOf(c.at(0, s)), "lists follow the open")
		for key := range itemID(500) {
			require.NoError(t, s.bag.Set(key, item{Name: "arrow", Count: int(key)}))
		}
		net.Advance(time.Second)
		c.requireSame()
		before := c.conns[0].Stats().BytesOut
		s.bag.Delete(7)
		require.NoError(t, s.bag.Set(8, item{Name: "bolt"}))
		require.NoError(t, s.bag.Set(9, item{Name: "arrow", Count: 9}), "as it was")
		net.Advance(100 * time.Millisecond)
		require.Less(t, c.conns[0].Stats().BytesOut-before, uint64(100))
		net.Advance(time.Second)
		c.requireSame()
	})
}

func TestListIsFull(t *testing.T) {
	var l rpc.List[int, int]
	for i := range 2048 {
		require.NoError(t, l.Set(i, i))
	}
	require.ErrorIs(t, l.Set(2048, 0), rpc.ErrTooLong)
	require.NoError(t, l.Set(5, 6))
	require.True(t, l.Delete(5))
	require.False(t, l.Delete(5))
	require.NoError(t, l.Set(2048, 0))
	require.Equal(t, 2048, l.Len())
}

// Copies that sleep, or are torn off, have the lists that the server had.
func TestListsWithoutAChannel(t *testing.T) {
	rpctest.Run(t, rpctest.Bad, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 1, rpc.Config{})
		s := c.spawn(-1, nil)
		for key := range itemID(100) {
			require.NoError(t, s.bag.Set(key, item{Count: 1}))
		}
		net.Advance(10 * time.Second)
		require.NoError(t, s.bag.Set(3, item{Count: 3}))
		require.NoError(t, s.actor.SetDormant(true))
		net.Advance(10 * time.Second)
		require.True(t, c.at(0, s).actor.Dormant())
		require.Equal(t, bagOf(s), bagOf(c.at(0, s)))

		for key := range itemID(50) {
			s.bag.Delete(key)
		}
		require.NoError(t, s.bag.Set(200, item{Count: 200}))
		net.Advance(10 * time.Second)
		require.Len(t, bagOf(c.at(0, s)), 100, "it sleeps")
		copied := c.at(0, s)
		require.NoError(t, s.actor.SetDormant(false))
		net.Advance(10 * time.Second)
		require.Equal(t, bagOf(s), bagOf(copied), "the same object, without what went meanwhile")
		require.Equal(t, bagOf(copied), copied.told)

		s.bag.Delete(60)
		require.NoError(t, s.bag.Set(61, item{Count: 61}))
		require.NoError(t, s.actor.TearOff())
		net.Advance(10 * time.Second)
		require.True(t, copied.actor.TornOff())
		require.Equal(t, bagOf(s), bagOf(copied))
	})
}

// TestListsAfterFlushDormancy: as with states, changes between FlushDormancy
// and the next Flush are sent, and changes before it.
func TestListsAfterFlushDormancy(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 1, rpc.Config{})
		s := c.spawn(0, nil)
		require.NoError(t, s.bag.Set(1, item{Name: "key"}))
		require.NoError(t, s.actor.SetDormant(true))
		net.Advance(time.Second)
		require.True(t, c.at(0, s).actor.Dormant())
		for i, wake := range []func(){
			func() { require.NoError(t, s.actor.FlushDormancy()) },
			func() { require.NoError(t, cheer.Call(s.actor, 1)) },
		} {
			wake()
			s.wares.Gold++
			require.NoError(t, s.bag.Set(itemID(10+i), item{Name: "new"}))
			require.NoError(t, s.bag.Set(1, item{Name: "key", Count: i + 1}))
			net.Advance(time.Second)
			require.True(t, c.at(0, s).actor.Dormant())
			c.requireSameAsleep(s)
			s.bag.Delete(itemID(10 + i))
			wake()
			net.Advance(time.Second)
			c.requireSameAsleep(s)
		}
	})
}

// TestListsWhileFallingAsleep: changes before a client has acknowledged what
// puts its copy to sleep are sent, too, with the open that wakes the actor.
func TestListsWhileFallingAsleep(t *testing.T) {
	for name, wake := range map[string]func(s *trooper) error{
		"FlushDormancy": func(s *trooper) error { return s.actor.FlushDormancy() },
		"a Client RPC":  func(s *trooper) error { return salute.Call(s.actor, 1) },
		"a Multicast":   func(s *trooper) error { return cheer.Call(s.actor, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			rpctest.Run(t, emulation.Settings{PktLag: 200 * time.Millisecond}, func(t *testing.T, net *rpctest.Network) {
				c := newCamp(t, net, 1, rpc.Config{})
				s := c.spawn(0, func(s *trooper) { _ = s.bag.Set(1, item{Name: "key"}) })
				require.NoError(t, s.actor.SetDormant(true))
				net.Advance(100 * time.Millisecond) // the open is on its way
				s.wares.Gold++
				s.bag.Delete(1)
				require.NoError(t, s.bag.Set(2, item{Name: "coin"}))
				require.NoError(t, wake(s))
				net.Advance(3 * time.Second)
				require.True(t, c.at(0, s).actor.Dormant())
				c.requireSameAsleep(s)
			})
		})
	}
}

// requireSameAsleep asserts that a client's copy, which sleeps, is as the server has it.
func (c *camp) requireSameAsleep(s *trooper) {
	c.t.Helper()
	require.Equal(c.t, s.wares, c.at(0, s).wares)
	require.Equal(c.t, maps.Collect(s.bag.All()), maps.Collect(c.at(0, s).bag.All()))
}
