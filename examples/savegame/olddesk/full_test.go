package desk

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/examples/savegame/vault"
	"github.com/quivernet/quiver/stream"
)

// fullDisk is a store on a disk that takes half of what is written to it, while full is set.
type fullDisk struct {
	stream.Store
	full atomic.Bool
}

func (d *fullDisk) Open(identity, key string, size int64) (stream.Part, error) {
	p, err := d.Store.Open(identity, key, size)
	if err != nil || !d.full.Load() {
		return p, err
	}
	return fullPart{p}, nil
}

type fullPart struct{ stream.Part }

func (p fullPart) Write(b []byte) (int, error) {
	n, err := p.Part.Write(b[:len(b)/2])
	if err == nil {
		err = &os.PathError{Op: "write", Path: "/secret", Err: syscall.ENOSPC}
	}
	return n, err
}

func newSource(t *testing.T, content []byte) *vault.Source {
	t.Helper()
	path := filepath.Join(t.TempDir(), "source")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	src, err := vault.OpenSource(path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = src.Close() })
	return src
}

func TestFullServer(t *testing.T) {
	disk := &fullDisk{}
	p := newPairWith(t, vault.Limits{}, func(s stream.Store) stream.Store {
		disk.Store = s
		return disk
	})
	content := make([]byte, 100_000)
	src := newSource(t, content)
	disk.full.Store(true)
	_, err := p.client.Put(t.Context(), "x", src)
	require.ErrorIs(t, err, ErrRefused)
	require.ErrorContains(t, err, "the server can not store it: no space left")
	require.NotContains(t, err.Error(), "secret")
	requireNoSaves(t, p.folder)

	t.Log("# what could not be stored does not keep the disk full, nor stand in the way")
	disk.full.Store(false)
	part, err := disk.Open(p.client.conn.Identity(), stream.BLAKE3.Of(content).String(), int64(len(content)))
	require.NoError(t, err)
	require.Zero(t, part.Offset())
	require.NoError(t, part.Close())
	_, err = p.client.Put(t.Context(), "x", src)
	require.NoError(t, err)
}
