package tree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
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
	// Exclude lists patterns in the syntax of [path.Match]. A file or a whole folder is left
	// out if one of them matches its path in the manifest or the last element of that path.
	Exclude []string

	// Read is called on Scan's goroutine after each chunk that Scan reads. It can be used to show
	// progress, and may be nil.
	Read func(bytes int)

	// Hold is the maximum number of bytes of recently written files that the source keeps in
	// memory. 0 means none.
	//
	// A file counts as recently written for ten seconds. Without Hold, a file that a game
	// keeps writing to could never be sent, because it would have changed again by the time
	// somebody asks for its chunks.
	Hold int64

	// SkipUnreadable leaves out files and folders that cannot be read, and adds Notes about them.
	// Otherwise the scan fails. The paths themselves are never left out.
	SkipUnreadable bool
}

// A Note tells a person something about one path of a scan.
type Note struct {
	Path    string
	Text    string
	LeftOut bool // the path is not in the manifest
}

func (n Note) String() string { return n.Path + ": " + n.Text }

// ErrChanged means that a file was written to, or a folder replaced, while the scan read it or
// afterwards.
var ErrChanged = errors.New("it changed meanwhile; try again when nobody writes to it")

// Scan reads the files and folders at the given paths. The caller must close the source.
//
// If there is one path, it becomes the root of the manifest, whether it's a file or a folder.
// Several paths become entries of a root folder, each under its own name. Scan follows a path
// that is a link, but keeps links below it as links.
//
// Scan does not lock anything. It reads different files at different times, and files may change
// while it runs. Scan reads a file again if it changes while it is read, and a folder if it is
// replaced with another. If that keeps happening, Scan returns [ErrChanged]. If the replaced
// folder is one of the paths, Scan returns ErrChanged at once. If a listed file or folder is gone
// when Scan gets to it, it may have been renamed, so Scan lists the containing folder again.
//
// Pipes, sockets, devices and names that no manifest can contain are left out, and Notes say
// so. Notes also warn of links that lead out of the folder. The work folders of unfinished
// restores are left out without a note.
//
// If something cannot be read, the scan fails with an error that names it, unless
// [ScanOptions.SkipUnreadable] is set. A manifest is therefore complete. Scan returns
// [manifest.ErrManifest] if there is more than a manifest can contain, and [ErrNames] if two
// paths have the same name.
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

// A scan is a call to Scan in progress. It builds the Source that Scan returns.
type scan struct {
	ScanOptions
	*Source
	ctx context.Context
}

// run scans the paths into the source.
func (s *scan) run(paths []string) error {
	// Match reports a bad pattern even for an empty name, so check all patterns before reading
	// anything.
	for _, pattern := range s.Exclude {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("exclude %q: %w", pattern, err)
		}
	}
	if err := s.openRoots(paths); err != nil {
		return err
	}
	for _, root := range s.roots {
		// What we've read may be out of date if somebody has put another folder there.
		if err := cmp.Or(s.walk(root), root.checkRoot()); err != nil {
			return err
		}
	}
	if err := s.Manifest.Check(0); err != nil {
		return fmt.Errorf("%s: %w", s.roots[0], err)
	}
	return nil
}

// openRoots opens the paths. If there are several, it also adds the root folder that contains
// them.
func (s *scan) openRoots(paths []string) error {
	if len(paths) == 0 {
		return errors.New("no path to scan")
	}
	top := manifest.Entry{Path: manifest.Root, Kind: manifest.Dir, Mode: 0o755}
	for _, p := range paths {
		at, modified, err := openRoot(p)
		if err != nil {
			return err
		}
		s.roots = append(s.roots, at)
		top.Time = max(top.Time, modified)
	}
	if len(paths) == 1 {
		s.roots[0].entry = manifest.Root
		return nil
	}

	// A manifest lists the entries of a folder by name. Once sorted, equal names are neighbors.
	slices.SortFunc(s.roots, func(a, b location) int { return cmp.Compare(a.entry, b.entry) })
	for i, at := range s.roots[1:] {
		if at.entry == s.roots[i].entry {
			return sameNameError{s.roots[i], at}
		}
	}
	s.add(top, location{})
	return nil
}

// A sameNameError is an [ErrNames] for two paths that end in the same name. Unlike other errors
// of this kind, it doesn't depend on which names the file system can tell apart.
type sameNameError struct{ a, b location }

func (e sameNameError) Error() string        { return fmt.Sprintf("%s and %s have one name", e.a, e.b) }
func (e sameNameError) Is(target error) bool { return target == ErrNames }

// maxTries is the maximum number of times that we read a file or folder that keeps changing.
// Hardly anything changes that many times in a row.
const maxTries = 3

// walk adds the file or folder at a location, and everything below it.
//
// If a folder is replaced with another while we read it, we may have read parts of both. walk
// then discards what it has added and starts over.
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

// errReplaced means that a folder below a path is no longer the one that the walk entered.
var errReplaced = errors.New("another folder")

// errGone means that a folder has listed something that no longer exists.
var errGone = errors.New("gone")

// addContent adds the content of a folder. If something is gone by the time we get to it, it may
// have been renamed, so addContent lists the folder again and adds the names that are new.
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
			return nil // the folder itself is gone; walk notices that by calling checkSame
		}
		if err != nil {
			return fmt.Errorf("%s: %w", at, reason(err))
		}
		gone, err = s.addListed(at, listed, added)
		sortEntries(s.Manifest.Entries[from:]) // the new names go between the earlier ones
	}
	return err
}

// sortEntries sorts entries in the order of a walk, which is what a manifest requires.
func sortEntries(entries []manifest.Entry) {
	slices.SortFunc(entries, func(a, b manifest.Entry) int {
		return slices.Compare(strings.Split(a.Path, "/"), strings.Split(b.Path, "/"))
	})
}

// addListed adds everything that a folder has listed, except for the names in added. It then puts
// the new names into added. It reports whether anything was gone.
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

// skipOrFail decides what the walk should do about an error at a location. It returns nil if the
// walk may continue without the location, errGone if the location was removed after its folder
// was listed, and otherwise an error that names the location.
func (s *scan) skipOrFail(at location, err error) error {
	switch {
	case slices.Contains(s.roots, at):
		// The caller asked for this location, so it must exist and be readable.
	case errors.Is(err, fs.ErrNotExist):
		return errGone
	case s.skipUnreadable(at, err):
		return nil
	}
	return fmt.Errorf("%s: %w", at, reason(err))
}

// skipUnreadable leaves out a location that cannot be read and adds a note, provided that
// SkipUnreadable is set and err comes from the file system. It returns false if the scan must
// fail instead.
func (s *scan) skipUnreadable(at location, err error) (skipped bool) {
	pathErr, ok := errors.AsType[*fs.PathError](err)
	if !ok || !s.SkipUnreadable || outOfResources(err) {
		return false
	}
	// A folder that we may not list has been added before we tried to list it, so remove it
	// again.
	entries := s.Manifest.Entries
	last := len(entries) - 1
	if entries[last].Path == at.entry {
		s.Manifest.Entries = entries[:last]
	}
	s.leaveOut(at, "it cannot be read: "+pathErr.Err.Error())
	return true
}

// outOfResources reports whether this machine has run out of open files or memory. Such an
// error says nothing about the file that we were about to read.
func outOfResources(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}

// addEntry adds the file, folder or link at a location to the manifest. If it's a folder whose
// content must be added as well, addEntry returns the folder's info.
func (s *scan) addEntry(at location) (folder fs.FileInfo, err error) {
	if s.ctx.Err() != nil {
		return nil, context.Cause(s.ctx)
	}
	if len(s.Manifest.Entries) > manifest.MaxEntries {
		// Check would fail in the end. Fail now, because there may be many more entries.
		return nil, s.Manifest.Check(0)
	}
	info, err := at.root.Lstat(at.name)
	if err != nil {
		return nil, err
	}
	if at.entry != manifest.Root {
		if s.excludes(at.entry) {
			return nil, nil
		}
		if err := manifest.CheckPath(at.entry); err != nil {
			s.leaveOut(at, err.Error())
			return nil, nil
		}
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
	s.leaveOut(at, "it is neither file, folder nor link")
	return nil, nil
}

// leaveOut adds a note that says why a location is not in the manifest.
func (s *scan) leaveOut(at location, why string) {
	s.Notes = append(s.Notes, Note{at.entry, why, true})
}

// add adds an entry to the manifest, and records where its chunks are.
func (s *scan) add(e manifest.Entry, at location) {
	s.Manifest.Entries = append(s.Manifest.Entries, e)
	var offset int64
	for _, c := range e.Chunks {
		s.chunks[c.Digest] = piece{at, offset}
		offset += int64(c.Size)
	}
}

// addFile adds a file, and reads it again if it changes while it's read.
func (s *scan) addFile(at location) (err error) {
	for range maxTries {
		err = s.tryAddFile(at)
		if !errors.Is(err, ErrChanged) {
			return err
		}
	}
	return fmt.Errorf("in each of %d reads %w", maxTries, err)
}

// excludes reports whether the scan leaves out path p without a note.
func (s *scan) excludes(p string) bool {
	name := path.Base(p)
	if workName.MatchString(name) { // the work folder of an unfinished restore
		return true
	}
	return slices.ContainsFunc(s.Exclude, func(pattern string) bool {
		whole, _ := path.Match(pattern, p) // run has checked the pattern
		last, _ := path.Match(pattern, name)
		return whole || last
	})
}

// addLink adds a link.
func (s *scan) addLink(at location) error {
	target, err := at.root.Readlink(at.name)
	if err != nil {
		return err
	}
	if !utf8.ValidString(target) {
		s.leaveOut(at, "the link's target is not UTF-8")
		return nil
	}
	slashed := filepath.ToSlash(target)
	if filepath.IsAbs(target) || !filepath.IsLocal(path.Join(path.Dir(at.entry), slashed)) {
		// The manifest contains the link nevertheless, but not what it leads to.
		s.Notes = append(s.Notes, Note{at.entry, "the link leads out of the folder, to " + target, false})
	}
	s.add(manifest.Entry{Path: at.entry, Kind: manifest.Link, Target: slashed}, at)
	return nil
}

// tryAddFile reads a file and adds it. It returns ErrChanged if the file changed while it was
// read.
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
	keep := before.Size() <= s.Hold && time.Since(before.ModTime()) < recentWrite
	var content []byte // all of the file if keep is set

	// Try to read one byte more than there should be. Otherwise we'd miss that the file has
	// grown.
	err = cdc.Cut(io.LimitReader(f, before.Size()+1), func(c cdc.Chunk, data []byte) error {
		e.Chunks = append(e.Chunks, c)
		e.Size += int64(c.Size)
		if keep {
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
	resized := e.Size != before.Size() || e.Size != after.Size()
	written := !after.ModTime().Equal(before.ModTime())
	if resized || written || keep && !stillContains(f, content) {
		return ErrChanged
	}
	s.add(e, at)
	if keep {
		s.holdChunks(e.Chunks, content)
	}
	return nil
}

// recentWrite is the time after a write to a file in which we expect another write.
const recentWrite = 10 * time.Second

// stillContains reads a file a second time and compares it with data. We need this for a file
// that was just written, since a second write within the same tick of the file system's clock
// leaves the modification time as it is.
func stillContains(f io.ReaderAt, data []byte) bool {
	again, err := io.ReadAll(io.NewSectionReader(f, 0, int64(len(data))))
	return err == nil && string(again) == string(data)
}

// holdChunks keeps the content of a file in memory, chunk by chunk, and subtracts its size from
// the number of bytes that may still be held.
func (s *scan) holdChunks(chunks []cdc.Chunk, data []byte) {
	s.Hold -= int64(len(data))
	for _, c := range chunks {
		s.held[c.Digest] = data[:c.Size]
		data = data[c.Size:]
	}
}

// reason strips the operation and the path from an error of the file system, for messages that
// name the path themselves.
func reason(err error) error {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return pathErr.Err
	}
	return err
}
