//go:build !windows

package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// get made a regular file of a link and of a device.
func TestGetThroughLinks(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	path, content := newFile(t, 100_000)
	s.run("put", path, "x")
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, os.MkdirAll(at("far/away"), 0o700))
	require.NoError(t, os.WriteFile(at("far/away/old"), []byte("old"), 0o640))
	require.NoError(t, os.Symlink("far/away", at("near")))
	for name, leads := range map[string]string{
		"link":     "near/old",
		"chain":    at("link"),
		"dangling": "near/../away/new", // behind the link: far/away/new
	} {
		require.NoError(t, os.Symlink(leads, at(name)))
	}
	for _, test := range [][2]string{{"link", "far/away/old"}, {"chain", "far/away/old"}, {"dangling", "far/away/new"}} {
		s.run("get", "x", at(test[0]))
		requireContent(t, at(test[1]), content)
		info, err := os.Lstat(at(test[0]))
		require.NoError(t, err)
		require.Equal(t, os.ModeSymlink, info.Mode().Type(), "%s is a link still", test[0])
		require.NoError(t, os.WriteFile(at(test[1]), []byte("old"), 0o640))
	}
	info, err := os.Stat(at("far/away/old"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o640), info.Mode())
	require.NoError(t, os.Symlink("loop", at("loop")))
	s.fails([]string{"get", "x", at("loop")}, at("loop"), "too many links")

	t.Log("# a link in place of the folder of the parts")
	require.NoError(t, os.Symlink(t.TempDir(), at(".savegame-parts")))
	s.fails([]string{"get", "x", at("y")}, ".savegame-parts", "not a folder")
}

func TestGetIntoDevicesAndPipes(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	path, content := newFile(t, 300_000)
	s.run("put", path, "x")
	s.run("get", "x", os.DevNull)
	info, err := os.Stat(os.DevNull)
	require.NoError(t, err)
	require.Equal(t, os.ModeDevice|os.ModeCharDevice, info.Mode().Type())

	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	got := make(chan []byte)
	go func() {
		f, err := os.Open(pipe)
		if err != nil {
			close(got)
			return
		}
		defer f.Close()
		all, _ := io.ReadAll(f)
		got <- all
	}()
	s.run("get", "x", pipe)
	require.Equal(t, content, <-got)

	t.Log("# a pipe that nobody reads is waited for, until interrupted")
	ctx, cancel := context.WithCancelCause(context.Background())
	code := make(chan result)
	go func() { code <- runProgram(ctx, s.flags("get", "x", pipe)...) }()
	cancel(errInterrupted)
	require.Equal(t, exitInterrupted, (<-code).code)
}

func TestPutOfAPipe(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	s.fails([]string{"put", pipe}, pipe, "not a regular file")
}
