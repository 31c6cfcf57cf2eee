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

// renamesOpenFiles is true if this system can rename and remove a file while it is open.
const renamesOpenFiles = true

// noFollow has the flags to open a file without following a link or waiting for the
// other end of a pipe.
const noFollow = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// openStored opens one of the store's files for reading.
func openStored(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|noFollow, 0)
}

// openLocked opens the file at path and locks it for this process. It returns
// stream.ErrPartBusy if another process has locked it. With os.O_CREATE it creates a
// missing file. The lock ends when the file is closed or the process ends.
func openLocked(path string, create int) (*os.File, error) {
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return nil, requireRegular(info, path)
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
		err = requireSame(f, path)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// requireSame returns an error if another process renamed or removed the file before this
// process locked it.
func requireSame(f *os.File, path string) error {
	locked, err := f.Stat()
	if err != nil {
		return err
	}
	named, err := os.Lstat(path)
	if err != nil || !os.SameFile(locked, named) {
		return stream.ErrPartBusy
	}
	return requireRegular(locked, path)
}
