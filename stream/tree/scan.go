package tree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/quivernet/quiver/stream/cdc"
	"github.com/quivernet/quiver/stream/manifest"
)

// ScanOptions are the options of [Scan]. With the zero value it reads everything.
type ScanOptions struct {
	// Patterns of [path.Match]; if one matches a path or its last element, the
	// file or the whole folder is left out.
	Exclude []string
	Read    func(bytes int) // unless nil, called after each chunk that was read, on Scan's goroutine: to show progress

	// Hold is how many bytes the source may hold in memory of files that were
	// written to in the last ten seconds; 0 = none. A file that is written to
	// all the time would have changed whenever its chunks are asked for.
	Hold int64

	SkipUnreadable bool // leave out what is below the paths and cannot be read, with a Note
}

// A Note tells a person something about a path of a scan.
type Note struct {
	Path    string
	Text    string
	LeftOut bool // the manifest does not contain it
}

func (n Note) String() string { return n.Path + ": " + n.Text }

// ErrChanged means that a file was written to, or a folder was replaced, while
// it was read or after it was scanned.
var ErrChanged = errors.New("it changed meanwhile; try again when nobody writes to it")

// Scan reads what is at the paths. A single path becomes the manifest's root, a file
// or a folder. Each of several paths is in the root, under its own name. A path may be
// a link and is followed; links below it are not. The caller must close the source.
//
// A file that changes while it is read is read again, and so is a folder that is replaced
// by another. If that does not help, and at once if the folder is one of the paths, Scan
// returns [ErrChanged]. A folder that no longer has everything it listed is listed again,
// because some of it may have been renamed. Different files are read at different times.
//
// Notes report pipes, sockets, devices and names that no manifest can contain, all of
// which are left out, and links that lead out of the folder. The work folders of
// unfinished restores are left out without a note. If something cannot be read, the
// scan fails with an error that names it: a manifest is complete, unless
// [ScanOptions.SkipUnreadable] is set. Scan returns [manifest.ErrManifest] if there is
// more than a manifest can contain, and [ErrNames] if two paths have the same name.
func Scan(ctx context.Context, paths []string, o ScanOptions) (*Source, error) {
	source := &Source{Manifest: new(manifest.Manifest), chunks: make(map[cdc.Digest]piece), held: make(map[cdc.Digest][]byte)}
	s := &scan{o, source, ctx}
	if err := s.run(paths); err != nil {
		return nil, errors.Join(err, source.Close())
	}
	return source, nil
}

// A scan is the state of Scan.
type scan struct {
	ScanOptions
	*Source
	ctx context.Context
}

// run scans the paths into the source.
func (s *scan) run(paths []string) error {
	for _, pattern := range s.Exclude {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("exclude %q: %w", pattern, err)
		}
	}
	if err := s.open(paths); err != nil {
		return err
	}
	for _, root := range s.roots {
		if err := cmp.Or(s.walk(root), root.stands()); err != nil {
			return err
		}
	}
	if err := s.Manifest.Check(0); err != nil {
		return fmt.Errorf("%s: %w", s.roots[0], err)
	}
	return nil
}

// tries is how often a changing file or folder is read. Hardly anything changes
// that often in a row.
const tries = 3

// walk adds what is at a place, and below it. If a folder is replaced by
// another while it is read, walk reads it again.
func (s *scan) walk(at located) error {
	entries, notes := len(s.Manifest.Entries), len(s.Notes)
	for range tries {
		folder, err := s.entry(at)
		if err != nil {
			return s.tolerate(at, err)
		}
		if folder == nil {
			return nil
		}
		if err = cmp.Or(s.below(at), at.stays(folder)); err != errReplaced && err != errGone {
			return err
		}
		s.Manifest.Entries, s.Notes = s.Manifest.Entries[:entries], s.Notes[:notes]
	}
	return fmt.Errorf("folder %s: in each of %d reads %w", at, tries, ErrChanged)
}

// errGone means that something in the list of a folder no longer exists.
var errGone = errors.New("gone")

// below adds the content of a folder. If some of it is gone, it may have been
// renamed, so the folder is listed again.
func (s *scan) below(at located) error {
	all, err := fs.ReadDir(at.root.FS(), at.name)
	if err != nil {
		return s.tolerate(at, err)
	}
	from, read := len(s.Manifest.Entries), make(map[string]bool)
	gone, err := s.these(at, all, read)
	for again := 1; err == nil && gone && again < tries; again++ {
		if all, err = fs.ReadDir(at.root.FS(), at.name); errors.Is(err, fs.ErrNotExist) {
			return nil // the caller finds out what has become of the folder
		} else if err != nil {
			return fmt.Errorf("%s: %w", at, reason(err))
		}
		gone, err = s.these(at, all, read)
		slices.SortFunc(s.Manifest.Entries[from:], func(a, b manifest.Entry) int { // in the order of a walk, as a manifest requires
			return slices.Compare(strings.Split(a.Path, "/"), strings.Split(b.Path, "/"))
		})
	}
	return err
}

// these adds what is in the list of a folder and not in read. It reports
// whether some of it was gone.
func (s *scan) these(at located, all []fs.DirEntry, read map[string]bool) (gone bool, err error) {
	for _, d := range all {
		if read[d.Name()] {
			continue
		}
		err := s.walk(located{at.root, path.Join(at.name, d.Name()), path.Join(at.entry, d.Name())})
		switch read[d.Name()] = err == nil; {
		case err == errGone:
			gone = true
		case err != nil:
			return false, err
		}
	}
	return gone, nil
}

// tolerate returns nil if the scan may skip a place below the paths after err, errGone if the
// place was removed since its folder was listed, and otherwise an error that names the place.
func (s *scan) tolerate(at located, err error) error {
	switch {
	case slices.Contains(s.roots, at):
	case errors.Is(err, fs.ErrNotExist):
		return errGone
	case s.skip(at, err):
		return nil
	}
	return fmt.Errorf("%s: %w", at, reason(err))
}

// skip leaves out a place that cannot be read, and reports whether it may: err
// must be one of the file system, and SkipUnreadable must be set.
func (s *scan) skip(at located, err error) bool {
	failed, is := errors.AsType[*fs.PathError](err)
	if !is || !s.SkipUnreadable || isShort(err) {
		return false
	}
	entries := s.Manifest.Entries
	if last := len(entries) - 1; entries[last].Path == at.entry { // it is a folder whose names cannot be read
		s.Manifest.Entries = entries[:last]
	}
	s.Notes = append(s.Notes, Note{at.entry, "it cannot be read: " + failed.Err.Error(), true})
	return true
}

// isShort reports whether an error says only that this machine is out of open
// files or memory, and nothing about a file.
func isShort(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}

// entry adds what is at a place to the manifest. If that is a folder whose
// content must be added, entry returns it.
func (s *scan) entry(at located) (folder fs.FileInfo, err error) {
	if s.ctx.Err() != nil {
		return nil, context.Cause(s.ctx)
	}
	if len(s.Manifest.Entries) > manifest.MaxEntries {
		return nil, s.Manifest.Check(0) // it would fail at the end as well, and there may be many more
	}
	info, err := at.root.Lstat(at.name)
	if err != nil || at.entry != manifest.Root && !s.takes(at.entry) {
		return nil, err
	}
	switch info.Mode().Type() {
	case fs.ModeDir:
		s.add(manifest.Entry{Path: at.entry, Kind: manifest.Dir, Mode: info.Mode().Perm(), Time: nanoseconds(info.ModTime())}, at)
		return info, nil
	case fs.ModeSymlink:
		return nil, s.link(at)
	case 0:
		return nil, s.still(at)
	}
	s.Notes = append(s.Notes, Note{at.entry, "it is neither file, folder nor link", true})
	return nil, nil
}

// still adds a file, which must not change while it is read.
func (s *scan) still(at located) (err error) {
	for range tries {
		if err = s.file(at); !errors.Is(err, ErrChanged) {
			return err
		}
	}
	return fmt.Errorf("in each of %d reads %w", tries, err)
}

// takes reports whether p is neither excluded nor a path that no manifest holds.
func (s *scan) takes(p string) bool {
	name := path.Base(p)
	excluded := slices.ContainsFunc(s.Exclude, func(pattern string) bool {
		whole, _ := path.Match(pattern, p)
		last, _ := path.Match(pattern, name)
		return whole || last
	})
	if excluded || workName.MatchString(name) { // such a name is the work folder of an unfinished restore
		return false
	}
	err := manifest.CheckPath(p)
	if err != nil {
		s.Notes = append(s.Notes, Note{p, err.Error(), true})
	}
	return err == nil
}

// link adds a link.
func (s *scan) link(at located) error {
	target, err := at.root.Readlink(at.name)
	if err != nil {
		return err
	}
	if !utf8.ValidString(target) {
		s.Notes = append(s.Notes, Note{at.entry, "the link's target is not UTF-8", true})
		return nil
	}
	leads := filepath.ToSlash(target)
	if filepath.IsAbs(target) || !filepath.IsLocal(path.Join(path.Dir(at.entry), leads)) {
		s.Notes = append(s.Notes, Note{at.entry, "the link leads out of the folder, to " + target, false})
	}
	s.add(manifest.Entry{Path: at.entry, Kind: manifest.Link, Target: leads}, at)
	return nil
}

// file adds a file. It returns ErrChanged if the file changed while it was read.
func (s *scan) file(at located) error {
	f, before, err := at.open()
	if err != nil {
		return err
	}
	defer f.Close()
	e := manifest.Entry{Path: at.entry, Kind: manifest.File, Mode: before.Mode().Perm(), Time: nanoseconds(before.ModTime())}
	hot, held := before.Size() <= s.Hold && time.Since(before.ModTime()) < hotTime, []byte(nil)
	err = cdc.Cut(io.LimitReader(f, before.Size()+1), func(c cdc.Chunk, data []byte) error {
		e.Chunks = append(e.Chunks, c)
		e.Size += int64(c.Size)
		if hot {
			held = append(held, data...)
		}
		if s.Read != nil {
			s.Read(len(data))
		}
		return context.Cause(s.ctx)
	})
	if err != nil {
		return err
	}
	after, err := f.Stat()
	if err != nil {
		return err
	}
	if e.Size != before.Size() || e.Size != after.Size() || !after.ModTime().Equal(before.ModTime()) || hot && !has(f, held) {
		return ErrChanged
	}
	s.add(e, at)
	if hot {
		s.hold(e.Chunks, held)
	}
	return nil
}

// hotTime is for how long after a write another write to the file is likely.
const hotTime = 10 * time.Second

// has reports whether a file still contains data. Its time does not show a
// write within one tick of the file system's clock.
func has(f io.ReaderAt, data []byte) bool {
	again, err := io.ReadAll(io.NewSectionReader(f, 0, int64(len(data))))
	return err == nil && string(again) == string(data)
}

// hold keeps the bytes of a file's chunks.
func (s *scan) hold(chunks []cdc.Chunk, data []byte) {
	s.Hold -= int64(len(data))
	for _, c := range chunks {
		s.held[c.Digest], data = data[:c.Size], data[c.Size:]
	}
}

// reason returns an error of the file system without the path.
func reason(err error) error {
	if at, is := errors.AsType[*fs.PathError](err); is {
		return at.Err
	}
	return err
}

// A Source is the result of a scan: the manifest, and access to the bytes of its chunks
// as long as the files do not change. It is safe for concurrent use, except for Close.
type Source struct {
	Manifest *manifest.Manifest
	Notes    []Note

	roots  []located
	chunks map[cdc.Digest]piece
	held   map[cdc.Digest][]byte // see ScanOptions.Hold
}

// A located is where an entry is on this system.
type located struct {
	root  *os.Root
	name  string // in the root, with slashes; "." is the root
	entry string // the entry's path
}

// A piece is a part of a file.
type piece struct {
	located
	offset int64
}

// open opens the paths, and adds the root if there are several.
func (s *Source) open(paths []string) error {
	top := manifest.Entry{Path: manifest.Root, Kind: manifest.Dir, Mode: 0o755}
	for _, p := range paths {
		at, modified, err := openRoot(p)
		if err != nil {
			return err
		}
		s.roots = append(s.roots, at)
		top.Time = max(top.Time, modified)
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
			return oneName{s.roots[i], at}
		}
	}
	s.add(top, located{})
	return nil
}

// A oneName is an [ErrNames] for two paths with the same name, on any system.
type oneName struct{ a, b located }

func (e oneName) Error() string        { return fmt.Sprintf("%s and %s have one name", e.a, e.b) }
func (e oneName) Is(target error) bool { return target == ErrNames }

// openRoot opens the folder at p, or the folder that contains the file at p. It follows links.
func openRoot(p string) (at located, modified int64, err error) {
	p, err = absolute(p)
	at = located{name: ".", entry: filepath.Base(p)} // the name of a link, not of what it leads to
	if err == nil {
		p, err = follow(p)
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
	return at, nanoseconds(info.ModTime()), err
}

// nanoseconds returns t as a manifest contains it, clamped to the years 1677 to
// 2262, which are all it can represent.
func nanoseconds(t time.Time) int64 {
	first, last := time.Unix(0, math.MinInt64), time.Unix(0, math.MaxInt64)
	switch {
	case t.Before(first):
		t = first
	case t.After(last):
		t = last
	}
	return t.UnixNano()
}

// stands returns an error if a folder is no longer at its path, ErrChanged if
// another folder is. Whatever a walk has not found there may be in that one.
func (l located) stands() error {
	if l.name != "." {
		return nil // a file, which is read in one go
	}
	there, err := os.Stat(l.root.Name())
	if err != nil {
		return err
	}
	if read, err := l.root.Stat("."); err != nil || !os.SameFile(read, there) {
		return fmt.Errorf("folder %s: %w", l, ErrChanged)
	}
	return nil
}

// errReplaced means that a folder below a path is not the one that the scan
// entered. Parts of both may have been read.
var errReplaced = errors.New("another folder")

// stays returns errReplaced if a folder is gone or was replaced by another.
func (l located) stays(entered fs.FileInfo) error {
	there, err := l.root.Lstat(l.name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(entered, there) {
		return errReplaced
	}
	if err != nil {
		return fmt.Errorf("%s: %w", l, reason(err))
	}
	return nil
}

// String names the file on this system.
func (l located) String() string { return filepath.Join(l.root.Name(), filepath.FromSlash(l.name)) }

// open opens a regular file. It does not wait for a pipe that has taken the file's place.
func (l located) open() (f *os.File, info fs.FileInfo, err error) {
	if f, err = l.root.OpenFile(l.name, os.O_RDONLY|syscall.O_NONBLOCK, 0); err != nil {
		return nil, nil, err
	}
	if info, err = f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, nil, errors.Join(ErrChanged, f.Close())
	}
	return f, info, nil
}

// add adds an entry and records where its chunks are.
func (s *Source) add(e manifest.Entry, at located) {
	s.Manifest.Entries = append(s.Manifest.Entries, e)
	var offset int64
	for _, c := range e.Chunks {
		s.chunks[c.Digest] = piece{at, offset}
		offset += int64(c.Size)
	}
}

// Chunk reads a chunk of the manifest, into buffer if it fits. If the bytes
// have changed it returns [ErrChanged], in an error that names the file.
func (s *Source) Chunk(buffer []byte, c cdc.Chunk) ([]byte, error) {
	buffer, err := s.ReadChunk(buffer, c)
	if err == nil && cdc.Sum(buffer) != c.Digest {
		err = fmt.Errorf("file %s: %w", s.chunks[c.Digest], ErrChanged)
	}
	return buffer, err
}

// ReadChunk is Chunk without the verification: the bytes may have changed. That
// saves a hash if the other end verifies them anyway. It returns [ErrChanged],
// in an error that names the file, if the bytes cannot be read.
func (s *Source) ReadChunk(buffer []byte, c cdc.Chunk) ([]byte, error) {
	at, has := s.chunks[c.Digest]
	if !has {
		return nil, fmt.Errorf("no file has chunk %v", c.Digest)
	}
	if data, held := s.held[c.Digest]; held {
		return append(buffer[:0], data...), nil
	}
	buffer = slices.Grow(buffer[:0], int(c.Size))[:c.Size]
	f, _, err := at.open()
	if err == nil {
		_, err = f.ReadAt(buffer, at.offset)
		_ = f.Close() // nothing was written
	}
	if err == nil {
		return buffer, nil
	}
	if err = reason(err); !isShort(err) {
		err = errors.Join(ErrChanged, err)
	}
	return nil, fmt.Errorf("file %s: %w", at, err)
}

// Close closes the folders. The manifest and the notes can still be used. Close
// of a nil Source does nothing.
func (s *Source) Close() (err error) {
	if s == nil {
		return nil
	}
	for _, at := range s.roots {
		err = errors.Join(err, at.root.Close())
	}
	return err
}
