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
)

// growBytes is the number of bytes reserved in advance for a part of unknown size, in addition to
// the write that needs room. Without it, we'd have to walk the folders for every write.
const growBytes = 4 << 20

// A storedFile is a file that counts against the limits of a Store: a part or a complete
// content.
type storedFile struct {
	path string
	size int64     // in bytes; for an open part, includes the bytes reserved for it
	used time.Time // when it was last written or looked up
	blob bool      // it is a complete content, not a part
	open bool      // it is a part that this process is writing
}

// grow makes sure that size bytes are reserved for p. It takes the lock only if they aren't,
// because other goroutines may hold the lock while they read the disk.
func (s *Store) grow(p *part, size int64) error {
	if p.size >= 0 && size > p.size {
		return fmt.Errorf("%w: more than the %d bytes that were announced", stream.ErrTooLarge, p.size)
	}
	if size <= p.reserved {
		return nil
	}
	return s.reserve(p, size, growBytes)
}

// reserve reserves size bytes for p, plus up to more bytes for later writes. It removes other
// files to make room.
//
// If more doesn't fit, reserve takes a quarter to a half of the room that is left after size. If
// it took nothing, a part near a limit would make us walk the folders for every write.
func (s *Store) reserve(p *part, size, more int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	folder := filepath.Dir(p.path)
	if err := s.sizes.refresh(folder); err != nil {
		return err
	}
	others := s.sizes.bytesExcept(folder)
	s.sizes.invalidate(folder)
	files, err := s.walkFolder(folder)
	if err != nil {
		return err
	}

	// Leave out the part itself, since size includes the bytes of it that are stored already.
	files = slices.DeleteFunc(files, func(f storedFile) bool { return f.path == p.path })
	_, err = s.makeRoom(files, others, size+more)
	if err != nil && more > 0 {
		var after usage
		after, err = s.makeRoom(files, others, size)
		for more > 0 && s.checkFit(after, size+2*more) != nil {
			more /= 2
		}
	}
	if err != nil {
		return err
	}
	p.reserved = size + more
	return nil
}

// makeRoom removes contents and parts of an identity, the least recently used first, until one
// more file of size bytes fits. files lists the identity's files. Files of other identities,
// which take up others bytes, are never removed. If removing everything possible would not be
// enough, makeRoom removes nothing.
//
// It returns the usage afterwards.
func (s *Store) makeRoom(files []storedFile, others, size int64) (after usage, err error) {
	after = usage{all: others}
	fixed := usage{all: others} // what cannot be removed
	for _, f := range files {
		after.add(f)
		if f.open {
			fixed.add(f)
		}
	}
	if err := s.checkFit(fixed, size); err != nil {
		return after, err
	}
	_ = after.evictUntil(files, func() bool { return s.checkFit(after, size) == nil })
	return after, s.checkFit(after, size)
}

// A usage holds the numbers that the limits of a Store apply to.
type usage struct {
	files, bytes int64 // stored for one identity
	all          int64 // bytes stored for all identities
}

// add counts one of the identity's files.
func (u *usage) add(f storedFile) {
	u.files++
	u.bytes += f.size
	u.all += f.size
}

// remove undoes add.
func (u *usage) remove(f storedFile) {
	u.files--
	u.bytes -= f.size
	u.all -= f.size
}

// evictUntil removes files that are counted in u, the least recently used first, until enough
// returns true. If a file can't be removed, evictUntil leaves it counted and continues with the
// next one. It returns all errors.
func (u *usage) evictUntil(files []storedFile, enough func() bool) (failed error) {
	byUse := func(a, b storedFile) int {
		return cmp.Or(a.used.Compare(b.used), strings.Compare(a.path, b.path))
	}
	slices.SortFunc(files, byUse)
	for _, f := range files {
		if enough() {
			break
		}
		if err := f.evict(); err != nil {
			failed = errors.Join(failed, err)
		} else {
			u.remove(f)
		}
	}
	return failed
}

// checkFit returns an error if one more file of size bytes does not fit. The error names the
// limit.
func (s *Store) checkFit(u usage, size int64) error {
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

// Trim removes parts and contents of an identity, the least recently used first, until their
// total size is at most bytes and their number is at most files. A negative limit means no limit.
// Content under the keys in keep stays and is not counted.
//
// Trim is for applications whose quota includes files that they keep elsewhere. If parts being
// written exceed the limits by themselves, the error wraps stream.ErrPartBusy.
func (s *Store) Trim(identity string, bytes int64, files int, keep ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	exempt := make(map[string]bool, len(keep))
	for _, key := range keep {
		exempt[hashName(key)] = true
	}
	folder := filepath.Join(s.path, hashName(identity))
	s.sizes.invalidate(folder)
	stored, err := s.walkFolder(folder)
	if err != nil {
		return wrapErr("trimming a store", err)
	}
	stored = slices.DeleteFunc(stored, func(f storedFile) bool { return exempt[f.keyHash()] })
	var u usage
	for _, f := range stored {
		u.add(f)
	}
	within := func() bool {
		return (bytes < 0 || u.bytes <= bytes) && (files < 0 || u.files <= int64(files))
	}
	failed := u.evictUntil(stored, within)
	if !within() {
		return fmt.Errorf("disk: trimming a store: %d bytes in %d files stay: %w", u.bytes, u.files, failed)
	}
	return nil
}

// keyHash returns the hash of the file's key, which is its name without suffixes.
func (f storedFile) keyHash() string {
	base, _, _ := strings.Cut(filepath.Base(f.path), ".")
	return base
}

// evict removes the file to make room for another. It fails for a part that is being written.
func (f storedFile) evict() error {
	switch {
	case f.blob:
		return ignoreMissing(os.Remove(f.path)) // another process may have removed it first
	case f.open:
		return stream.ErrPartBusy
	}
	return ignoreMissing(removeUnlocked(f.path))
}

// walkFolder lists the files of one identity, and cleans up on the way: it removes expired
// parts, and the folder itself if that is empty. A missing folder counts as empty.
func (s *Store) walkFolder(path string) (files []storedFile, err error) {
	entries, err := readFolder(path)
	if err != nil {
		return nil, err
	}
	if len(entries) == 0 {
		_ = os.Remove(path) // part.create makes it again
	}
	for _, e := range entries {
		if f, ok := s.describe(path, e); ok && !f.expire(s.PartExpiry) {
			files = append(files, f)
		}
	}
	return files, nil
}

// describe describes an entry of an identity's folder. ok is false if it isn't a file of the store.
func (s *Store) describe(folder string, e fs.DirEntry) (f storedFile, ok bool) {
	f = storedFile{path: filepath.Join(folder, e.Name())}
	_, f.blob = blobDigest(e.Name())
	isPart := strings.HasSuffix(e.Name(), partSuffix)
	info, err := e.Info()
	if err != nil || !info.Mode().IsRegular() || !f.blob && !isPart {
		return f, false
	}
	f.size = info.Size()
	f.used = info.ModTime()
	if p := s.open[f.path]; p != nil {
		f.open = true
		f.size = max(f.size, p.reserved)
	}
	return f, true
}

// expire removes the file if it's a part that was unused for longer than expiry, and reports
// whether it has. It leaves parts that are open, perhaps in another process.
func (f storedFile) expire(expiry time.Duration) (removed bool) {
	abandoned := !f.blob && !f.open && expired(time.Since(f.used), expiry)
	return abandoned && removeUnlocked(f.path) == nil
}

// removeUnlocked removes a part, unless a process has it open and therefore holds its lock.
func removeUnlocked(path string) error {
	f, err := openLocked(path, 0)
	if err != nil {
		return err
	}
	return removeOpen(f, path)
}

// expired reports whether a part that was unused for some time has expired. With a negative
// expiry, parts never do.
func expired(unused, expiry time.Duration) bool {
	expiry = cmp.Or(expiry, defaultPartExpiry)
	return expiry > 0 && unused > expiry
}
