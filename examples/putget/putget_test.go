package main

import (
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/cert"
	"github.com/quivernet/quiver/stream"
	"github.com/quivernet/quiver/stream/disk"
)

// start serves dir and returns how clients reach it.
func start(t *testing.T, dir string) (addr, fingerprint string) {
	ctx, stop := context.WithCancel(context.Background())
	ended, listens := make(chan error, 1), make(chan [2]string, 1)
	go func() {
		ended <- serve(ctx, dir, "sesame", "localhost:0", func(addr, fingerprint string) { listens <- [2]string{addr, fingerprint} })
	}()
	t.Cleanup(func() {
		stop()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
	where := <-listens
	return where[0], where[1]
}

func TestPutAndGet(t *testing.T) {
	shelf, here, there := t.TempDir(), t.TempDir(), t.TempDir()
	addr, fingerprint := start(t, shelf)
	path, content := filepath.Join(here, "level.bin"), make([]byte, 8<<20)
	_, _ = rand.Read(content)
	require.NoError(t, os.WriteFile(path, content, 0o600))
	for range 2 { // the second time it is there
		require.NoError(t, visit(t.Context(), addr, fingerprint, "sesame", here, "put", path))
	}
	require.NoError(t, visit(t.Context(), addr, fingerprint, "sesame", there, "get", "level.bin"))
	for _, dir := range []string{shelf, there} {
		got, err := os.ReadFile(filepath.Join(dir, "level.bin"))
		require.NoError(t, err)
		require.Equal(t, content, got, dir)
	}
}

// TestOneContentUnderTwoNames: a client that puts a content which another one is
// still putting has it in the end, although the store keeps one copy at a time.
func TestOneContentUnderTwoNames(t *testing.T) {
	shelf, here, content := t.TempDir(), t.TempDir(), make([]byte, 1<<20)
	addr, fingerprint := start(t, shelf)
	_, _ = rand.Read(content)
	path := filepath.Join(here, "two")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	other, err := disk.New(filepath.Join(shelf, ".parts")).Open("", stream.BLAKE3.Of(content).String(), int64(len(content)))
	require.NoError(t, err)
	time.AfterFunc(3500*time.Millisecond, func() { _ = other.Close() }) // a transfer waits for three seconds before it goes on without the store
	require.NoError(t, visit(t.Context(), addr, fingerprint, "sesame", here, "put", path))
	got, err := os.ReadFile(filepath.Join(shelf, "two"))
	require.NoError(t, err)
	require.Equal(t, content, got)
}

// TestTooLargeAFile: a file that is too large is refused before it is sent. It was
// refused afterwards, by a store that had no room for it: file does not exist.
func TestTooLargeAFile(t *testing.T) {
	shelf, here := t.TempDir(), t.TempDir()
	addr, fingerprint := start(t, shelf)
	path := filepath.Join(here, "large")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, os.Truncate(path, 1<<30+1)) // a hole, which takes no room
	require.ErrorIs(t, visit(t.Context(), addr, fingerprint, "sesame", here, "put", path), stream.ErrTooLarge)
	require.NoFileExists(t, filepath.Join(shelf, "large"))
}

func TestRefusals(t *testing.T) {
	addr, fingerprint := start(t, t.TempDir())
	require.ErrorContains(t, visit(t.Context(), addr, fingerprint, "mellon", t.TempDir(), "get", "x"), "wrong token")
	for _, name := range []string{"", ".", "..", "../secret", "a/b", ".certificate", "absent"} {
		require.Error(t, visit(t.Context(), addr, fingerprint, "sesame", t.TempDir(), "get", name), name)
	}
}

// TestClientsThatFetchAndLeave: each file that was requested was hashed to its
// end, although nobody waited for it any more, and each that was not read
// stayed open, so one client took all of the server's processors and files.
func TestClientsThatFetchAndLeave(t *testing.T) {
	shelf := t.TempDir()
	addr, fingerprint := start(t, shelf)
	require.NoError(t, os.WriteFile(filepath.Join(shelf, "large"), nil, 0o600))
	require.NoError(t, os.Truncate(filepath.Join(shelf, "large"), 256<<20)) // a hole, which takes no room
	require.NoError(t, os.WriteFile(filepath.Join(shelf, "small"), make([]byte, 100), 0o600))
	pin, err := cert.Pinned(fingerprint)
	require.NoError(t, err)
	world, err := rpc.NewWorld(rpc.Config{Token: []byte("sesame"), Sealed: true, IdleTimeout: time.Minute})
	require.NoError(t, err)
	streams, err := stream.Install(world, stream.Config{})
	require.NoError(t, err)
	desks := make(chan *rpc.Actor, 1)
	Files.Handle(streams, func(*stream.IncomingBlob) {}) // and nobody reads it
	rpc.Bind(world, Desk, func(a *rpc.Actor) *place { desks <- a; return nil })
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go world.Run(ctx)
	conn, err := rpc.Dial(ctx, addr, pin, world)
	require.NoError(t, err)
	defer conn.Close(0, "done")
	desk, before := <-desks, runtime.NumGoroutine()
	for range 300 {
		_, _ = Fetch.Ask(ctx, desk, File{Name: "small"})
	}
	require.Less(t, runtime.NumGoroutine()-before, 25, "files that are open")
	for range 300 {
		hasty, cancel := context.WithTimeout(ctx, time.Millisecond)
		_, _ = Fetch.Ask(hasty, desk, File{Name: "large"})
		cancel()
	}
	time.Sleep(100 * time.Millisecond)
	require.Less(t, runtime.NumGoroutine()-before, 25, "files that are hashed for nobody")
}
