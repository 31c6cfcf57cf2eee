package files

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// A file has what was written to it, whatever the pieces, and whether or not
// its file system can write past the cache.
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

// What the file system does not take directly is written all the same: here its
// memory begins nowhere near a sector.
func TestDirectThatIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	d, err := CreateDirect(path)
	require.NoError(t, err)
	require.True(t, d.takeBuffer())
	crooked := (*d.pending)[1:1]
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

// An error of a write is that of all further ones, and of Sync; a file that is
// closed has given its memory back.
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

// Files beyond maxBuffers hold no memory: they are written at once, to the
// cache, and are complete as well.
func TestManyDirect(t *testing.T) {
	folder := t.TempDir()
	random := rand.New(rand.NewPCG(1, 2))
	many, data := make([]*Direct, maxBuffers+5), make([][]byte, maxBuffers+5)
	for i := range many {
		var err error
		many[i], err = CreateDirect(filepath.Join(folder, strconv.Itoa(i)))
		require.NoError(t, err)
	}
	for round := range 5 {
		held := 0
		for i := range many {
			some := bytes.Repeat([]byte{byte(round*len(many) + i)}, 1+random.IntN(directBytes/4))
			if random.IntN(20) == 0 {
				some = bytes.Repeat(some, 5)
			}
			n, err := many[i].Write(some)
			require.NoError(t, err)
			require.Equal(t, len(some), n)
			data[i] = append(data[i], some...)
		}
		for _, d := range many {
			if d.pending != nil {
				held++
			}
		}
		require.LessOrEqual(t, held, maxBuffers)
	}
	for i, d := range many {
		require.NoError(t, d.Sync())
		require.NoError(t, d.Close())
		requireFile(t, filepath.Join(folder, strconv.Itoa(i)), data[i])
	}
	require.Zero(t, buffersInUse.Load())
}

func requireFile(t *testing.T, path string, data []byte) {
	t.Helper()
	there, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, bytes.Equal(data, there), "%d bytes were written, %d are there", len(data), len(there))
}
