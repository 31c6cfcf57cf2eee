package rpc

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
)

// TestPacketsOfPlay: what a game at 30 Hz sends over sealed packets costs few
// packets beside its own, over either carrier.
func TestPacketsOfPlay(t *testing.T) {
	down := func(a, _ *Actor) { _ = blink.Call(a, 1) }
	up := func(_, m *Actor) { _ = title.Call(m, callsign{Name: "it"}) }
	for name, scene := range map[string]struct {
		play         func(down, up *Actor)
		each         int     // ticks
		sealed, quic float64 // packets a second, of both ends
	}{
		"nothing":              {func(_, _ *Actor) {}, 1, 0.75, 1.25},                  // keep-alives and their acks: 0.3 to 0.55; QUIC's: 0.5 to 1.05, by which packets are lost
		"both ways":            {func(a, m *Actor) { down(a, m); up(a, m) }, 1, 63, 4}, // QUIC's: 0.7 to 3.1, by which packets are lost
		"unreliable, one way":  {down, 1, 47, 3},
		"reliable, one way":    {up, 1, 47, 3},
		"both ways, slowly":    {func(a, m *Actor) { down(a, m); up(a, m) }, 30, 7, 2},
		"unreliable, slowly":   {down, 30, 4, 2},
		"both ways, at 3.8 Hz": {func(a, m *Actor) { down(a, m); up(a, m) }, 8, 24, 2},
	} {
		for _, delay := range []time.Duration{100 * time.Microsecond, 25 * time.Millisecond, 100 * time.Millisecond} {
			for _, lossy := range []bool{false, true} {
				const seconds = 20
				var sealed, quic atomic.Int64
				var perSecond [2]float64
				path := netsim.Config{Delay: delay, Lose: func(k uint64, p []byte) bool {
					if isSealed(p) {
						sealed.Add(1)
					} else {
						quic.Add(1)
					}
					return lossy && k%50 == 7
				}}
				overSealed(t, path, true, func(n *sealedNet) {
					a := n.opened()
					m := n.mirror(0, a)
					n.tick(60)
					sealed.Store(0)
					quic.Store(0)
					for i := range seconds * 30 {
						if i%scene.each == 0 {
							scene.play(a, m)
						}
						n.tick(1)
					}
					n.clients[0].take()
					n.server.take()
					perSecond = [2]float64{float64(sealed.Load()) / seconds, float64(quic.Load()) / seconds}
				})
				require.LessOrEqual(t, perSecond[0], scene.sealed, "sealed, %s, %v, lossy %v", name, delay, lossy)
				require.LessOrEqual(t, perSecond[1], scene.quic, "QUIC, %s, %v, lossy %v", name, delay, lossy)
			}
		}
	}
}

// isSealed reports whether a packet is a sealed one.
func isSealed(p []byte) bool { return p[0] >= 0x04 && p[0] <= 0x0f }
