package main

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/examples/savegame/vault"
	"github.com/quivernet/quiver/internal/netsim"
)

// slow puts a relay of 8 Mbit/s before the server, so that a transfer of megabytes is still under way when the test
// breaks something.
func (s *testServer) slow() {
	s.t.Helper()
	way := netsim.Config{Rate: 8e6, Seed: 1}
	relay, err := netsim.NewRelay(s.addr, way, way)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = relay.Close() })
	s.addr = relay.Addr().String()
}

// partBytes is how much of a content has arrived in the store below dir.
func partBytes(dir string) (most int64) {
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".part") {
			if info, err := e.Info(); err == nil {
				most = max(most, info.Size())
			}
		}
		return nil
	})
	return most
}

// awaitPart returns when some content has arrived.
func awaitPart(dir string) {
	for partBytes(dir) == 0 {
		time.Sleep(5 * time.Millisecond)
	}
}

func TestServerGoesAwayDuringPut(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.slow()
	path, _ := newFile(t, 8<<20)
	ended := make(chan result, 1)
	go func() { ended <- runProgram(context.Background(), s.flags("put", path, "x")...) }()
	awaitPart(s.dir)
	require.Zero(t, s.stop())
	requireFailure(t, <-ended, "put x", s.addr, "closed the connection", "shuts down")
	require.NoFileExists(t, filepath.Join(s.dir, "saves", vault.IdentityOf([]byte(s.token)), "x"))
}

func TestServerGoesAwayDuringGet(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	path, _ := newFile(t, 8<<20)
	s.run("put", path, "x")
	s.slow()
	dir := t.TempDir()
	ended := make(chan result, 1)
	go func() { ended <- runProgram(context.Background(), s.flags("get", "x", dir)...) }()
	awaitPart(dir)
	require.Zero(t, s.stop())
	requireFailure(t, <-ended, "get x", s.addr, "closed the connection")
	require.NoFileExists(t, filepath.Join(dir, "x"))
}

func TestInterruptedPut(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.slow()
	path, _ := newFile(t, 8<<20)
	ctx, cancel := context.WithCancelCause(context.Background())
	ended := make(chan result, 1)
	go func() { ended <- runProgram(ctx, s.flags("put", path, "x")...) }()
	awaitPart(s.dir)
	cancel(errInterrupted)
	r := <-ended
	require.Equal(t, exitInterrupted, r.code)
	requireFailure(t, r, "interrupted")
	require.Empty(t, s.run("ls").stdout)

	t.Log("# the log says so, and names the connection as all records do")
	require.Zero(t, s.stop())
	log := s.stderr.text.String()
	require.Regexp(t, `level=INFO msg="put interrupted" conn.id=1 .*save=x `, log)
	require.Contains(t, log, `reason="the client was interrupted"`)
	require.NotContains(t, log, "put refused")
	require.NotContains(t, log, "client=")
}

func TestInterruptedGet(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	path, _ := newFile(t, 8<<20)
	s.run("put", path, "x")
	s.slow()
	dir := t.TempDir()
	ctx, cancel := context.WithCancelCause(context.Background())
	ended := make(chan result, 1)
	go func() { ended <- runProgram(ctx, s.flags("get", "x", dir)...) }()
	awaitPart(dir)
	cancel(errInterrupted)
	r := <-ended
	require.Equal(t, exitInterrupted, r.code)
	requireFailure(t, r, "interrupted")
	require.NoFileExists(t, filepath.Join(dir, "x"))
}

func TestServerFolderGoesBad(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	path, _ := newFile(t, 10_000)
	s.run("put", path, "x")
	saves := filepath.Join(s.dir, "saves", vault.IdentityOf([]byte(s.token)))
	require.NoError(t, os.RemoveAll(saves))
	require.NoError(t, os.WriteFile(saves, nil, 0o600)) // a file in place of the folder
	s.fails([]string{"put", path, "x"}, "put x", "the server can not store it")
}
