package tree

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
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

	bases  []*base
	chunks map[manifest.Digest]piece
}

// base is a path that is scanned.
type base struct {
	root  *os.Root
	start string // of the walk: "." or, when the path is a file, its name in the root
	at    string // where in the manifest it stands
}

// located is a file of a base.
type located struct {
	*base
	name string // in the root, with slashes
}

// piece is a chunk of a file.
type piece struct {
	located
	offset int64
}

// open opens the paths, and makes the root of several.
func (s *Source) open(paths []string) error {
	root := manifest.Entry{Path: manifest.Root, Kind: manifest.Dir, Mode: 0o755}
	for _, p := range paths {
		b, time, err := openBase(p)
		if err != nil {
			return err
		}
		s.bases = append(s.bases, b)
		root.Time = max(root.Time, time)
	}
	switch len(paths) {
	case 0:
		return errors.New("no path to scan")
	case 1:
		s.bases[0].at = manifest.Root
		return nil
	}
	slices.SortFunc(s.bases, func(a, b *base) int { return cmp.Compare(a.at, b.at) })
	for i, b := range s.bases[1:] {
		if before := s.bases[i]; b.at == before.at {
			return fmt.Errorf("%s and %s have one name", located{before, before.start}, located{b, b.start})
		}
	}
	s.add(root, located{})
	return nil
}

func openBase(p string) (b *base, time int64, err error) {
	if p, err = filepath.Abs(p); err != nil {
		return nil, 0, err
	}
	b = &base{at: filepath.Base(p), start: "."} // a link's name, not that of what it leads to
	if p, err = filepath.EvalSymlinks(p); err != nil {
		return nil, 0, err
	}
	info, err := os.Stat(p)
	switch {
	case err != nil:
		return nil, 0, err
	case info.Mode().IsRegular():
		p, b.start = filepath.Split(p)
	case !info.IsDir():
		return nil, 0, fmt.Errorf("%s is neither a file nor a folder", p)
	}
	b.root, err = os.OpenRoot(p)
	return b, info.ModTime().UnixNano(), err
}

// entry is the path of the manifest's entry.
func (l located) entry() string {
	if l.name == l.start {
		return l.at
	}
	return path.Join(l.at, l.name)
}

// String names the file on this system.
func (l located) String() string { return filepath.Join(l.root.Name(), filepath.FromSlash(l.name)) }

// open opens the file, and does not wait for a pipe that took its place.
func (l located) open() (*os.File, error) {
	return l.root.OpenFile(filepath.FromSlash(l.name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
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
	at, has := s.chunks[c.Digest]
	if !has {
		return nil, fmt.Errorf("no file has chunk %v", c.Digest)
	}
	buffer = slices.Grow(buffer[:0], int(c.Size))[:c.Size]
	f, err := at.open()
	if err == nil {
		_, err = f.ReadAt(buffer, at.offset)
		_ = f.Close() // it was only read
	}
	if err != nil || manifest.Sum(buffer) != c.Digest {
		return nil, fmt.Errorf("file %s: %w", at, errors.Join(ErrChanged, reason(err)))
	}
	return buffer, nil
}

// Close closes the folders. The manifest and the notes stay.
func (s *Source) Close() (err error) {
	for _, b := range s.bases {
		err = errors.Join(err, b.root.Close())
	}
	return err
}
