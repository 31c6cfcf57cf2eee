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

// A pack is a file of objects of one folder: a single object as it is, or
// several in an uncompressed ZIP archive, which other programs can read.
type pack struct {
	name    string
	time    time.Time       // when it was written
	objects map[string]span // by the last element of their keys
}

// A span is where in its pack an object is.
type span struct{ offset, size int64 }

// size returns how many bytes its objects have.
func (p *pack) size() (bytes int64) {
	for _, at := range p.objects {
		bytes += at.size
	}
	return bytes
}

// packName returns a name for a new pack of several objects of a folder.
func packName(folder string) string { return folder + "/+" + rand.Text() + ".zip" }

// IsPack reports whether name is that of a pack of several objects, or of a
// pack from which all but one were deleted. No key has such a name. If List
// returns one it is not an object, but a pack that is damaged.
func IsPack(name string) bool {
	return strings.HasPrefix(path.Base(name), "+") && strings.HasSuffix(name, ".zip")
}

// read records what is in a pack of size bytes. For a damaged pack it records
// nothing: what was in it is missing.
func (p *pack) read(from io.ReaderAt, size int64) error {
	archive, err := zip.NewReader(io.NewSectionReader(from, 0, size), size) // a SectionReader allows no negative offsets
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

// whole reports whether an object is stored as it is, within a pack of size
// bytes. It rejects sizes that a flipped bit has made too large.
func whole(f *zip.File, at, size int64) bool {
	return at <= size && f.Method == zip.Store && f.CompressedSize64 == f.UncompressedSize64 && f.UncompressedSize64 <= uint64(size-at)
}

// unlessDamaged returns err if a file cannot be read for now, and nil if it is
// no archive, or if the disk has lost it.
func unlessDamaged(err error) error {
	if errors.As(err, new(*fs.PathError)) && !errors.Is(err, syscall.EIO) {
		return err
	}
	return nil
}
