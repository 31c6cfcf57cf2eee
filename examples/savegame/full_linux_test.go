package main

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/examples/savegame/vault"
)

// fillPart makes the part of a content a device that is always full.
func fillPart(t *testing.T, store, identity string, content []byte) {
	t.Helper()
	digest := sha256.Sum256(content)
	name := func(s string) string {
		sum := sha256.Sum256([]byte(s))
		return hex.EncodeToString(sum[:20])
	}
	folder := filepath.Join(store, name(identity))
	require.NoError(t, os.MkdirAll(folder, 0o700))
	require.NoError(t, os.Symlink("/dev/full", filepath.Join(folder, name(hex.EncodeToString(digest[:]))+".part")))
}

func TestFullServer(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	path, content := newFile(t, 100_000)
	fillPart(t, filepath.Join(s.dir, "parts"), vault.IdentityOf([]byte(s.token)), content)
	s.fails([]string{"put", path, "x"}, "put x", "the server can not store it", "no space left")
	require.Empty(t, s.run("ls").stdout)
	s.run("put", path, "x") // the part that could not be written does not stand in the way
}

func TestFullFolder(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	path, content := newFile(t, 100_000)
	s.run("put", path, "x")
	dir := t.TempDir()
	fillPart(t, filepath.Join(dir, ".savegame-parts"), vault.IdentityOf([]byte(s.token)), content)
	s.fails([]string{"get", "x", dir}, "get x", filepath.Join(dir, "x"), "no space left")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
}
