package rpctest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/emulation"
	"github.com/quivernet/quiver/rpc/rpctest"
)

// TestUpdatesOnNarrowPaths: 400 soldiers that all change at each tick are 1 Mbit/s. Where that does not pass, updates take what does,
// without a queue that stands.
func TestUpdatesOnNarrowPaths(t *testing.T) {
	for _, rate := range []int64{100e3, 200e3, 400e3, 600e3} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			rpctest.Run(t, emulation.Settings{PktLag: 40 * time.Millisecond, Rate: rate}, func(t *testing.T, net *rpctest.Network) {
				c := newCamp(t, net, 1, rpc.Config{})
				var all []*trooper
				for range 400 {
					all = append(all, c.spawn(-1, nil))
				}
				stir := func() {
					for _, s := range all {
						s.wares.Gold++
						s.pose.Health++
					}
					net.Advance(time.Second / 30)
				}
				for range 450 {
					stir()
				}
				before, longest := c.conns[0].Stats().BytesOut, time.Duration(0)
				for range 600 {
					stir()
					longest = max(longest, c.conns[0].Stats().SmoothedRTT)
				}
				used := float64(c.conns[0].Stats().BytesOut-before) * 8 / 20
				t.Logf("%.0f of %d kbit/s, round trips of at most %v", used/1e3, rate/1e3, longest)
				require.Greater(t, used, 0.3*float64(rate))
				require.Less(t, longest, 2*time.Second)
			})
		})
	}
}
