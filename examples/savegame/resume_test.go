package main

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	desk "github.com/quivernet/quiver/examples/savegame/olddesk"
	"github.com/quivernet/quiver/examples/savegame/vault"
	"github.com/quivernet/quiver/rpc/cert"
)

const resumeSize = 4 << 20

// cutSocket counts what goes through it. Once half of the content has arrived in the folder half it is dead, as the
// socket of a killed program: nothing comes out of it and nothing goes in.
type cutSocket struct {
	net.PacketConn
	half           string // empty: it lives on
	sent, received atomic.Int64
	dead           atomic.Bool
	cut            func()
}

func newCutSocket(t *testing.T, half string) *cutSocket {
	t.Helper()
	c, err := listenLoopback()
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return &cutSocket{PacketConn: c, half: half, cut: func() {}}
}

// carries counts n more bytes and reports whether they pass.
func (c *cutSocket) carries(n int, count *atomic.Int64) bool {
	switch {
	case c.dead.Load():
		return false
	case c.half != "" && partBytes(c.half) >= resumeSize/2 && c.dead.CompareAndSwap(false, true):
		c.cut()
		return false
	}
	count.Add(int64(n))
	return true
}

func (c *cutSocket) WriteTo(p []byte, addr net.Addr) (int, error) {
	if !c.carries(len(p), &c.sent) {
		return len(p), nil
	}
	return c.PacketConn.WriteTo(p, addr)
}

func (c *cutSocket) ReadFrom(p []byte) (int, net.Addr, error) {
	for {
		n, addr, err := c.PacketConn.ReadFrom(p)
		if err != nil || c.carries(n, &c.received) {
			return n, addr, err
		}
	}
}

// visit runs fn with a client behind socket; fn's context ends when the socket is cut.
func (s *testServer) visit(socket *cutSocket, fn func(ctx context.Context, c *desk.Client) error) error {
	s.t.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	socket.cut = func() { cancel(errCut) }
	c, err := desk.Dial(ctx, desk.ClientConfig{Server: s.addr, TLS: cert.Pinned(s.fingerprint), Token: s.token, Socket: socket})
	require.NoError(s.t, err)
	defer c.Close()
	return fn(ctx, c)
}

var errCut = errors.New("the socket is cut")

func (s *testServer) put(socket *cutSocket, path, name string) (had bool, err error) {
	s.t.Helper()
	src, err := vault.OpenSource(path)
	require.NoError(s.t, err)
	defer src.Close()
	err = s.visit(socket, func(ctx context.Context, c *desk.Client) error {
		had, err = c.Put(ctx, name, src)
		return err
	})
	return had, err
}

func (s *testServer) get(socket *cutSocket, name, path string) error {
	s.t.Helper()
	target, err := vault.OpenTarget(path, name)
	require.NoError(s.t, err)
	return s.visit(socket, func(ctx context.Context, c *desk.Client) error {
		_, _, err := c.Get(ctx, name, target)
		return err
	})
}

func TestKilledPutGoesOn(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	path, content := newFile(t, resumeSize)

	_, err := s.put(newCutSocket(t, s.dir), path, "x")
	require.ErrorIs(t, err, errCut)
	require.Empty(t, s.run("ls").stdout, "no save is visible")
	require.NoFileExists(t, filepath.Join(s.dir, "saves", vault.IdentityOf([]byte(s.token)), "x"))

	second := newCutSocket(t, "")
	had, err := s.put(second, path, "x")
	require.NoError(t, err)
	require.False(t, had)
	require.LessOrEqual(t, second.sent.Load(), int64(resumeSize*4/5), "half, and what a busy machine drops, not all again")

	copied := filepath.Join(t.TempDir(), "copy")
	s.run("get", "x", copied)
	requireContent(t, copied, content)
}

func TestSecondPutOfTheSameContentIsShort(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	path, _ := newFile(t, resumeSize)
	s.run("put", path, "x")
	for _, name := range []string{"x", "y"} {
		socket := newCutSocket(t, "")
		had, err := s.put(socket, path, name)
		require.NoError(t, err)
		require.True(t, had)
		require.Less(t, socket.sent.Load(), int64(resumeSize/64), "handshake, probes of the path and all")
	}
}

func TestKilledGetGoesOn(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	path, content := newFile(t, resumeSize)
	s.run("put", path, "x")
	copied := filepath.Join(t.TempDir(), "copy")

	err := s.get(newCutSocket(t, filepath.Dir(copied)), "x", copied)
	require.ErrorIs(t, err, errCut)
	require.NoFileExists(t, copied)

	second := newCutSocket(t, "")
	require.NoError(t, s.get(second, "x", copied))
	require.LessOrEqual(t, second.received.Load(), int64(resumeSize*4/5), "half, and what a busy machine drops, not all again")
	requireContent(t, copied, content)
	entries, err := os.ReadDir(filepath.Dir(copied))
	require.NoError(t, err)
	require.Len(t, entries, 1, "no part is left")
}

func TestPutGoesOnAtARestartedServer(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	path, content := newFile(t, resumeSize)
	_, err := s.put(newCutSocket(t, s.dir), path, "x")
	require.ErrorIs(t, err, errCut)
	require.Zero(t, s.stop())

	again := startServerIn(t, s.dir)
	socket := newCutSocket(t, "")
	_, err = again.put(socket, path, "x")
	require.NoError(t, err)
	require.LessOrEqual(t, socket.sent.Load(), int64(resumeSize*4/5), "half, and what a busy machine drops, not all again")
	copied := filepath.Join(t.TempDir(), "copy")
	again.run("get", "x", copied)
	requireContent(t, copied, content)
}
