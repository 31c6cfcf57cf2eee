//go:build !windows

package disk

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/quivernet/quiver/internal/files"
	"github.com/quivernet/quiver/stream"
)

// renamesOpenFiles says whether this system can rename and remove a file that is open.
const renamesOpenFiles = true

// noFollow holds the flags that keep us from following a link, or waiting for the other end of a
// pipe, when we open a file.
const noFollow = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// openStored opens one of the store's files for reading.
func openStored(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|noFollow, 0)
}

// openLocked opens the file at path and locks it, until it's closed or the process ends. It
// returns stream.ErrPartBusy if somebody else has it locked. create is os.O_CREATE, or 0 if the
// file must exist.
func openLocked(path string, create int) (*os.File, error) {
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return nil, checkRegular(info, path)
	}
	f, err := os.OpenFile(path, os.O_RDWR|noFollow|create, 0o600)
	if err != nil {
		return nil, err
	}
	err = files.TryLock(f)
	switch {
	case errors.Is(err, files.ErrLocked):
		err = stream.ErrPartBusy
	case err != nil:
		err = &fs.PathError{Op: "lock", Path: path, Err: err}
	default:
		err = checkSame(f, path)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// checkSame returns an error if f is no longer the file at path, or if it's a link, pipe or
// device. Another process may have renamed or removed the file before we locked it.
func checkSame(f *os.File, path string) error {
	locked, err := f.Stat()
	if err != nil {
		return err
	}
	named, err := os.Lstat(path)
	if err != nil || !os.SameFile(locked, named) {
		return stream.ErrPartBusy
	}
	return checkRegular(locked, path)
}
