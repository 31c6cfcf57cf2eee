package rpctest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/rpctest"
)

// TestAgeOfStateInJitter is TestAgeOfState on UE's profile Bad: jitter is no queue, and updates do not yield to it.
func TestAgeOfStateInJitter(t *testing.T) {
	rpctest.Run(t, rpctest.Bad, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 1, rpc.Config{})
		var all []*trooper
		for range 10 {
			all = append(all, c.spawn(0, nil))
		}
		net.Advance(time.Second)
		var oldest time.Duration
		net.OnTick(func(now time.Time) {
			for _, s := range all {
				if seen := c.at(0, s).wares.Gold; seen != 0 {
					oldest = max(oldest, now.Sub(time.Unix(0, seen)))
				}
				s.wares.Gold = now.UnixNano()
			}
		})
		net.Advance(60 * time.Second)
		require.Less(t, oldest, time.Second)
	})
}
