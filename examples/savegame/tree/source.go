package tree

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/quivernet/quiver/examples/savegame/manifest"
)

// Source is what a scan found: the manifest, and its chunks' bytes for as long as the files stay as they are. Its methods
// may be called from any number of goroutines, but Close not beside another.
type Source struct {
	Manifest *manifest.Manifest
	Notes    []Note

	bases  []*base
	files  []located // of each entry
	chunks map[manifest.Digest]place
}

// base is a path that is scanned.
type base struct {
	path string // absolute, behind links
	root *os.Root
	file string // when the path is a file: its name in the root
	at   string // where in the manifest it stands
	time int64
}

// located is a file of a base.
type located struct {
	*base
	name string // in the root, with slashes
}

// place is where a chunk stands.
type place struct {
	entry  int
	offset int64
}

func openBase(p string) (*base, error) {
	p, err := filepath.Abs(p)
	if err != nil {
		return nil, err
	}
	b := &base{at: filepath.Base(p)} // a link's name, not that of what it leads to
	if b.path, err = filepath.EvalSymlinks(p); err != nil {
		return nil, err
	}
	info, err := os.Stat(b.path)
	if err != nil {
		return nil, err
	}
	b.time = info.ModTime().UnixNano()
	dir := b.path
	if !info.IsDir() {
		if !info.Mode().IsRegular() {
			return nil, errors.New("it is neither a file nor a folder")
		}
		dir, b.file = filepath.Split(b.path)
	}
	b.root, err = os.OpenRoot(dir)
	return b, err
}

// String names the file on this system.
func (l located) String() string {
	if l.file != "" {
		return l.path
	}
	return filepath.Join(l.path, filepath.FromSlash(l.name))
}

// open opens a regular file, and no link or pipe that took its place.
func (l located) open() (*os.File, error) {
	name := filepath.FromSlash(l.name)
	named, err := l.root.Lstat(name)
	if err != nil {
		return nil, err
	}
	f, err := l.root.OpenFile(name, os.O_RDONLY|nonBlock, 0)
	if err != nil {
		return nil, err
	}
	if opened, err := f.Stat(); err != nil || !opened.Mode().IsRegular() || !os.SameFile(named, opened) {
		return nil, errors.Join(ErrChanged, err, f.Close())
	}
	return f, nil
}

// read reads a piece of the file, into buffer if it fits.
func (l located) read(buffer []byte, offset int64, size int) ([]byte, error) {
	f, err := l.open()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	buffer = slices.Grow(buffer[:0], size)[:size]
	n, err := f.ReadAt(buffer, offset)
	if n == size {
		err = nil
	}
	return buffer[:n], err
}

func (s *Source) add(e manifest.Entry, at located) {
	s.Manifest.Entries = append(s.Manifest.Entries, e)
	s.files = append(s.files, at)
}

// index notes where each chunk stands first.
func (s *Source) index() {
	s.chunks = make(map[manifest.Digest]place)
	for i := range s.Manifest.Entries {
		var offset int64
		for _, c := range s.Manifest.Entries[i].Chunks {
			if _, again := s.chunks[c.Digest]; !again {
				s.chunks[c.Digest] = place{i, offset}
			}
			offset += int64(c.Size)
		}
	}
}

// Has reports whether a chunk is in the source. A nil source has none.
func (s *Source) Has(c manifest.Chunk) bool {
	if s == nil {
		return false
	}
	_, has := s.chunks[c.Digest]
	return has
}

// Chunk reads a chunk's bytes again, into buffer if they fit. It fails with [ErrChanged], naming the file, when they are
// there no longer.
func (s *Source) Chunk(buffer []byte, c manifest.Chunk) ([]byte, error) {
	at, has := s.chunks[c.Digest]
	if !has {
		return nil, fmt.Errorf("no file has chunk %v", c.Digest)
	}
	data, err := s.files[at.entry].read(buffer, at.offset, int(c.Size))
	if err == nil && manifest.Sum(data) == c.Digest {
		return data, nil
	}
	return nil, fmt.Errorf("file %s: %w", s.files[at.entry], errors.Join(ErrChanged, reason(err)))
}

// Close closes the folders. The manifest and the notes stay.
func (s *Source) Close() (err error) {
	for _, b := range s.bases {
		err = errors.Join(err, b.root.Close())
	}
	return err
}
