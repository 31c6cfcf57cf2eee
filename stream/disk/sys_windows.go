package disk

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/quivernet/quiver/stream"
)

// renamesOpenFiles is true if this system can rename and remove a file while it is open.
const renamesOpenFiles = false

// errSharingViolation is ERROR_SHARING_VIOLATION, which means that another process
// has the file open.
const errSharingViolation = syscall.Errno(32)

// openStored opens one of the store's files for reading. The caller has checked
// that it is not a link.
func openStored(path string) (*os.File, error) { return os.Open(path) }

// openLocked opens the file at path for this handle alone. It returns stream.ErrPartBusy if
// the file is already open. With os.O_CREATE it creates a missing file.
func openLocked(path string, create int) (*os.File, error) {
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return nil, requireRegular(info, path)
	}
	mode := uint32(syscall.OPEN_EXISTING)
	if create != 0 {
		mode = syscall.OPEN_ALWAYS
	}
	name, err := syscall.UTF16PtrFromString(path)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	handle, err := syscall.CreateFile(name, syscall.GENERIC_READ|syscall.GENERIC_WRITE, 0, nil,
		mode, syscall.FILE_ATTRIBUTE_NORMAL|syscall.FILE_FLAG_OPEN_REPARSE_POINT, 0)
	switch {
	case errors.Is(err, errSharingViolation):
		return nil, stream.ErrPartBusy
	case err != nil:
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(handle), path), nil
}
