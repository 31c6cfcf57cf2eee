package tree

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/quivernet/quiver/examples/savegame/manifest"
)

// Source is what a scan found: the manifest, and its chunks' bytes for as long as the files stay as they are. Its methods
// may be called from any number of goroutines, but Close not beside another.
type Source struct {
	Manifest *manifest.Manifest
	Notes    []Note

	roots  []located
	chunks map[manifest.Digest]piece
}

// located is where an entry is on this system.
type located struct {
	root  *os.Root
	name  string // in the root, with slashes; "." is the root
	entry string // the entry's path
}

// piece is a part of a file.
type piece struct {
	located
	offset int64
}

// open opens the paths, and makes the root of several.
func (s *Source) open(paths []string) error {
	top := manifest.Entry{Path: manifest.Root, Kind: manifest.Dir, Mode: 0o755}
	for _, p := range paths {
		at, time, err := openRoot(p)
		if err != nil {
			return err
		}
		s.roots = append(s.roots, at)
		top.Time = max(top.Time, time)
	}
	switch len(paths) {
	case 0:
		return errors.New("no path to scan")
	case 1:
		s.roots[0].entry = manifest.Root
		return nil
	}
	slices.SortFunc(s.roots, func(a, b located) int { return cmp.Compare(a.entry, b.entry) })
	for i, at := range s.roots[1:] {
		if at.entry == s.roots[i].entry {
			return fmt.Errorf("%s and %s have one name", s.roots[i], at)
		}
	}
	s.add(top, located{})
	return nil
}

func openRoot(p string) (at located, time int64, err error) {
	p, err = filepath.Abs(p)
	at = located{name: ".", entry: filepath.Base(p)} // a link's name, not that of what it leads to
	if err == nil {
		p, err = filepath.EvalSymlinks(p)
	}
	if err != nil {
		return at, 0, err
	}
	info, err := os.Stat(p)
	switch {
	case err != nil:
		return at, 0, err
	case info.Mode().IsRegular():
		p, at.name = filepath.Split(p)
	case !info.IsDir():
		return at, 0, fmt.Errorf("%s is neither a file nor a folder", p)
	}
	at.root, err = os.OpenRoot(p)
	return at, info.ModTime().UnixNano(), err
}

// String names the file on this system.
func (l located) String() string { return filepath.Join(l.root.Name(), filepath.FromSlash(l.name)) }

// open opens a regular file, and does not wait for a pipe that took its place.
func (l located) open() (f *os.File, info fs.FileInfo, err error) {
	if f, err = l.root.OpenFile(l.name, os.O_RDONLY|syscall.O_NONBLOCK, 0); err != nil {
		return nil, nil, err
	}
	if info, err = f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, nil, errors.Join(ErrChanged, f.Close())
	}
	return f, info, nil
}

// add adds an entry and notes where its chunks stand.
func (s *Source) add(e manifest.Entry, at located) {
	s.Manifest.Entries = append(s.Manifest.Entries, e)
	var offset int64
	for _, c := range e.Chunks {
		s.chunks[c.Digest] = piece{at, offset}
		offset += int64(c.Size)
	}
}

// Chunk reads a chunk's bytes again, into buffer if they fit. It fails with [ErrChanged], naming the file, when they are
// there no longer.
func (s *Source) Chunk(buffer []byte, c manifest.Chunk) ([]byte, error) {
	data, err := s.Unverified(buffer, c)
	if err == nil && manifest.Sum(data) != c.Digest {
		err = fmt.Errorf("file %s: %w", s.chunks[c.Digest], ErrChanged)
	}
	return data, err
}

// Unverified is Chunk for who hands the bytes to somebody who verifies them: when the file has changed meanwhile they may be others.
func (s *Source) Unverified(buffer []byte, c manifest.Chunk) ([]byte, error) {
	at, has := s.chunks[c.Digest]
	if !has {
		return nil, fmt.Errorf("no file has chunk %v", c.Digest)
	}
	buffer = slices.Grow(buffer[:0], int(c.Size))[:c.Size]
	f, _, err := at.open()
	if err == nil {
		_, err = f.ReadAt(buffer, at.offset)
		_ = f.Close() // it was only read
	}
	if err != nil {
		return nil, fmt.Errorf("file %s: %w", at, errors.Join(ErrChanged, reason(err)))
	}
	return buffer, nil
}

// Close closes the folders. The manifest and the notes stay. Nil is a source that nobody opened.
func (s *Source) Close() (err error) {
	if s == nil {
		return nil
	}
	for _, at := range s.roots {
		err = errors.Join(err, at.root.Close())
	}
	return err
}
