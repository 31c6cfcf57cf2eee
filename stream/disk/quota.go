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
	// growBytes is how much is reserved at once for a part of unknown size, so
	// that not every write has to walk the folders.
	growBytes = 4 << 20
)

// A storedFile is one file of a Store.
type storedFile struct {
	path string
	size int64     // bytes; of an open part, the reserved bytes
	used time.Time // when it was last written or looked up
	blob bool      // complete content
	open bool      // a part that this process is writing
}

// grow makes room for p to have size bytes. It takes no lock unless more bytes
// must be reserved, because others may hold the lock while they read the disk.
func (s *Store) grow(p *part, size int64) error {
	if p.size >= 0 && size > p.size {
		return fmt.Errorf("%w: more than the %d bytes that were announced", stream.ErrTooLarge, p.size)
	}
	if size <= p.reserved {
		return nil
	}
	return s.reserve(p, size, growBytes)
}

// reserve reserves size bytes for p, and more bytes beyond that if they fit, and removes
// files to make room for them. If more do not fit, it reserves a quarter to a half of the
// room that is left beyond size; otherwise each write near a limit would walk the folders.
func (s *Store) reserve(p *part, size, more int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	folder := filepath.Dir(p.path)
	others, err := s.sizes.bytesBeside(folder)
	if err != nil {
		return err
	}
	s.sizes.changed(folder)
	files, err := s.walkFolder(folder)
	if err != nil {
		return err
	}
	files = slices.DeleteFunc(files, func(f storedFile) bool { return f.path == p.path })
	if _, err = s.makeRoom(files, others, size+more); err != nil && more > 0 {
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

// makeRoom removes contents and parts of an identity until one more file of size
// bytes fits, the least recently used first. files are the identity's files. others
// is how many bytes other identities store; makeRoom removes nothing of theirs. It
// removes nothing at all if that would not be enough. It returns what is stored then.
func (s *Store) makeRoom(files []storedFile, others, size int64) (now usage, err error) {
	now, least := usage{all: others}, usage{all: others} // least is what stays if everything is removed that may be
	for _, f := range files {
		now.add(f, 1)
		if f.open {
			least.add(f, 1)
		}
	}
	if err := s.fits(least, size); err != nil {
		return now, err
	}
	_ = now.evict(files, func() bool { return s.fits(now, size) == nil })
	return now, s.fits(now, size)
}

// usage counts what the limits of a Store apply to.
type usage struct {
	files, bytes int64 // of one identity
	all          int64 // bytes of all identities
}

// add counts a file of the identity the given number of times; -1 subtracts it.
func (u *usage) add(f storedFile, times int64) {
	u.all += times * f.size
	u.files += times
	u.bytes += times * f.size
}

// evict removes files that are counted, the least recently used first, until
// enough returns true. It returns the errors of files that could not be removed.
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

// fits returns nil if one more file of size bytes fits, and otherwise an error that says why not.
func (s *Store) fits(u usage, size int64) error {
	for _, l := range []struct {
		what, setting    string
		used, need, most int64
	}{
		{"files of one identity", "MaxIdentityFiles", u.files, 1, int64(cmp.Or(s.MaxIdentityFiles, defaultIdentityFiles))},
		{"bytes of one identity", "MaxIdentityBytes", u.bytes, size, cmp.Or(s.MaxIdentityBytes, defaultIdentityBytes)},
		{"bytes", "MaxBytes", u.all, size, cmp.Or(s.MaxBytes, defaultStoreBytes)},
	} {
		if l.most >= 0 && l.need > l.most-l.used {
			return fmt.Errorf("%w: %d %s have to stay and %d more do not fit into %s = %d", stream.ErrStoreFull, l.used, l.what, l.need, l.setting, l.most)
		}
	}
	return nil
}

// Trim removes parts and contents of an identity, the least recently used first,
// until neither limit is exceeded: bytes in total, and files in number. A negative
// limit is none. Content under the keys in keep stays and does not count. Trim is
// for applications whose quota includes files that they keep elsewhere. If parts
// that are being written exceed the limits alone, the error Is stream.ErrPartBusy.
func (s *Store) Trim(identity string, bytes int64, files int, keep ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := make(map[string]bool, len(keep))
	for _, key := range keep {
		kept[hashName(key)] = true
	}
	folder := filepath.Join(s.path, hashName(identity))
	s.sizes.changed(folder)
	stored, err := s.walkFolder(folder)
	if err != nil {
		return doing("trimming a store", err)
	}
	stored = slices.DeleteFunc(stored, func(f storedFile) bool { return kept[f.base()] })
	var u usage
	for _, f := range stored {
		u.add(f, 1)
	}
	tooMuch := func() bool { return bytes >= 0 && u.bytes > bytes || files >= 0 && u.files > int64(files) }
	failed := u.evict(stored, func() bool { return !tooMuch() })
	if tooMuch() {
		return fmt.Errorf("disk: trimming a store: %d bytes in %d files stay: %w", u.bytes, u.files, failed)
	}
	return nil
}

// base returns the hash of the file's key.
func (f storedFile) base() string {
	base, _, _ := strings.Cut(filepath.Base(f.path), ".")
	return base
}

// evict removes a file, to make room for another.
func (f storedFile) evict() error {
	switch {
	case f.blob:
		return ignoreMissing(os.Remove(f.path)) // another process may have removed it first
	case f.open:
		return stream.ErrPartBusy
	}
	return ignoreMissing(removeUnlocked(f.path))
}

// walkFolder lists the files of one identity, and removes expired parts and an
// empty folder. A missing folder counts as empty.
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

// stored describes one entry of an identity's folder. It returns false for files
// that do not belong to the store, and for expired parts, which it removes.
func (s *Store) stored(folder string, e fs.DirEntry) (storedFile, bool) {
	f := storedFile{path: filepath.Join(folder, e.Name())}
	_, f.blob = blobDigest(e.Name())
	info, err := e.Info()
	if err != nil || !info.Mode().IsRegular() || !f.blob && !strings.HasSuffix(e.Name(), partSuffix) {
		return f, false
	}
	f.size, f.used = info.Size(), info.ModTime()
	if p := s.open[f.path]; p != nil {
		f.open, f.size = true, max(f.size, p.reserved)
	}
	old := !f.blob && !f.open && expired(time.Since(f.used), s.PartExpiry)
	if old && removeUnlocked(f.path) == nil {
		return f, false
	}
	return f, true
}

// removeUnlocked removes a part, unless a process has it open.
func removeUnlocked(path string) error {
	f, err := openLocked(path, 0)
	if err != nil {
		return err
	}
	return removeOpen(f, path)
}

// expired reports whether a part that was unused for so long has expired. With
// a negative expiry, parts do not expire.
func expired(unused, expiry time.Duration) bool {
	expiry = cmp.Or(expiry, defaultPartExpiry)
	return expiry > 0 && unused > expiry
}
