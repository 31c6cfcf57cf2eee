package stream

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// renamesOpenFiles says that a file may be renamed and removed while it is open.
const renamesOpenFiles = false

// errSharingViolation is ERROR_SHARING_VIOLATION: somebody else has the file open.
const errSharingViolation = syscall.Errno(32)

// openLocked opens or makes the file at path for this handle alone, or fails with ErrPartBusy.
func openLocked(path string) (*os.File, error) {
	name, err := syscall.UTF16PtrFromString(path)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	handle, err := syscall.CreateFile(name, syscall.GENERIC_READ|syscall.GENERIC_WRITE, 0, nil,
		syscall.OPEN_ALWAYS, syscall.FILE_ATTRIBUTE_NORMAL, 0)
	switch {
	case errors.Is(err, errSharingViolation):
		return nil, ErrPartBusy
	case err != nil:
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(handle), path), nil
}

// syncFolder does nothing: the system keeps no handle to flush a folder by.
func syncFolder(string) error { return nil }
