package stream

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestCanceledTransfersHaveNothingLeft: what a transfer would have sent is expected no longer once it is canceled, so the end of another one
// that is on its way gets its repair, though the receiver has yet to confirm the cancel.
func TestCanceledTransfersHaveNothingLeft(t *testing.T) {
	overBackends(t, func(t *testing.T, via Backend) {
		inNetwork(t, setup{via: via, delay: 200 * time.Millisecond, tick: 10 * time.Millisecond}, func(n *network) {
			collect(n.client.streams)
			stuck, feed := io.Pipe()
			defer feed.Close()
			long, err := save.Start(n.server.peer, stuck, 8<<20)
			require.NoError(n, err)
			time.Sleep(time.Second)
			left := func() (bytes int64) {
				require.NoError(n, n.server.world.Do(n.ctx, func() { bytes = n.server.peer.sender.left() }))
				return bytes
			}
			require.EqualValues(n, 8<<20, left())
			long.Cancel(errTest)
			time.Sleep(30 * time.Millisecond)
			require.Zero(n, left(), "30 ms after the cancel, which the receiver confirms after 400 ms")
		})
	})
}
