package stream

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/rpc"
)

// TestControlKeepsToItsGate: messages about transfers fill at most half of
// their pipe's reliable buffer, and continue when acks have made room, although
// a tick without messages does not look at the pipe.
func TestControlKeepsToItsGate(t *testing.T) {
	small := rpc.Config{Bunch: bunch.Config{ReliableBuffer: 32}}
	inNetwork(t, setup{rpc: small, delay: 100 * time.Millisecond}, func(n *network) {
		time.Sleep(time.Second)
		p := n.server.peer
		most, sent := 0, 0
		look := func() (full bool) {
			require.NoError(n, n.server.world.Do(n.ctx, func() {
				out, _ := p.control.pipe.Channel(p.conn).Reliable()
				most, full = max(most, out), p.control.full
				if p.control.greeted {
					p.control.greeted = false // our limits are due again
					sent++
				}
			}))
			p.wake()
			time.Sleep(5 * time.Millisecond)
			return full
		}
		for !look() {
			require.Less(n, sent, 32)
		}
		require.Equal(n, 16, sent-1, "the last one waits")
		for range 200 {
			look()
		}
		require.Equal(n, 16, most)
		require.Greater(n, sent, 64)
		time.Sleep(time.Second)
		require.NoError(n, n.server.world.Do(n.ctx, func() { require.True(n, p.control.greeted) }))
	})
}
