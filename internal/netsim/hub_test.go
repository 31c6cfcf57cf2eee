package netsim

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// All that join a hub share its rate each way.
func TestHub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const packets = 40
		hub := NewHub(Config{Rate: 10e6, Delay: 20 * ms})
		joined := []*PacketConn{hub.Join(), hub.Join()}
		t.Cleanup(func() {
			for _, c := range append(joined, hub.PacketConn) {
				require.NoError(t, c.Close())
			}
		})
		alone := 20*ms + packets*time.Duration(1200+UDPOverhead)*8*time.Second/10e6
		up := time.Now()
		for n := range packets {
			send(t, joined[n%2], hub.PacketConn, uint32(n), 1200)
		}
		for n := range packets {
			require.EqualValues(t, n, receive(t, hub.PacketConn))
		}
		require.Equal(t, alone, time.Since(up))
		down := time.Now()
		for n := range packets {
			send(t, hub.PacketConn, joined[n%2], uint32(n), 1200)
		}
		for n := range packets {
			require.EqualValues(t, n, receive(t, joined[n%2]))
		}
		require.Equal(t, alone, time.Since(down))
		require.EqualValues(t, 2*packets, hub.Stats().Packets)
	})
}
