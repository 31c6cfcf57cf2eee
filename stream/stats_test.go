package stream

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc"
)

// TestStatsRead is how the numbers read.
func TestStatsRead(t *testing.T) {
	s := Stats{
		Sending: 2, Waiting: 1, Receiving: 3, Sent: 12, Received: 5, Failed: 1, BytesSent: 3 << 20, BytesReceived: 1 << 20, Lanes: 32, PeakOut: 120, Slots: 256,
		Slices: 12_345, SlicesResent: 67, SlicesSealed: 12_000, RepairSlices: 40, SlicesRestored: 12, SlicesRefused: 1, Late: 2, Evicted: 4, Unstored: 3,
	}
	require.Equal(t, `
Transfers         2 sending, 1 waiting, 3 receiving, 12 sent, 5 received, 1 failed
Content           3.1 MB sent, 1.0 MB received
Lanes             32 open, at most 120 of 256 entries outstanding
Slices            12,345 sent, 67 resent, 12,000 sealed, 40 repair slices, 12 restored
Drops             1 slices refused, 2 late, 4 evicted, 3 not stored
`, "\n"+s.String())
	require.Contains(t, Stats{Lanes: 4}.String(), "Lanes             4 open\n", "nothing was sent on them")
}

// TestStatsOfEnds: each end counts what became of its transfers, and what moved in them.
func TestStatsOfEnds(t *testing.T) {
	inNetwork(t, setup{}, func(n *network) {
		took := make(chan struct{})
		save.Handle(n.client.streams, func(in *IncomingBlob) {
			if in.Name() == "refused" {
				in.Reject(io.ErrShortBuffer)
				return
			}
			go func() {
				_, _ = io.Copy(io.Discard, in)
				close(took)
			}()
		})
		require.NoError(n, n.mustStart(n.server.peer, content(100_000), Name("taken")).Wait(n.ctx))
		<-took
		require.Error(n, n.mustStart(n.server.peer, content(1), Name("refused")).Wait(n.ctx))
		canceled := n.mustStart(n.server.peer, content(1), Name("canceled"))
		canceled.Cancel(nil)
		require.Error(n, canceled.Wait(n.ctx))
		time.Sleep(time.Second)

		here, there := n.server.peer.Stats(), n.client.peer.Stats()
		require.EqualValues(n, []uint64{1, 0, 2}, []uint64{here.Sent, here.Received, here.Failed})
		require.EqualValues(n, []uint64{0, 1}, []uint64{there.Sent, there.Received})
		require.NotZero(n, there.Failed)
		require.GreaterOrEqual(n, here.BytesSent, uint64(100_000))
		require.EqualValues(n, 0, here.BytesReceived)
		require.GreaterOrEqual(n, there.BytesReceived, uint64(100_000))
		require.LessOrEqual(n, there.BytesReceived, here.BytesSent)
	})
}

func TestTransfersRead(t *testing.T) {
	inNetwork(t, setup{}, func(n *network) {
		received := make(chan string, 1)
		save.Handle(n.client.streams, func(in *IncomingBlob) {
			go func() {
				_, _ = io.Copy(io.Discard, in)
				received <- fmt.Sprint(in)
			}()
		})
		sent := n.mustStart(n.server.peer, content(1000), Name("slot 1"))
		require.NoError(n, sent.Wait(n.ctx))
		far := "1,000 sent, 1,000 of 1,000 acked (100.0 %)"
		require.Equal(n, fmt.Sprintf(`blob "save" named "slot 1" to %v: %s, 100,000 a second`, n.server.peer.Conn(), far), fmt.Sprint(sent))
		require.Equal(n, fmt.Sprintf(`blob "save" named "slot 1" from %v: %s`, n.client.peer.Conn(), far), <-received)
	})
}

// TestStatsOutliveTheConnection: a program that adds up what connections have sent asks for it
// when they end, and may ask later as well. Transfers that were in progress then count as failed.
func TestStatsOutliveTheConnection(t *testing.T) {
	inNetwork(t, setup{}, func(n *network) {
		save.Handle(n.server.streams, func(in *IncomingBlob) { go func() { _, _ = io.Copy(io.Discard, in) }() })
		atEnd := make(chan Stats, 1)
		n.server.world.OnDisconnect(func(c *rpc.Conn, _ error) { atEnd <- n.server.streams.Peer(c).Stats() })
		require.NoError(n, n.mustStart(n.client.peer, content(100_000)).Wait(n.ctx))
		from, to := io.Pipe()
		open, err := save.Start(n.client.peer, from, -1)
		require.NoError(n, err)
		_, err = to.Write(content(100_000))
		require.NoError(n, err)
		time.Sleep(time.Second)

		n.client.peer.conn.Close(rpc.HostClosedConnection, "")
		require.ErrorIs(n, open.Wait(n.ctx), ErrClosed)
		require.NoError(n, to.Close())
		then := <-atEnd
		require.EqualValues(n, []uint64{1, 1}, []uint64{then.Received, then.Failed})
		require.GreaterOrEqual(n, then.BytesReceived, uint64(100_000))
		require.Zero(n, then.Receiving)
		require.Zero(n, then.Lanes)

		time.Sleep(time.Second)
		require.Equal(n, then, n.server.streams.Peer(n.server.peer.conn).Stats())
		_, err = save.Start(n.server.streams.Peer(n.server.peer.conn), from, -1)
		require.ErrorIs(n, err, ErrClosed, "a transfer that nobody would carry does not begin")
		sent := n.client.peer.Stats()
		require.EqualValues(n, []uint64{1, 1}, []uint64{sent.Sent, sent.Failed})
		require.Zero(n, sent.Sending)
		require.Zero(n, sent.Lanes)
	})
}

// TestUnstoredIsCurrent: a writer counts on its own goroutine, perhaps after the last tick of its
// connection.
func TestUnstoredIsCurrent(t *testing.T) {
	var c peerCounts
	c.unstored.Add(1)
	require.EqualValues(t, 1, c.stats().Unstored)
}
