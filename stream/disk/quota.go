package disk

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/quivernet/quiver/stream"
)

// Defaults of a Store.
const (
	defaultStoreBytes    = 4 << 30
	defaultIdentityBytes = 1 << 30
	defaultIdentityFiles = 1024
	defaultPartExpiry    = 7 * 24 * time.Hour
	// growBytes is the number of bytes reserved at once for a part of unknown size. Without
	// it, every write would walk the folders.
	growBytes = 4 << 20
)

// A storedFile is one file of a Store.
type storedFile struct {
	path string
	size int64     // size in bytes; reserved bytes for an open part
	used time.Time // when the file was last written or looked up
	blob bool      // the file is a complete content, not a part
	open bool      // this process is writing the part
}

// grow makes room for p to have size bytes. It takes the lock only if more bytes must be
// reserved, because other goroutines may hold the lock while they read the disk.
func (s *Store) grow(p *part, size int64) error {
	if p.size >= 0 && size > p.size {
		return fmt.Errorf("%w: more than the %d bytes that were announced", stream.ErrTooLarge, p.size)
	}
	if size <= p.reserved {
		return nil
	}
	return s.reserve(p, size, growBytes)
}

// reserve reserves size bytes for p, and more bytes beyond those if they fit. It removes
// files to make room for them.
//
// If not all of more fits, reserve takes a quarter to a half of the room that is left
// beyond size. Near a limit, each write would walk the folders otherwise.
func (s *Store) reserve(p *part, size, more int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	folder := filepath.Dir(p.path)
	others, err := s.sizes.bytesExcept(folder)
	if err != nil {
		return err
	}
	s.sizes.changed(folder)
	files, err := s.walkFolder(folder)
	if err != nil {
		return err
	}
	files = slices.DeleteFunc(files, func(f storedFile) bool { return f.path == p.path })
	_, err = s.makeRoom(files, others, size+more)
	if err != nil && more > 0 {
		var stored usage
		stored, err = s.makeRoom(files, others, size)
		for more > 0 && s.fits(stored, size+2*more) != nil {
			more /= 2
		}
	}
	if err != nil {
		return err
	}
	p.reserved = size + more
	return nil
}

// makeRoom removes contents and parts of an identity until one more file of size bytes fits,
// the least recently used first. files are the identity's files. others is the number of bytes
// that other identities store; makeRoom removes none of theirs. It returns the usage afterward.
//
// It removes nothing at all if removing everything it may remove would not be enough.
func (s *Store) makeRoom(files []storedFile, others, size int64) (now usage, err error) {
	now = usage{all: others}
	fixed := usage{all: others} // the part of now that cannot be removed
	for _, f := range files {
		now.add(f, 1)
		if f.open {
			fixed.add(f, 1)
		}
	}
	if err := s.fits(fixed, size); err != nil {
		return now, err
	}
	_ = now.evict(files, func() bool { return s.fits(now, size) == nil })
	return now, s.fits(now, size)
}

// A usage is what the limits of a Store apply to.
type usage struct {
	files, bytes int64 // stored for one identity
	all          int64 // bytes stored for all identities
}

// add counts one of the identity's files times times. -1 subtracts it.
func (u *usage) add(f storedFile, times int64) {
	u.all += times * f.size
	u.files += times
	u.bytes += times * f.size
}

// evict removes files that are counted in u, the least recently used first, until enough
// returns true. It returns the errors of files that could not be removed.
func (u *usage) evict(files []storedFile, enough func() bool) (failed error) {
	slices.SortFunc(files, func(a, b storedFile) int {
		return cmp.Or(a.used.Compare(b.used), strings.Compare(a.path, b.path))
	})
	for _, f := range files {
		if enough() {
			break
		}
		if err := f.evict(); err != nil {
			failed = errors.Join(failed, err)
		} else {
			u.add(f, -1)
		}
	}
	return failed
}

// fits returns an error unless one more file of size bytes fits. The error names the limit.
func (s *Store) fits(u usage, size int64) error {
	maxFiles := int64(cmp.Or(s.MaxIdentityFiles, defaultIdentityFiles))
	maxBytes := cmp.Or(s.MaxIdentityBytes, defaultIdentityBytes)
	maxAll := cmp.Or(s.MaxBytes, defaultStoreBytes)
	for _, l := range []struct {
		what, setting     string
		used, need, limit int64
	}{
		{"files of one identity", "MaxIdentityFiles", u.files, 1, maxFiles},
		{"bytes of one identity", "MaxIdentityBytes", u.bytes, size, maxBytes},
		{"bytes", "MaxBytes", u.all, size, maxAll},
	} {
		if l.limit >= 0 && l.need > l.limit-l.used {
			return fmt.Errorf("%w: %d %s have to stay and %d more do not fit into %s = %d",
				stream.ErrStoreFull, l.used, l.what, l.need, l.setting, l.limit)
		}
	}
	return nil
}

// Trim removes parts and contents of an identity, the least recently used first, until both
// limits are met: total bytes and number of files. A negative limit means no limit. Content
// under the keys in keep stays and is not counted.
//
// Trim is for applications whose quota includes files that they keep elsewhere. If parts
// being written exceed the limits by themselves, the error wraps stream.ErrPartBusy.
func (s *Store) Trim(identity string, bytes int64, files int, keep ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	exempt := make(map[string]bool, len(keep))
	for _, key := range keep {
		exempt[hashName(key)] = true
	}
	folder := filepath.Join(s.path, hashName(identity))
	s.sizes.changed(folder)
	stored, err := s.walkFolder(folder)
	if err != nil {
		return doing("trimming a store", err)
	}
	stored = slices.DeleteFunc(stored, func(f storedFile) bool { return exempt[f.base()] })
	var u usage
	for _, f := range stored {
		u.add(f, 1)
	}
	within := func() bool {
		return (bytes < 0 || u.bytes <= bytes) && (files < 0 || u.files <= int64(files))
	}
	failed := u.evict(stored, within)
	if !within() {
		return fmt.Errorf("disk: trimming a store: %d bytes in %d files stay: %w", u.bytes, u.files, failed)
	}
	return nil
}

// base returns the hash of the file's key, which is the name without suffixes.
func (f storedFile) base() string {
	base, _, _ := strings.Cut(filepath.Base(f.path), ".")
	return base
}

// evict removes the file to make room for another.
func (f storedFile) evict() error {
	switch {
	case f.blob:
		// Another process may have removed the file first.
		return ignoreMissing(os.Remove(f.path))
	case f.open:
		return stream.ErrPartBusy
	}
	return ignoreMissing(removeUnlocked(f.path))
}

// walkFolder lists the files of one identity. It removes expired parts, and removes the
// folder if it is empty. A missing folder counts as empty.
func (s *Store) walkFolder(path string) (files []storedFile, err error) {
	entries, err := readFolder(path)
	if err != nil {
		return nil, err
	}
	if len(entries) == 0 {
		_ = os.Remove(path)
	}
	for _, e := range entries {
		if f, ok := s.stored(path, e); ok {
			files = append(files, f)
		}
	}
	return files, nil
}

// stored describes one entry of an identity's folder. ok is false for files that do not
// belong to the store and for expired parts, which stored removes.
func (s *Store) stored(folder string, e fs.DirEntry) (f storedFile, ok bool) {
	f = storedFile{path: filepath.Join(folder, e.Name())}
	_, f.blob = blobDigest(e.Name())
	info, err := e.Info()
	if err != nil || !info.Mode().IsRegular() || !f.blob && !strings.HasSuffix(e.Name(), partSuffix) {
		return f, false
	}
	f.size = info.Size()
	f.used = info.ModTime()
	if p := s.open[f.path]; p != nil {
		f.open = true
		f.size = max(f.size, p.reserved)
	}
	old := !f.blob && !f.open && expired(time.Since(f.used), s.PartExpiry)
	if old && removeUnlocked(f.path) == nil {
		return f, false
	}
	return f, true
}

// removeUnlocked removes a part unless a process has it open.
func removeUnlocked(path string) error {
	f, err := openLocked(path, 0)
	if err != nil {
		return err
	}
	return removeOpen(f, path)
}

// expired reports whether a part has expired after it was unused for a time. With a
// negative expiry, parts never expire.
func expired(unused, expiry time.Duration) bool {
	expiry = cmp.Or(expiry, defaultPartExpiry)
	return expiry > 0 && unused > expiry
}
