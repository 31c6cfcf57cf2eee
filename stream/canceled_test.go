package stream

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestCanceledTransfersHaveNothingLeft: what a transfer would have sent is
// expected no longer once it is canceled, so the end of another one that is on
// its way gets its repair, though the receiver has yet to confirm the cancel.
func TestCanceledTransfersHaveNothingLeft(t *testing.T) {
	overBackends(t, func(t *testing.T, via Backend) {
		inNetwork(t, setup{via: via, delay: 200 * time.Millisecond, tick: 10 * time.Millisecond}, func(n *network) {
			collect(n.client.streams)
			long, feed := n.startStuck()
			defer feed.Close()
			left := func() (bytes int64) {
				require.NoError(n, n.server.world.Do(n.ctx, func() { bytes = n.server.peer.sender.unsentBytes() }))
				return bytes
			}
			require.EqualValues(n, 8<<20, left())
			long.Cancel(errTest)
			time.Sleep(30 * time.Millisecond)
			require.Zero(n, left(), "30 ms after the cancel, which the receiver confirms after 400 ms")
		})
	})
}

// TestCanceledTransfersLeaveTheirMemory: the receiver once kept the credit of a
// canceled transfer until it had confirmed the cancel. So the transfer that replaced
// it, whose header arrives with the cancel, was rejected for want of memory.
func TestCanceledTransfersLeaveTheirMemory(t *testing.T) {
	overBackends(t, func(t *testing.T, via Backend) {
		memory := Config{MaxMemory: transferBytes + incomingBytes, MaxPending: minPending} // of one transfer, and the record of another
		inNetwork(t, setup{via: via, client: memory, tick: 100 * time.Millisecond}, func(n *network) {
			collect(n.client.streams)
			first, feed := n.startStuck()
			defer feed.Close()
			first.Cancel(errTest)
			require.NoError(n, n.mustStart(n.server.peer, content(100)).Wait(n.ctx))
		})
	})
}

// startStuck starts a transfer of 8 MiB whose source returns nothing until feed
// is closed, and waits until it is in progress.
func (n *network) startStuck() (t *Transfer, feed io.Closer) {
	source, feed := io.Pipe()
	t, err := save.Start(n.server.peer, source, 8<<20)
	require.NoError(n, err)
	time.Sleep(time.Second)
	return t, feed
}
