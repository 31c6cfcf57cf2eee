package store_test

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/examples/savegame/store"
)

// zipOf returns an archive with a file f.
func zipOf(t *testing.T, method uint16) []byte {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	f, err := w.CreateHeader(&zip.FileHeader{Name: "f", Method: method})
	require.NoError(t, err)
	_, err = f.Write(bytes.Repeat([]byte("hello"), 100))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.Bytes()
}

// withZip64 gives the only record of an archive's directory a 64-bit size, and
// an offset if it is not 0.
func withZip64(b []byte, size, offset uint64) []byte {
	i := bytes.Index(b, []byte("PK\x01\x02"))
	e := bytes.Index(b, []byte("PK\x05\x06"))
	rec := append([]byte(nil), b[i:e]...)
	end := append([]byte(nil), b[e:]...)
	nameLen := int(binary.LittleEndian.Uint16(rec[28:]))
	binary.LittleEndian.PutUint32(rec[24:], 0xffffffff)
	extra := binary.LittleEndian.AppendUint16(nil, 1)
	var body []byte
	body = binary.LittleEndian.AppendUint64(body, size)
	if offset != 0 {
		binary.LittleEndian.PutUint32(rec[42:], 0xffffffff)
		body = binary.LittleEndian.AppendUint64(body, offset)
	}
	extra = binary.LittleEndian.AppendUint16(extra, uint16(len(body)))
	extra = append(extra, body...)
	binary.LittleEndian.PutUint16(rec[30:], uint16(len(extra)))
	rec = append(rec[:46+nameLen], extra...)
	binary.LittleEndian.PutUint32(end[12:], uint32(len(rec)))
	return append(append(append([]byte(nil), b[:i]...), rec...), end...)
}

// TestPacksThatLie: a bit that flips in a pack, or a program that saves it
// again, costs the objects of that record and nothing else.
func TestPacksThatLie(t *testing.T) {
	for name, pack := range map[string][]byte{
		"negative size":   withZip64(zipOf(t, zip.Store), 1<<63+5, 0),
		"size beyond":     withZip64(zipOf(t, zip.Store), 1<<40, 0),
		"negative offset": withZip64(zipOf(t, zip.Store), 500, 1<<63+5),
		"compressed":      zipOf(t, zip.Deflate),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.MkdirAll(filepath.Join(dir, "objects/a"), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "objects/a/+x.zip"), pack, 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "objects/a/single"), []byte("fine"), 0o600))
			s, err := store.Open(dir)
			require.NoError(t, err)
			defer s.Close()
			_, err = s.Get(t.Context(), "a/f")
			require.ErrorIs(t, err, os.ErrNotExist)
			got, err := s.Get(t.Context(), "a/single")
			require.NoError(t, err)
			require.Equal(t, "fine", string(got))
			for o, err := range s.List(t.Context(), "a") {
				require.NoError(t, err)
				require.LessOrEqual(t, o.Size, int64(len(pack)), o.Key)
			}
		})
	}
}

// A badSectors is a file system that opens packs, and fails to read them.
type badSectors struct {
	store.Files
	with error
}

type badFile struct {
	store.OpenFile
	with error
}

func (b badSectors) Open(name string) (store.OpenFile, error) {
	f, err := b.Files.Open(name)
	if err == nil && store.IsPack(name) {
		return badFile{f, b.with}, nil
	}
	return f, err
}

func (f badFile) ReadAt([]byte, int64) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: "a pack", Err: f.with}
}

// TestABadSectorCostsOnePack: a bad sector costs one pack, and not the folder that it is in.
func TestABadSectorCostsOnePack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, files, _ := packed(t)
		require.NoError(t, s.Put(t.Context(), "a/single", []byte("fine")))
		s, err := store.OpenOn(badSectors{files, syscall.EIO})
		require.NoError(t, err)
		_, err = s.Get(t.Context(), "a/single")
		require.NoError(t, err)
		require.NoError(t, s.Put(t.Context(), "a/1", nil), "what was in it can be put again")
	})
}

// A badInode is a file system that cannot even report how large packs are.
type badInode struct{ store.Files }

func (b badInode) Stat(name string) (fs.FileInfo, error) {
	if store.IsPack(name) {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: syscall.EIO}
	}
	return b.Files.Stat(name)
}

// Opening such a store panicked.
func TestABadInodeIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, files, _ := packed(t)
		_, err := store.OpenOn(badInode{files})
		require.ErrorIs(t, err, syscall.EIO)
	})
}
