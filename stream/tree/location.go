package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// A location says where an entry of the manifest is on this machine. Names below a root are only
// ever opened through the root, so no link can lead a scan out of the folder.
type location struct {
	root  *os.Root
	name  string // path below root, with slashes; "." is root itself
	entry string // path in the manifest
}

// openRoot opens the folder at p or, if p is a file, the folder that contains it. If p is a link,
// openRoot follows it but names the entry after the link. modified is the modification time of
// the file or folder.
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

// nanoseconds converts t to the form that a manifest stores. Times outside of the years 1677 to
// 2262 are clamped, because an int64 of nanoseconds can't represent them.
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

// String returns the path on this machine.
func (l location) String() string { return filepath.Join(l.root.Name(), filepath.FromSlash(l.name)) }

// open opens a regular file for reading. It doesn't block even if a pipe has taken the file's
// place, and returns ErrChanged if what is there now isn't a regular file.
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

// checkRoot returns an error if a scanned folder is no longer at its path. If another folder has
// taken its place, the error is ErrChanged, because the new folder may have files that the walk
// didn't see.
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

// checkSame returns errReplaced if the folder that the walk entered is gone or was replaced with
// something else.
func (l location) checkSame(entered fs.FileInfo) error {
	there, err := l.root.Lstat(l.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errReplaced
	case err != nil:
		return fmt.Errorf("%s: %w", l, reason(err))
	case !os.SameFile(entered, there):
		return errReplaced
	}
	return nil
}
