package desk

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/examples/savegame/versions"
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/cert"
	"github.com/quivernet/quiver/stream"
	"github.com/quivernet/quiver/stream/manifest"
	"github.com/quivernet/quiver/stream/pieces"
)

// dialTo returns a client of a server that calls welcome for each client that has joined.
func dialTo(t *testing.T, welcome func(w *rpc.World, c *rpc.Conn)) *Client {
	t.Helper()
	world, err := rpc.NewWorld(rpc.Config{Classes: []*rpc.Class{Class}, Sealed: true, OnConnect: welcome})
	require.NoError(t, err)
	_, err = stream.Install(world, stream.Config{})
	require.NoError(t, err)
	full := listPage{make([]versions.Version, pageSize)}
	rpc.OnRequest(rpc.Bind(world, Class, func(*rpc.Actor) *int { return nil }), askList,
		func(*int, *rpc.Call, listArgs) (listPage, error) { return full, nil })
	certificate, err := cert.Development()
	require.NoError(t, err)
	listener, err := rpc.Listen("127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}}, world)
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- world.Run(context.Background()) }()
	t.Cleanup(func() {
		require.NoError(t, world.Close(context.Background(), 0, "the test is over"))
		require.NoError(t, listener.Close())
		require.ErrorIs(t, <-ended, rpc.ErrClosed)
	})
	client, err := Dial(t.Context(), ClientConfig{Connect: to(t, listener.Addr().String(), cert.Fingerprint(certificate), nil)})
	require.NoError(t, err)
	return client
}

// TestServerWithManyDesks: the client uses the first one, and the others do not block its world.
func TestServerWithManyDesks(t *testing.T) {
	client := dialTo(t, func(w *rpc.World, c *rpc.Conn) {
		for range 20 {
			_, err := w.Spawn(Class, c)
			require.NoError(t, err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	require.NoError(t, client.world.Do(ctx, func() { require.True(t, client.desk.Alive()) }))
	closed := make(chan struct{})
	go func() {
		client.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-ctx.Done():
		t.Fatal("the client does not close")
	}
}

// Lists had no end if the server gave them none.
func TestListsTakeNoMoreMemoryThanTheyMay(t *testing.T) {
	client := dialTo(t, func(w *rpc.World, c *rpc.Conn) {
		_, err := w.Spawn(Class, c)
		require.NoError(t, err)
	})
	defer client.Close()
	list, err := client.List(t.Context())
	require.ErrorIs(t, err, manifest.ErrManifest)
	require.Nil(t, list)
	require.LessOrEqual(t, maxVersions*int(unsafe.Sizeof(versions.Version{})), 64<<20)
}

// peer returns the server's end of the one connection.
func (h *host) peer() (p *stream.Peer) {
	require.NoError(h.t, h.server.World().Do(h.t.Context(), func() { p = h.server.streams.Peer(h.server.World().Conns()[0]) }))
	return p
}

// TestWhatEndedBeforeItWasTaken: everything that is sent, and its end, may be
// there before anybody waits for it.
func TestWhatEndedBeforeItWasTaken(t *testing.T) {
	h := newHost(t, versions.Config{}, nil)
	c := h.dial()
	require.NoError(t, talks.Send(t.Context(), h.peer(), strings.NewReader(""), 0, stream.Name("7 manifest")))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	b, err := number(7).talk(c.streams.Peer(c.conn), 0).ReadBlob(ctx, pieces.Manifest, 1)
	require.NoError(t, err)
	require.Empty(t, b)
}

// TestChunksThatFailEndTheirBlob: their blob ends before the context of the
// request does, because an open one counts among those that a connection may have.
func TestChunksThatFailEndTheirBlob(t *testing.T) {
	h := newHost(t, versions.Config{}, nil)
	c := h.dial()
	broken := errors.New("broken")
	says := number(7).talk(c.streams.Peer(c.conn), 0)
	require.ErrorIs(t, says.Send(t.Context(), []int{0}, func([]byte, int) ([]byte, error) { return nil, broken }), broken)
	in, err := h.peer().Inbox().Take(t.Context(), "7 pieces")
	require.NoError(t, err)
	ended, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	defer context.AfterFunc(ended, func() { in.Reject(context.Cause(ended)) })()
	b, err := io.ReadAll(in)
	require.NoError(t, err)
	require.Empty(t, b)
}
