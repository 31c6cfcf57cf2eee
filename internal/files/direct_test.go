package files

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A file has what was written to it, whatever the pieces, and whether or not its file system can write past the cache.
func TestDirect(t *testing.T) {
	folders := []string{t.TempDir()}
	if shared, err := os.MkdirTemp("/dev/shm", "direct"); err == nil { // in memory: many kernels write nothing directly there
		t.Cleanup(func() { require.NoError(t, os.RemoveAll(shared)) })
		folders = append(folders, shared)
	}
	for _, folder := range folders {
		for _, size := range []int{0, 1, directBytes - 1, directBytes, directBytes + 1, 5*directBytes + 77} {
			data := make([]byte, size)
			_, _ = rand.NewChaCha8([32]byte{}).Read(data)
			path := filepath.Join(folder, "file")
			d, err := CreateDirect(path)
			require.NoError(t, err)
			_, err = CreateDirect(path)
			require.ErrorIs(t, err, os.ErrExist)
			for rest := data; len(rest) > 0; {
				n := min(1+rand.IntN(2*directBytes), len(rest))
				written, err := d.Write(rest[:n])
				require.NoError(t, err)
				require.Equal(t, n, written)
				rest = rest[n:]
			}
			require.NoError(t, d.Sync())
			require.NoError(t, d.Close())
			requireFile(t, path, data)
			require.NoError(t, os.Remove(path))
		}
	}
}

// What the file system does not take directly is written all the same: here its memory begins nowhere near a sector.
func TestDirectThatIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	d, err := CreateDirect(path)
	require.NoError(t, err)
	crooked := (*pendings.Get().(*[]byte))[1:1]
	d.pending = &crooked
	data := bytes.Repeat([]byte("saved"), directBytes/2)
	_, err = d.Write(data[:directBytes-1])
	require.NoError(t, err)
	d.flush()
	_, err = d.Write(data[directBytes-1:])
	require.NoError(t, err)
	require.NoError(t, d.Sync())
	require.NoError(t, d.Close())
	requireFile(t, path, data)
}

// An error of a write is that of all further ones, and of Sync; a file that is closed has given its memory back.
func TestDirectFails(t *testing.T) {
	d, err := CreateDirect(filepath.Join(t.TempDir(), "file"))
	require.NoError(t, err)
	require.NoError(t, d.file.Close())
	_, err = d.Write(make([]byte, 10))
	require.NoError(t, err)
	_, err = d.Write(make([]byte, directBytes))
	require.ErrorIs(t, err, os.ErrClosed)
	_, err = d.Write([]byte{1})
	require.ErrorIs(t, err, os.ErrClosed)
	require.ErrorIs(t, d.Sync(), os.ErrClosed)
	require.ErrorIs(t, d.Close(), os.ErrClosed)
	require.Nil(t, d.pending)
}

func requireFile(t *testing.T, path string, data []byte) {
	t.Helper()
	there, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, bytes.Equal(data, there), "%d bytes were written, %d are there", len(data), len(there))
}
