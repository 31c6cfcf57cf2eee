package rpctest_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/emulation"
	"github.com/quivernet/quiver/rpc/rpctest"
	"github.com/quivernet/quiver/stream"
	"github.com/quivernet/quiver/stream/disk"
)

// uploading is a client in the middle of an upload with a key.
type uploading struct {
	server *rpc.World
	client *rpc.World
	conn   *rpc.Conn
	upload *stream.Transfer
	whole  chan []byte

	gone [2][]error // what OnDisconnect of the server and of the clients heard
}

// inCrash has a client upload half of a blob to a server that keeps uploads in a store. again
// has a new client come, to a new server when the old one is gone, and uploads the rest.
func inCrash(t *testing.T, fn func(t *testing.T, net *rpctest.Network, u *uploading, again func())) {
	const size = 2 << 20
	rpctest.Run(t, emulation.Settings{PktLag: 20 * time.Millisecond, Rate: 8e6}, func(t *testing.T, net *rpctest.Network) {
		topic, store, sent := stream.NewBlob("castle"), disk.New(t.TempDir()), bytes.Repeat([]byte("castle! "), size/8)
		u := &uploading{}
		serve := func() {
			u.server, u.whole = keepingServer(t, topic, store, &u.gone[0])
			net.Server(u.server)
		}
		join := func() {
			var err error
			u.client, err = rpc.NewWorld(rpc.Config{Token: []byte("ann"), OnDisconnect: func(_ *rpc.World, _ *rpc.Conn, err error) { u.gone[1] = append(u.gone[1], err) }})
			require.NoError(t, err)
			up, err := stream.Install(u.client, stream.Config{})
			require.NoError(t, err)
			u.conn = net.Client(u.client)
			u.upload, err = topic.Start(up.Peer(u.conn), bytes.NewReader(sent), size, stream.Key("castle"))
			require.NoError(t, err)
		}
		serve()
		join()
		require.True(t, net.Until(time.Minute, func() bool { return u.upload.Progress().Acked > size/2 }))
		fn(t, net, u, func() {
			if len(u.server.Conns()) == 0 {
				serve()
			}
			join()
			require.True(t, net.UntilDone(time.Minute, u.upload.Done()))
			require.NoError(t, u.upload.Err())
			require.True(t, bytes.Equal(sent, <-u.whole))
			require.GreaterOrEqual(t, u.upload.Progress().Resumed, int64(size/2)-64<<10)
		})
	})
}

// TestCrashOfAClient: none of its functions runs, calls that wait for its world
// return, and the server learns of the crash by silence alone.
func TestCrashOfAClient(t *testing.T) {
	inCrash(t, func(t *testing.T, net *rpctest.Network, u *uploading, again func()) {
		lost := u.upload
		waited := make(chan struct{})
		go func() {
			defer close(waited)
			_ = lost.Wait(context.Background())
			_ = u.client.Do(context.Background(), func() { t.Error("a function of a crashed world ran") })
		}()
		net.Crash(u.client)
		require.True(t, net.UntilDone(5*time.Second, waited))
		require.Error(t, lost.Err())
		require.Empty(t, u.gone, "the server does not know yet")
		again()
		require.Len(t, u.server.Conns(), 2)
		require.True(t, net.Until(2*time.Minute, func() bool { return len(u.gone[0]) == 1 }))
		require.ErrorContains(t, u.gone[0][0], "ConnectionTimeout")
		require.Empty(t, u.gone[1])
	})
}

// TestCrashOfTheServer: its clients learn of it by silence alone, and another
// server may take its place.
func TestCrashOfTheServer(t *testing.T) {
	inCrash(t, func(t *testing.T, net *rpctest.Network, u *uploading, again func()) {
		net.Crash(u.server)
		require.False(t, net.UntilDone(5*time.Second, u.conn.Done()), "there was a good-bye")
		require.True(t, net.UntilDone(time.Minute, u.conn.Done()))
		require.ErrorContains(t, u.conn.Err(), "ConnectionTimeout")
		_, err := net.Join(u.client)
		require.Error(t, err, "nobody is there")
		again()
		require.Empty(t, u.gone[0])
		require.Len(t, u.gone[1], 1)
	})
}
