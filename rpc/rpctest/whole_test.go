package rpctest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/rpctest"
)

// TestPacketsAreWhole: a client whose OnRep takes longer than its Dispatch may
// never sees half of a packet, however many wait.
func TestPacketsAreWhole(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 0, rpc.Config{})
		slow := newBarracks(t, rpc.Config{DispatchTime: time.Millisecond})
		slow.repTime = 5 * time.Millisecond
		slow.conn = net.Client(slow.World)
		c.clients = append(c.clients, slow)
		var all []*trooper
		for range 8 {
			all = append(all, c.spawn(0, nil))
		}
		net.Advance(time.Second)
		seen, halves := make(map[int64]bool), 0
		net.OnTick(func(now time.Time) {
			for _, s := range all {
				gold := c.at(0, s).wares.Gold
				if seen[gold] = true; gold != c.at(0, all[0]).wares.Gold {
					halves++
				}
			}
			for _, s := range all {
				s.wares.Gold = now.UnixNano()
			}
		})
		for range 20 {
			net.Pause(slow.World, time.Second/3)
			net.Advance(time.Second)
		}
		require.Greater(t, len(seen), 20, "updates seen")
		require.Zero(t, halves, "states of another packet than the others'")
	})
}
