package store

import (
	"archive/zip"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"
	"syscall"
	"time"
)

// A pack is a file with objects of one folder. It is either a single object as it is, or an
// uncompressed ZIP archive of several, which other programs can read.
type pack struct {
	name    string
	time    time.Time       // when it was written
	objects map[string]span // by the last element of their keys
}

// A span is the position of an object in its pack.
type span struct{ offset, size int64 }

// size returns the total size of its objects.
func (p *pack) size() (bytes int64) {
	for _, at := range p.objects {
		bytes += at.size
	}
	return bytes
}

// packName returns a name for a new pack of several objects of a folder.
func packName(folder string) string { return folder + "/+" + rand.Text() + ".zip" }

// IsPack reports whether name is the name of a pack of several objects, or of one from which all
// but one were deleted. No valid key has such a name, so if List returns one, it is a damaged pack.
func IsPack(name string) bool {
	return strings.HasPrefix(path.Base(name), "+") && strings.HasSuffix(name, ".zip")
}

// read records the objects in a pack of size bytes. It records nothing if the pack is damaged.
func (p *pack) read(from io.ReaderAt, size int64) error {
	archive, err := zip.NewReader(io.NewSectionReader(from, 0, size), size) // a SectionReader rejects negative offsets
	if err != nil {
		return err
	}
	for _, f := range archive.File {
		at, err := f.DataOffset()
		switch {
		case unlessDamaged(err) != nil:
			return err
		case err == nil && goodElement(f.Name) && whole(f, at, size):
			p.objects[f.Name] = span{at, int64(f.UncompressedSize64)}
		}
	}
	return nil
}

// whole reports whether an object is stored uncompressed and lies within a pack of size bytes,
// which it doesn't if a flipped bit made its size too large.
func whole(f *zip.File, at, size int64) bool {
	return at <= size && f.Method == zip.Store && f.CompressedSize64 == f.UncompressedSize64 && f.UncompressedSize64 <= uint64(size-at)
}

// unlessDamaged returns err if a file can't be read at the moment. It returns nil if the file isn't
// an archive or the disk has lost it.
func unlessDamaged(err error) error {
	if errors.As(err, new(*fs.PathError)) && !errors.Is(err, syscall.EIO) {
		return err
	}
	return nil
}
