package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/quivernet/quiver/stream"
)

// A part is a [stream.Part] in a Store. It's a file that grows as content arrives and gets its
// final name on Commit.
//
// Only one goroutine at a time uses a part (see stream.Store), and the file is locked against
// other processes.
type part struct {
	store *Store
	path  string
	file  *os.File // set by create; replaced by rename if open files can't be renamed
	size  int64    // size of the whole content; -1 if unknown

	offset int64 // bytes stored so far
	ended  bool  // committed, closed or deleted
	closed bool  // file is closed

	// reserved is the number of bytes that count towards the store's limits for this part. Only the
	// goroutine that uses the part writes the field, with store.mu held. This goroutine may read it
	// without the lock, but other goroutines must hold the lock.
	reserved int64
}

var _ stream.Part = (*part)(nil)

// openPart opens a part. It locks the file before it looks at the file's size. Otherwise another
// process could change the size in between.
func (s *Store) openPart(path string, size int64) (*part, error) {
	p := &part{store: s, path: path, size: size}
	if err := s.claim(p); err != nil {
		return nil, err
	}
	err := p.load()
	if err == nil {
		err = s.reserve(p, max(p.offset, size), 0)
	}
	if err == nil {
		return p, nil
	}
	defer s.unclaim(path)
	if p.file == nil {
		return nil, err
	}
	return nil, errors.Join(err, p.release())
}

// release closes the file, and removes it if it's empty.
func (p *part) release() error {
	p.closed = true
	if p.offset > 0 {
		return p.file.Close()
	}
	return removeOpen(p.file, p.path)
}

// claim makes sure that no other transfer of this process uses p's path, until unclaim.
func (s *Store) claim(p *part) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[p.path] != nil {
		return stream.ErrPartBusy
	}
	s.open[p.path] = p
	s.sizes.invalidate(filepath.Dir(p.path))
	return nil
}

// unclaim ends the claim on a path.
func (s *Store) unclaim(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, path)
	s.sizes.invalidate(filepath.Dir(path))
}

// load opens the file, and finds out how much of the content it has. A file that is larger than the
// content can't be a prefix of it, so load empties such a file.
func (p *part) load() error {
	if err := p.create(); err != nil {
		return err
	}
	info, err := p.file.Stat()
	if err != nil {
		return err
	}
	p.offset = info.Size()
	if p.size >= 0 && p.offset > p.size {
		p.offset = 0
		return p.file.Truncate(0)
	}
	return nil
}

// createTries is the maximum number of times that create tries to open the file. An attempt fails
// if another process removes the folder at that very moment.
const createTries = 20

// create opens the file. If necessary, it creates the file and its folders first.
//
// An identity's empty folder may be removed while another identity's part is opened (see
// walkFolder). This process can't remove it now, because we hold store.mu. Another process may
// remove it, though, so create tries again.
func (p *part) create() (err error) {
	p.store.mu.Lock()
	defer p.store.mu.Unlock()
	for range createTries {
		err = p.tryCreate()
		if !errors.Is(err, fs.ErrNotExist) {
			return err // nil, or an error that a retry would not change
		}
	}
	return err
}

// tryCreate makes one attempt for create. It returns fs.ErrNotExist if the folder was removed
// before the file could be created.
func (p *part) tryCreate() (err error) {
	if err := makeFolder(filepath.Dir(p.path)); err != nil {
		return err
	}
	p.file, err = openLocked(p.path, os.O_CREATE)
	return err
}

// makeFolder creates an identity's folder, and the store's folder above it, if they are missing. It
// returns errNotFolder if something else is at the path.
func makeFolder(folder string) error {
	info, err := os.Lstat(folder)
	switch {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		return &fs.PathError{Op: "open", Path: folder, Err: errNotFolder}
	}
	return os.MkdirAll(folder, 0o700)
}

// Offset implements stream.Part.
func (p *part) Offset() int64 { return p.offset }

// Write implements stream.Part.
func (p *part) Write(b []byte) (int, error) {
	if p.ended {
		return 0, wrapErr("writing a part", fs.ErrClosed)
	}
	offset := p.offset
	if err := p.store.grow(p, offset+int64(len(b))); err != nil {
		return 0, wrapErr("writing a part", err)
	}
	n, err := p.file.WriteAt(b, offset)
	p.offset = offset + int64(n)
	return n, wrapErr("writing a part", err)
}

// ReadAt implements stream.Part.
func (p *part) ReadAt(b []byte, off int64) (int, error) { return p.file.ReadAt(b, off) }

// Commit implements stream.Part.
func (p *part) Commit(digest stream.Digest) error {
	if p.ended {
		return wrapErr("committing a part", fs.ErrClosed)
	}
	if digest.IsZero() {
		return errors.New("disk: committing a part: it has no digest")
	}
	p.ended = true
	defer p.store.unclaim(p.path)
	return wrapErr("committing a part", p.publish(digest))
}

// publish makes the part the complete content, by renaming it to its final name.
//
// The file is flushed to disk before it's renamed, and the folders are flushed before older content
// is removed. A crash at any point therefore leaves either the old content or the new content
// intact. The folders are flushed even if this process hasn't created them, because the process
// that created them may have been killed before it could flush them.
func (p *part) publish(digest stream.Digest) error {
	if err := p.file.Sync(); err != nil {
		return err
	}
	base := strings.TrimSuffix(p.path, partSuffix)
	final := blobName(base, digest)
	if err := p.rename(final); err != nil {
		return err
	}
	if err := p.store.syncFolders(filepath.Dir(final)); err != nil {
		return err
	}
	return removeBlobs(base, final)
}

// rename renames the file, and keeps it open for ReadAt. On a system that can't rename open files,
// rename closes the file and opens it again.
func (p *part) rename(final string) error {
	if renamesOpenFiles {
		return os.Rename(p.path, final)
	}
	if err := p.file.Close(); err != nil {
		return err
	}
	p.closed = true
	if err := os.Rename(p.path, final); err != nil {
		return err
	}
	f, err := os.Open(final)
	if err != nil {
		return err
	}
	p.file = f
	p.closed = false
	return nil
}

// Close implements stream.Part.
func (p *part) Close() error {
	if p.closed {
		return nil
	}
	if p.ended { // by Commit, which has left the file open only for ReadAt
		p.closed = true
		return wrapErr("closing a part", p.file.Close())
	}
	p.ended = true
	defer p.store.unclaim(p.path)
	return wrapErr("closing a part", errors.Join(p.file.Sync(), p.release()))
}

// Delete implements stream.Part.
func (p *part) Delete() error {
	if p.ended {
		return wrapErr("deleting a part", fs.ErrClosed)
	}
	p.ended, p.closed = true, true
	defer p.store.unclaim(p.path)
	return wrapErr("deleting a part", removeOpen(p.file, p.path))
}

// removeOpen removes and closes a file. On systems that can remove open files, the file stays
// locked until it's gone.
func removeOpen(f *os.File, path string) error {
	if renamesOpenFiles {
		return errors.Join(os.Remove(path), f.Close())
	}
	return errors.Join(f.Close(), os.Remove(path))
}
