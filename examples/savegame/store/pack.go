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

// pack is a file of objects of one folder: one alone as it is, or several in a ZIP archive that is not compressed, so that other programs can
// read it.
type pack struct {
	name    string
	time    time.Time       // when it was written
	objects map[string]span // by the last element of their keys
}

// span is where in its pack an object is.
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

// IsPack reports whether it is the name of a pack of several objects, or of one that is left, which no key has. What List tells under it is no
// object, but such a file that is damaged.
func IsPack(name string) bool {
	return strings.HasPrefix(path.Base(name), "+") && strings.HasSuffix(name, ".zip")
}

// read notes what is in the pack of size bytes. Of one that is damaged it notes nothing: what was in it is missing.
func (p *pack) read(from io.ReaderAt, size int64) error {
	archive, err := zip.NewReader(io.NewSectionReader(from, 0, size), size) // which knows no negative offsets
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

// whole reports whether an object is stored as it is, within a pack of size bytes. What a flipped bit says of its size is not believed.
func whole(f *zip.File, at, size int64) bool {
	return at <= size && f.Method == zip.Store && f.CompressedSize64 == f.UncompressedSize64 && f.UncompressedSize64 <= uint64(size-at)
}

// unlessDamaged returns err where a file cannot be read for now, nil where it is no archive, or the disk has lost it.
func unlessDamaged(err error) error {
	if errors.As(err, new(*fs.PathError)) && !errors.Is(err, syscall.EIO) {
		return err
	}
	return nil
}
