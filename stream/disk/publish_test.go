package disk

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/stream"
)

func TestPublish(t *testing.T) {
	dir := t.TempDir()
	s, path, data := New(filepath.Join(dir, "parts")), filepath.Join(dir, "save"), []byte("level 3")
	digest := stream.BLAKE3.Of(data)
	require.ErrorIs(t, s.Publish(mine, digest, path, 0o600), fs.ErrNotExist)

	store(t, s, mine, digest.String(), data)
	require.ErrorIs(t, s.Publish("somebody else", digest, path, 0o600), fs.ErrNotExist)
	require.NoError(t, os.WriteFile(path, []byte("level 2"), 0o644))
	require.NoError(t, s.Publish(mine, digest, path, 0o640))
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, data, got)
	requireMissing(t, s, mine, digest.String())
}

func TestPublishRefusesOtherContent(t *testing.T) {
	dir := t.TempDir()
	s, path := New(filepath.Join(dir, "parts")), filepath.Join(dir, "save")
	wanted := stream.BLAKE3.Of([]byte("level 3"))
	store(t, s, mine, wanted.String(), []byte("forged"))
	require.ErrorIs(t, s.Publish(mine, wanted, path, 0o600), stream.ErrDigest)
	require.NoFileExists(t, path)
	requireMissing(t, s, mine, wanted.String())
}
