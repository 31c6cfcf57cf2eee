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

// ScanOptions are the options of [Scan]. With the zero value, Scan reads everything.
type ScanOptions struct {
	// Exclude has patterns of [path.Match]. If a pattern matches a path or its last element,
	// the file or the whole folder is left out.
	Exclude []string
	// Read, unless it is nil, is called after each chunk that was read, on Scan's goroutine. It
	// can show progress.
	Read func(bytes int)

	// Hold is the maximum number of bytes of recently written files that the source keeps
	// in memory. 0 = none. A file is recently written if it was written to in the last ten
	// seconds. A file that is written to all the time would have changed whenever its
	// chunks are asked for.
	Hold int64

	// SkipUnreadable leaves out files and folders below the paths that cannot be
	// read, with a Note.
	SkipUnreadable bool
}

// A Note is a message for a person about a path of a scan.
type Note struct {
	Path    string
	Text    string
	LeftOut bool // the manifest does not contain the path
}

func (n Note) String() string { return n.Path + ": " + n.Text }

// ErrChanged means that a file was written to, or a folder was replaced, while it was read
// or after it was scanned.
var ErrChanged = errors.New("it changed meanwhile; try again when nobody writes to it")

// Scan reads the files and folders at the paths. The caller must close the source.
//
// A single path becomes the manifest's root, a file or a folder. Each of several paths is in
// the root, under its own name. A path may be a link and is followed; links below it are not.
//
// A file that changes while it is read is read again, and so is a folder that is replaced
// by another. If that does not help, Scan returns [ErrChanged]. It returns ErrChanged at
// once if a replaced folder is one of the paths.
//
// A folder that no longer has everything it listed is listed again, because some of it may
// have been renamed. Different files are read at different times.
//
// Notes report pipes, sockets, devices and names that no manifest can contain, all of which
// are left out. They also report links that lead out of the folder. The work folders of
// unfinished restores are left out without a note.
//
// If something cannot be read, the scan fails with an error that names it, unless
// [ScanOptions.SkipUnreadable] is set. So a manifest is complete. Scan returns
// [manifest.ErrManifest] if there is more than a manifest can contain, and [ErrNames] if
// two paths have the same name.
func Scan(ctx context.Context, paths []string, o ScanOptions) (*Source, error) {
	source := &Source{
		Manifest: new(manifest.Manifest),
		chunks:   make(map[cdc.Digest]piece),
		held:     make(map[cdc.Digest][]byte),
	}
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
		if err := cmp.Or(s.walk(root), root.checkRoot()); err != nil {
			return err
		}
	}
	if err := s.Manifest.Check(0); err != nil {
		return fmt.Errorf("%s: %w", s.roots[0], err)
	}
	return nil
}

// maxTries is the maximum number of times that a changing file or folder is read. Hardly
// anything changes that often in a row.
const maxTries = 3

// walk adds the file or folder at a location, and everything below it. If a folder is
// replaced by another while it is read, walk reads it again.
func (s *scan) walk(at location) error {
	entries, notes := len(s.Manifest.Entries), len(s.Notes)
	for range maxTries {
		folder, err := s.addEntry(at)
		if err != nil {
			return s.skipOrFail(at, err)
		}
		if folder == nil {
			return nil
		}
		err = cmp.Or(s.addContent(at), at.checkSame(folder))
		if err != errReplaced && err != errGone {
			return err
		}
		s.Manifest.Entries = s.Manifest.Entries[:entries]
		s.Notes = s.Notes[:notes]
	}
	return fmt.Errorf("folder %s: in each of %d reads %w", at, maxTries, ErrChanged)
}

// errGone means that something in the list of a folder no longer exists.
var errGone = errors.New("gone")

// addContent adds the content of a folder. If some of it is gone, it may have been renamed,
// so addContent lists the folder again.
func (s *scan) addContent(at location) error {
	listed, err := fs.ReadDir(at.root.FS(), at.name)
	if err != nil {
		return s.skipOrFail(at, err)
	}
	from := len(s.Manifest.Entries)
	added := make(map[string]bool)
	gone, err := s.addListed(at, listed, added)
	for try := 1; err == nil && gone && try < maxTries; try++ {
		listed, err = fs.ReadDir(at.root.FS(), at.name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the caller finds out what happened to the folder
		}
		if err != nil {
			return fmt.Errorf("%s: %w", at, reason(err))
		}
		gone, err = s.addListed(at, listed, added)
		sortEntries(s.Manifest.Entries[from:])
	}
	return err
}

// sortEntries sorts entries in the order of a walk, which a manifest requires.
func sortEntries(entries []manifest.Entry) {
	slices.SortFunc(entries, func(a, b manifest.Entry) int {
		return slices.Compare(strings.Split(a.Path, "/"), strings.Split(b.Path, "/"))
	})
}

// addListed adds everything in the list of a folder that is not in added. It records in
// added what it added, and reports whether something listed was gone.
func (s *scan) addListed(at location, listed []fs.DirEntry, added map[string]bool) (gone bool, err error) {
	for _, d := range listed {
		name := d.Name()
		if added[name] {
			continue
		}
		err := s.walk(location{at.root, path.Join(at.name, name), path.Join(at.entry, name)})
		switch err {
		case nil:
			added[name] = true
		case errGone:
			gone = true
		default:
			return false, err
		}
	}
	return gone, nil
}

// skipOrFail handles an error at a location. It returns nil if the scan may skip the
// location, and errGone if the location was removed since its folder was listed. Otherwise
// it returns an error that names the location.
func (s *scan) skipOrFail(at location, err error) error {
	switch {
	case slices.Contains(s.roots, at):
	case errors.Is(err, fs.ErrNotExist):
		return errGone
	case s.skip(at, err):
		return nil
	}
	return fmt.Errorf("%s: %w", at, reason(err))
}

// skip leaves out a location that cannot be read, and reports whether it may. err must be
// an error of the file system, and SkipUnreadable must be set.
func (s *scan) skip(at location, err error) bool {
	pathErr, ok := errors.AsType[*fs.PathError](err)
	if !ok || !s.SkipUnreadable || outOfResources(err) {
		return false
	}
	// A folder whose names cannot be read was already added.
	entries := s.Manifest.Entries
	last := len(entries) - 1
	if entries[last].Path == at.entry {
		s.Manifest.Entries = entries[:last]
	}
	s.Notes = append(s.Notes, Note{at.entry, "it cannot be read: " + pathErr.Err.Error(), true})
	return true
}

// outOfResources reports whether an error says only that this machine is out of open files
// or memory, and nothing about a file.
func outOfResources(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}

// addEntry adds the file, folder or link at a location to the manifest. If it is a folder
// whose content must be added, addEntry returns it.
func (s *scan) addEntry(at location) (folder fs.FileInfo, err error) {
	if s.ctx.Err() != nil {
		return nil, context.Cause(s.ctx)
	}
	if len(s.Manifest.Entries) > manifest.MaxEntries {
		// Return the error of Check now, because there may be many more entries.
		return nil, s.Manifest.Check(0)
	}
	info, err := at.root.Lstat(at.name)
	if err != nil || at.entry != manifest.Root && !s.includes(at.entry) {
		return nil, err
	}
	switch info.Mode().Type() {
	case fs.ModeDir:
		s.add(manifest.Entry{
			Path: at.entry,
			Kind: manifest.Dir,
			Mode: info.Mode().Perm(),
			Time: nanoseconds(info.ModTime()),
		}, at)
		return info, nil
	case fs.ModeSymlink:
		return nil, s.addLink(at)
	case 0:
		return nil, s.addFile(at)
	}
	s.Notes = append(s.Notes, Note{at.entry, "it is neither file, folder nor link", true})
	return nil, nil
}

// addFile adds a file. It reads the file again if the file changes while it is read.
func (s *scan) addFile(at location) (err error) {
	for range maxTries {
		err = s.tryAddFile(at)
		if !errors.Is(err, ErrChanged) {
			return err
		}
	}
	return fmt.Errorf("in each of %d reads %w", maxTries, err)
}

// includes reports whether the manifest must contain path p: whether p is not excluded and
// a manifest can contain it.
func (s *scan) includes(p string) bool {
	name := path.Base(p)
	excluded := slices.ContainsFunc(s.Exclude, func(pattern string) bool {
		whole, _ := path.Match(pattern, p)
		last, _ := path.Match(pattern, name)
		return whole || last
	})
	isWorkFolder := workName.MatchString(name) // of an unfinished restore
	if excluded || isWorkFolder {
		return false
	}
	err := manifest.CheckPath(p)
	if err != nil {
		s.Notes = append(s.Notes, Note{p, err.Error(), true})
	}
	return err == nil
}

// addLink adds a link.
func (s *scan) addLink(at location) error {
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

// tryAddFile adds a file. It returns ErrChanged if the file changed while it was read.
func (s *scan) tryAddFile(at location) error {
	f, before, err := at.open()
	if err != nil {
		return err
	}
	defer f.Close()
	e := manifest.Entry{
		Path: at.entry,
		Kind: manifest.File,
		Mode: before.Mode().Perm(),
		Time: nanoseconds(before.ModTime()),
	}
	hold := before.Size() <= s.Hold && time.Since(before.ModTime()) < hotTime
	var content []byte // if hold is set
	err = cdc.Cut(io.LimitReader(f, before.Size()+1), func(c cdc.Chunk, data []byte) error {
		e.Chunks = append(e.Chunks, c)
		e.Size += int64(c.Size)
		if hold {
			content = append(content, data...)
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
	changed := e.Size != before.Size() || e.Size != after.Size() || !after.ModTime().Equal(before.ModTime())
	if changed || hold && !contains(f, content) {
		return ErrChanged
	}
	s.add(e, at)
	if hold {
		s.hold(e.Chunks, content)
	}
	return nil
}

// hotTime is the time after a write to a file in which another write to it is likely.
const hotTime = 10 * time.Second

// contains reports whether a file still contains data. The file's modification time does
// not show a write within one tick of the file system's clock.
func contains(f io.ReaderAt, data []byte) bool {
	again, err := io.ReadAll(io.NewSectionReader(f, 0, int64(len(data))))
	return err == nil && string(again) == string(data)
}

// hold keeps the bytes of a file's chunks in memory.
func (s *scan) hold(chunks []cdc.Chunk, data []byte) {
	s.Hold -= int64(len(data))
	for _, c := range chunks {
		s.held[c.Digest] = data[:c.Size]
		data = data[c.Size:]
	}
}

// reason returns an error of the file system without the path.
func reason(err error) error {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return pathErr.Err
	}
	return err
}

// A Source is the result of a scan: the manifest, and access to the bytes of its chunks.
// The access works as long as the files do not change. A Source is safe for concurrent
// use, except for Close.
type Source struct {
	Manifest *manifest.Manifest
	Notes    []Note

	roots  []location
	chunks map[cdc.Digest]piece
	held   map[cdc.Digest][]byte // chunks kept in memory (ScanOptions.Hold)
}

// A location is the place of an entry on this system.
type location struct {
	root  *os.Root
	name  string // path in root, with slashes; "." is root itself
	entry string // path in the manifest
}

// A piece is a part of a file.
type piece struct {
	location
	offset int64
}

// open opens the paths. If there are several, it adds the manifest's root.
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
	slices.SortFunc(s.roots, func(a, b location) int { return cmp.Compare(a.entry, b.entry) })
	for i, at := range s.roots[1:] {
		if at.entry == s.roots[i].entry {
			return sameNameError{s.roots[i], at}
		}
	}
	s.add(top, location{})
	return nil
}

// A sameNameError is an [ErrNames] for two paths with the same name. It occurs on any system.
type sameNameError struct{ a, b location }

func (e sameNameError) Error() string        { return fmt.Sprintf("%s and %s have one name", e.a, e.b) }
func (e sameNameError) Is(target error) bool { return target == ErrNames }

// openRoot opens the folder at p, or the folder that contains the file at p. It follows
// links, but the entry has the name of the link.
func openRoot(p string) (at location, modified int64, err error) {
	p, err = absolute(p)
	at = location{name: ".", entry: filepath.Base(p)}
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

// nanoseconds returns t as a manifest contains it. It clamps t to the years 1677 to 2262,
// which are all that a manifest can represent.
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

// checkRoot returns an error if a folder that was scanned is no longer at its path. The
// error is ErrChanged if another folder is there, because files that the walk did not find
// may be in that one.
func (l location) checkRoot() error {
	if l.name != "." {
		return nil // a file, which is read in one go
	}
	there, err := os.Stat(l.root.Name())
	if err != nil {
		return err
	}
	scanned, err := l.root.Stat(".")
	if err != nil || !os.SameFile(scanned, there) {
		return fmt.Errorf("folder %s: %w", l, ErrChanged)
	}
	return nil
}

// errReplaced means that a folder below a path is not the one that the scan entered. Parts
// of both may have been read.
var errReplaced = errors.New("another folder")

// checkSame returns errReplaced if a folder is gone or was replaced by another.
func (l location) checkSame(entered fs.FileInfo) error {
	there, err := l.root.Lstat(l.name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(entered, there) {
		return errReplaced
	}
	if err != nil {
		return fmt.Errorf("%s: %w", l, reason(err))
	}
	return nil
}

// String returns the path on this system.
func (l location) String() string { return filepath.Join(l.root.Name(), filepath.FromSlash(l.name)) }

// open opens a regular file. It does not wait for a pipe that took the file's place.
func (l location) open() (f *os.File, info fs.FileInfo, err error) {
	f, err = l.root.OpenFile(l.name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err = f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, nil, errors.Join(ErrChanged, f.Close())
	}
	return f, info, nil
}

// add adds an entry to the manifest and records the location of its chunks.
func (s *Source) add(e manifest.Entry, at location) {
	s.Manifest.Entries = append(s.Manifest.Entries, e)
	var offset int64
	for _, c := range e.Chunks {
		s.chunks[c.Digest] = piece{at, offset}
		offset += int64(c.Size)
	}
}

// Chunk reads a chunk of the manifest, into buffer if it fits. If the bytes have changed,
// the error wraps [ErrChanged] and names the file.
func (s *Source) Chunk(buffer []byte, c cdc.Chunk) ([]byte, error) {
	buffer, err := s.ReadChunk(buffer, c)
	if err == nil && cdc.Sum(buffer) != c.Digest {
		err = fmt.Errorf("file %s: %w", s.chunks[c.Digest], ErrChanged)
	}
	return buffer, err
}

// ReadChunk is Chunk without the verification, so the bytes may have changed. It saves a
// hash if the other end verifies the bytes anyway. If the bytes cannot be read, the error
// wraps [ErrChanged] and names the file.
func (s *Source) ReadChunk(buffer []byte, c cdc.Chunk) ([]byte, error) {
	at, ok := s.chunks[c.Digest]
	if !ok {
		return nil, fmt.Errorf("no file has chunk %v", c.Digest)
	}
	if data, ok := s.held[c.Digest]; ok {
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
	err = reason(err)
	if !outOfResources(err) {
		err = errors.Join(ErrChanged, err)
	}
	return nil, fmt.Errorf("file %s: %w", at, err)
}

// Close closes the folders. The manifest and the notes can still be used. Close of a nil
// Source does nothing.
func (s *Source) Close() (err error) {
	if s == nil {
		return nil
	}
	for _, at := range s.roots {
		err = errors.Join(err, at.root.Close())
	}
	return err
}
