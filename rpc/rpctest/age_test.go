package rpctest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/emulation"
	"github.com/quivernet/quiver/rpc/rpctest"
)

// TestAgeOfState samples, at each tick of a client, how old the state is that the client
// has: half a round trip and the time between ticks, even if one packet of twenty is lost.
func TestAgeOfState(t *testing.T) {
	const rtt, tick = 100 * time.Millisecond, time.Second / 30
	rpctest.Run(t, emulation.Settings{PktLag: rtt / 2, PktLoss: 5}, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 2, rpc.Config{})
		var all []*trooper
		for range 20 {
			all = append(all, c.spawn(0, nil))
		}
		net.Advance(time.Second)
		var sum time.Duration
		samples := 0
		net.OnTick(func(now time.Time) {
			for _, s := range all {
				if seen := c.at(0, s).wares.Gold; seen != 0 {
					sum += now.Sub(time.Unix(0, seen))
					samples++
				}
				s.wares.Gold = now.UnixNano()
			}
		})
		net.Advance(60 * time.Second)
		mean := sum / time.Duration(samples)
		t.Logf("age %v in the mean of %d samples", mean, samples)
		require.Greater(t, samples, 30_000)
		require.Less(t, mean, rtt/2+tick*13/10)
	})
}

// TestBytesOfAnUpdate: six bytes of header, beside the packet's, and the changed fields.
func TestBytesOfAnUpdate(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 1, rpc.Config{})
		var all []*trooper
		for range 100 {
			all = append(all, c.spawn(0, nil))
		}
		net.Advance(time.Second)
		before := c.conns[0].Stats()
		const ticks = 300
		for n := range ticks {
			for _, s := range all {
				s.pose.Health = uint16(1000 + n) // two bytes as a varint
			}
			net.Advance(time.Second / 30)
		}
		after := c.conns[0].Stats()
		packets := float64(after.PacketsOut - before.PacketsOut)
		bytes := float64(after.BytesOut-before.BytesOut) - 6*packets // of their headers
		each := bytes / ticks / float64(len(all))
		t.Logf("%.2f bytes an update, %.2f packets a tick", each, packets/ticks)
		require.Less(t, each, 8.1)
	})
}

// TestAgeOfANewcomer: an actor that has just opened moves at once, not only
// when the server knows that the client has it.
func TestAgeOfANewcomer(t *testing.T) {
	const rtt, tick = 300 * time.Millisecond, time.Second / 30
	rpctest.Run(t, emulation.Settings{PktLag: rtt / 2}, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 1, rpc.Config{})
		net.Advance(time.Second)
		var newest *trooper
		var oldest time.Duration
		net.OnTick(func(now time.Time) {
			if newest == nil {
				return
			}
			if s := c.at(0, newest); s != nil {
				oldest = max(oldest, now.Sub(time.Unix(0, s.wares.Gold)))
			}
			newest.wares.Gold = now.UnixNano()
		})
		for range 20 {
			newest = c.spawn(0, func(s *trooper) { s.wares.Gold = time.Now().UnixNano() })
			net.Advance(time.Second)
		}
		t.Logf("oldest %v", oldest)
		require.Less(t, oldest, rtt/2+2*tick+tick/2)
		newest = nil
		net.Advance(time.Second)
		c.requireSame()
	})
}
