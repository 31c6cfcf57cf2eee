package stream

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStreamsWait(t *testing.T) { overBackends(t, testStreamsWait) }

// testStreamsWait: more transfers than may be under way at once, and one that starts while Wait
// waits.
func testStreamsWait(t *testing.T, via Backend) {
	inNetwork(t, setup{via: via}, func(n *network) {
		save.Handle(n.client.streams, func(in *IncomingBlob) { go func() { _, _ = in.WriteTo(io.Discard) }() })
		require.NoError(n, n.server.streams.Wait(n.ctx), "nothing to wait for")
		var started []*Transfer
		for range 9 {
			started = append(started, n.mustStart(n.server.peer, content(1<<18)))
		}
		last := make(chan *Transfer, 1)
		go func() {
			<-started[0].Done()
			last <- n.mustStart(n.server.peer, content(1<<18))
		}()
		require.NoError(n, n.server.streams.Wait(n.ctx))
		for _, transfer := range append(started, <-last) {
			select {
			case <-transfer.Done():
				require.NoError(n, transfer.Err())
			default:
				require.Fail(n, "it is still under way", transfer)
			}
		}
		require.NoError(n, n.client.streams.Wait(n.ctx), "it sends nothing")
	})
}

// TestStreamsWaitForNothingElse: neither for what the peer sends, nor for transfers that were
// canceled or whose connection has ended.
func TestStreamsWaitForNothingElse(t *testing.T) {
	inNetwork(t, setup{}, func(n *network) {
		save.Handle(n.client.streams, func(*IncomingBlob) {})
		begin := func() *Transfer {
			transfer, err := save.Start(n.server.peer, endless{}, -1)
			require.NoError(n, err)
			return transfer
		}
		transfer := begin()
		require.NoError(n, n.client.streams.Wait(n.ctx))
		ctx, cancel := context.WithTimeout(n.ctx, time.Second)
		defer cancel()
		err := n.server.streams.Wait(ctx)
		require.ErrorIs(n, err, context.DeadlineExceeded)
		require.ErrorContains(n, err, "stream: Streams.Wait: 1 transfer in progress or queued, such as blob \"save\" to conn 1")
		require.NoError(n, transfer.Err(), "it continues")
		require.NoError(n, n.server.world.Do(n.ctx, func() {
			require.ErrorIs(n, n.server.streams.Wait(n.ctx), ErrBlocking)
		}))

		transfer.Cancel(nil)
		require.NoError(n, n.server.streams.Wait(n.ctx))
		begin()
		waited := make(chan error, 1)
		go func() { waited <- n.server.streams.Wait(n.ctx) }()
		synctest.Wait()
		require.Empty(n, waited)
		n.client.peer.Conn().Close(0, "bye")
		require.NoError(n, <-waited)
		require.NoError(n, n.server.world.Do(n.ctx, func() {
			require.NoError(n, n.server.streams.Wait(n.ctx), "there is nothing to wait for")
		}))
	})
}
