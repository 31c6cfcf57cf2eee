package stream

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
)

// Defaults of a Dir.
const (
	defaultStoreBytes    = 4 << 30
	defaultIdentityBytes = 1 << 30
	defaultIdentityFiles = 1024
	defaultPartExpiry    = 7 * 24 * time.Hour
	// growBytes is reserved at once for a part of unknown size: the folders are not walked for every write.
	growBytes = 4 << 20
)

// storedFile is one file of a Dir.
type storedFile struct {
	path   string
	folder string // of the identity
	size   int64  // for an open part, what is reserved
	used   time.Time
	blob   bool
	open   bool // a part that this process writes
}

// grow makes room so that p may have size bytes.
func (d *Dir) grow(p *dirPart, size int64) error {
	if p.size >= 0 && size > p.size {
		return fmt.Errorf("%w: more than the %d bytes that were announced", ErrTooLarge, p.size)
	}
	d.mu.Lock()
	reserved := p.reserved
	d.mu.Unlock()
	if size <= reserved {
		return nil
	}
	if d.reserve(p, size+growBytes) == nil {
		return nil
	}
	return d.reserve(p, size)
}

// reserve counts size bytes for p, and removes what has to make room for them.
func (d *Dir) reserve(p *dirPart, size int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	files, err := d.walk(p)
	if err != nil {
		return err
	}
	slices.SortFunc(files, func(a, b storedFile) int {
		return cmp.Or(a.used.Compare(b.used), strings.Compare(a.path, b.path))
	})
	folder := filepath.Dir(p.path)
	own := func(f storedFile) bool { return f.folder == folder }
	all := func(storedFile) bool { return true }
	limit := quotaLimit{"files of one identity", "MaxIdentityFiles", int64(defaulted(d.MaxIdentityFiles, defaultIdentityFiles))}
	if files, err = limit.enforce(files, own, func(storedFile) int64 { return 1 }, 1); err != nil {
		return err
	}
	bytes := func(f storedFile) int64 { return f.size }
	limit = quotaLimit{"bytes of one identity", "MaxIdentityBytes", defaulted(d.MaxIdentityBytes, defaultIdentityBytes)}
	if files, err = limit.enforce(files, own, bytes, size); err != nil {
		return err
	}
	limit = quotaLimit{"bytes", "MaxBytes", defaulted(d.MaxBytes, defaultStoreBytes)}
	if _, err = limit.enforce(files, all, bytes, size); err != nil {
		return err
	}
	p.reserved = size
	d.open[p.path] = p
	return nil
}

// quotaLimit is one limit of a Dir; max is negative when there is none.
type quotaLimit struct {
	what, setting string
	max           int64
}

// enforce removes contents and parts that nobody writes, the least recently used first, until need more fits among the
// files that count. It returns the files that are left.
func (l quotaLimit) enforce(files []storedFile, counts func(storedFile) bool, weight func(storedFile) int64, need int64) ([]storedFile, error) {
	if l.max < 0 {
		return files, nil
	}
	total := int64(0)
	for _, f := range files {
		if counts(f) {
			total += weight(f)
		}
	}
	if need > l.max {
		return files, l.full(total, need)
	}
	left := files[:0:0]
	for _, f := range files {
		if total+need > l.max && counts(f) && f.evict() == nil {
			total -= weight(f)
			continue
		}
		left = append(left, f)
	}
	if total+need > l.max {
		return left, l.full(total, need)
	}
	return left, nil
}

// evict removes a file that makes room for another.
func (f storedFile) evict() error {
	switch {
	case f.blob:
		return os.Remove(f.path)
	case f.open:
		return ErrPartBusy
	}
	return removeUnlocked(f.path)
}

func (l quotaLimit) full(total, need int64) error {
	return fmt.Errorf("%w: %d %s are stored and %d more do not fit into %s = %d", ErrStoreFull, total, l.what, need, l.setting, l.max)
}

// walk lists what is stored, but for p, and removes expired parts and empty folders.
func (d *Dir) walk(p *dirPart) ([]storedFile, error) {
	folders, err := os.ReadDir(d.path)
	if err != nil {
		return nil, err
	}
	var files []storedFile
	for _, folder := range folders {
		if !folder.IsDir() {
			continue
		}
		path := filepath.Join(d.path, folder.Name())
		entries, err := os.ReadDir(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if len(entries) == 0 {
			_ = os.Remove(path)
		}
		for _, e := range entries {
			if f, ok := d.stored(path, e); ok && f.path != p.path {
				files = append(files, f)
			}
		}
	}
	return files, nil
}

// stored describes one entry of an identity's folder; it is false for what is none of ours or has expired.
func (d *Dir) stored(folder string, e fs.DirEntry) (storedFile, bool) {
	f := storedFile{path: filepath.Join(folder, e.Name()), folder: folder}
	_, f.blob = blobDigest(e.Name())
	info, err := e.Info()
	if err != nil || !info.Mode().IsRegular() || !f.blob && !strings.HasSuffix(e.Name(), partSuffix) {
		return f, false
	}
	f.size, f.used = info.Size(), info.ModTime()
	var p *dirPart
	if p, f.open = d.open[f.path]; p != nil {
		f.size = max(f.size, p.reserved)
	}
	expired := !f.blob && !f.open && d.expired(time.Since(f.used))
	if expired && removeUnlocked(f.path) == nil {
		return f, false
	}
	return f, true
}

// removeUnlocked removes a part that no process has open.
func removeUnlocked(path string) error {
	f, err := openLocked(path)
	if err != nil {
		return err
	}
	return removeOpen(f, path)
}

func (d *Dir) expired(unused time.Duration) bool {
	if d.PartExpiry == 0 {
		return unused > defaultPartExpiry
	}
	return d.PartExpiry > 0 && unused > d.PartExpiry
}
