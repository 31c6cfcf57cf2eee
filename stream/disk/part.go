package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/quivernet/quiver/stream"
)

// A part is a stream.Part in a Store. Only one goroutine at a time uses it (see stream.Store).
type part struct {
	store *Store
	path  string
	file  *os.File // set by create; replaced by rename on systems that cannot rename open files
	size  int64    // size of the whole content; -1 = unknown

	// reserved is the number of bytes that the store's limits count for this part. It is
	// written only by the goroutine using the part, with store.mu held. That goroutine may
	// read it without the lock; others must hold it.
	reserved int64

	offset int64 // number of bytes stored
	ended  bool  // committed, closed or deleted
	closed bool  // file is closed
}

var _ stream.Part = (*part)(nil)

// openPart opens a part. It locks the file before it reads the file's size, because another
// process could change it in between.
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

// release closes the file, and removes the file if it is empty.
func (p *part) release() error {
	p.closed = true
	if p.offset > 0 {
		return p.file.Close()
	}
	return removeOpen(p.file, p.path)
}

// claim reserves p's path for one transfer of this process.
func (s *Store) claim(p *part) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[p.path] != nil {
		return stream.ErrPartBusy
	}
	s.open[p.path] = p
	s.sizes.changed(filepath.Dir(p.path))
	return nil
}

// unclaim releases the claim on a path.
func (s *Store) unclaim(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, path)
	s.sizes.changed(filepath.Dir(path))
}

// load opens the file and sets offset to the file's size. If the file is larger than the
// content, load empties it.
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

// createTries is the maximum number of attempts of create. An attempt fails if another
// process removes the folder at that moment.
const createTries = 20

// create opens the file. It creates the file and its folders if they are missing.
//
// A walk for another part may remove an identity's empty folder (Store.walkFolder).
// Holding store.mu keeps this process's walks from doing that here, but not another
// process's, so create retries.
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

// tryCreate is one attempt of create. It returns fs.ErrNotExist if the folder was removed
// before the file was created.
func (p *part) tryCreate() (err error) {
	if err := makeFolder(filepath.Dir(p.path)); err != nil {
		return err
	}
	p.file, err = openLocked(p.path, os.O_CREATE)
	return err
}

// makeFolder creates the store's folder and an identity's folder in it, if they are
// missing. It returns errNotFolder if something else is at the path.
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
		return 0, doing("writing a part", fs.ErrClosed)
	}
	offset := p.offset
	if err := p.store.grow(p, offset+int64(len(b))); err != nil {
		return 0, doing("writing a part", err)
	}
	n, err := p.file.WriteAt(b, offset)
	p.offset = offset + int64(n)
	return n, doing("writing a part", err)
}

// ReadAt implements stream.Part.
func (p *part) ReadAt(b []byte, off int64) (int, error) { return p.file.ReadAt(b, off) }

// Commit implements stream.Part.
func (p *part) Commit(digest stream.Digest) error {
	if p.ended {
		return doing("committing a part", fs.ErrClosed)
	}
	if digest.IsZero() {
		return errors.New("disk: committing a part: it has no digest")
	}
	p.ended = true
	defer p.store.unclaim(p.path)
	return doing("committing a part", p.publish(digest))
}

// publish renames the part to its final name.
//
// It syncs the file before it renames it, and the folders before it removes older content.
// A crash at any point leaves either the old content or the new content intact.
//
// It syncs the folders even if this process did not create them. The process that did may
// have been killed before it synced them.
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

// rename renames the file and keeps it open for ReadAt. A system that cannot rename an open
// file needs it closed meanwhile.
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
	var err error
	if p.ended {
		p.closed = true
		err = p.file.Close()
	} else {
		p.ended = true
		defer p.store.unclaim(p.path)
		err = errors.Join(p.file.Sync(), p.release())
	}
	return doing("closing a part", err)
}

// Delete implements stream.Part.
func (p *part) Delete() error {
	if p.ended {
		return doing("deleting a part", fs.ErrClosed)
	}
	p.ended, p.closed = true, true
	defer p.store.unclaim(p.path)
	return doing("deleting a part", removeOpen(p.file, p.path))
}

// removeOpen closes and removes f. On systems that can remove an open file, f stays locked
// until it is removed.
func removeOpen(f *os.File, path string) error {
	if renamesOpenFiles {
		return errors.Join(os.Remove(path), f.Close())
	}
	return errors.Join(f.Close(), os.Remove(path))
}
