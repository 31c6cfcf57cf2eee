package rpctest_test

import (
	"bytes"
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/emulation"
	"github.com/quivernet/quiver/rpc/rpctest"
	"github.com/quivernet/quiver/stream"
	"github.com/quivernet/quiver/stream/disk"
)

// keepingServer returns a server that keeps what clients upload to a topic in a
// store, and where whole ones come.
func keepingServer(t *testing.T, topic *stream.Blob, store stream.Store, gone *[]error) (w *rpc.World, whole chan []byte) {
	t.Helper()
	w, err := rpc.NewWorld(rpc.Config{
		Authenticate: func(_ context.Context, token []byte) (string, error) { return string(token), nil },
		OnDisconnect: func(_ *rpc.World, _ *rpc.Conn, err error) { *gone = append(*gone, err) },
	})
	require.NoError(t, err)
	streams, err := stream.Install(w, stream.Config{Store: store})
	require.NoError(t, err)
	whole = make(chan []byte, 1)
	topic.Handle(streams, func(in *stream.IncomingBlob) {
		go func() {
			if all, err := io.ReadAll(in); err == nil {
				whole <- all
			}
		}()
	})
	return w, whole
}

// TestRestartOfTheServer: a server is closed in the middle of an upload with a
// key, another one with the same store takes its place, and the client returns:
// the upload continues from what the store has.
func TestRestartOfTheServer(t *testing.T) {
	const size = 2 << 20
	slow := emulation.Settings{PktLag: 20 * time.Millisecond, Rate: 8e6}
	rpctest.Run(t, slow, func(t *testing.T, net *rpctest.Network) {
		topic, store, sent := stream.NewBlob("castle"), disk.New(t.TempDir()), bytes.Repeat([]byte("castle! "), size/8)
		var gone []error
		before, _ := keepingServer(t, topic, store, &gone)
		net.Server(before)
		client, err := rpc.NewWorld(rpc.Config{Token: []byte("ann")})
		require.NoError(t, err)
		up, err := stream.Install(client, stream.Config{})
		require.NoError(t, err)
		conn := net.Client(client)
		first, err := topic.Start(up.Peer(conn), bytes.NewReader(sent), size, stream.Key("castle"))
		require.NoError(t, err)
		require.True(t, net.Until(time.Minute, func() bool { return first.Progress().Acked > size/2 }))
		require.NoError(t, before.Close(t.Context(), rpc.HostClosedConnection, "back in a moment"))
		require.True(t, net.Until(time.Minute, func() bool { return conn.Err() != nil }))
		_, err = net.Join(client)
		require.Error(t, err, "nobody is there")

		after, whole := keepingServer(t, topic, store, &gone)
		net.Server(after)
		require.Nil(t, net.Client(client).Err())
		require.Len(t, after.Conns(), 1)
		require.Len(t, gone, 1, "the closed world was driven to its end")
		back := up.Peer(client.Conns()[0])
		again, err := topic.Start(back, bytes.NewReader(sent), size, stream.Key("castle"))
		require.NoError(t, err)
		require.True(t, net.Until(time.Minute, func() bool { return len(whole) > 0 }))
		require.True(t, bytes.Equal(sent, <-whole))
		require.GreaterOrEqual(t, again.Progress().Resumed, int64(size/2))
		require.Less(t, back.Conn().Stats().BytesOut, uint64(size-size/2+100_000), "what was stored did not leave again")
		require.Error(t, first.Err())
	})
}
