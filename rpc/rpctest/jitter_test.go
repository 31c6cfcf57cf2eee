package rpctest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/emulation"
	"github.com/quivernet/quiver/rpc/rpctest"
)

// TestAgeOfStateInJitter is TestAgeOfState on UE's profile Bad: jitter is no
// queue, so updates are not slowed down by it.
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
				if copied := c.at(0, s); copied != nil && copied.wares.Gold != 0 {
					oldest = max(oldest, now.Sub(time.Unix(0, copied.wares.Gold)))
				}
				s.wares.Gold = now.UnixNano()
			}
		})
		net.Advance(60 * time.Second)
		require.Less(t, oldest, time.Second)
	})
}

// TestAgeOfStateOnALongerPath: the longer round trip after a change of the path,
// as when a player moves from Wi-Fi to a mobile network, is no queue either.
func TestAgeOfStateOnALongerPath(t *testing.T) {
	for _, actors := range []int{50, 300} {
		longerPath(t, actors)
	}
}

func longerPath(t *testing.T, actors int) {
	rpctest.Run(t, emulation.Settings{PktLag: 10 * time.Millisecond}, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 1, rpc.Config{})
		var all []*trooper
		for range actors {
			all = append(all, c.spawn(0, nil))
		}
		var oldest time.Duration
		net.OnTick(func(now time.Time) {
			for _, s := range all {
				if copied := c.at(0, s); copied != nil && copied.wares.Gold != 0 {
					oldest = max(oldest, now.Sub(time.Unix(0, copied.wares.Gold)))
				}
				s.wares.Gold = now.UnixNano()
			}
		})
		net.Advance(20 * time.Second)
		net.Emulate(emulation.Settings{PktLag: 80 * time.Millisecond, PktLagVariance: 10 * time.Millisecond})
		net.Advance(2 * time.Second)
		oldest = 0
		net.Advance(30 * time.Second)
		t.Logf("%d actors: at most %v old", actors, oldest)
		require.Less(t, oldest, time.Second)
	})
}
