package disk

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/quivernet/quiver/stream"
)

// renamesOpenFiles says whether this system can rename and remove a file that is open.
const renamesOpenFiles = false

// errSharingViolation is ERROR_SHARING_VIOLATION, the error for a file that somebody has open
// and doesn't share.
const errSharingViolation = syscall.Errno(32)

// openStored opens one of the store's files for reading. The caller has checked that it isn't a
// link.
func openStored(path string) (*os.File, error) { return os.Open(path) }

// openLocked opens the file at path in such a way that nobody else can open it until it's
// closed, so it needs no lock. It returns stream.ErrPartBusy if somebody has it open already.
// create is os.O_CREATE, or 0 if the file must exist.
func openLocked(path string, create int) (*os.File, error) {
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return nil, checkRegular(info, path)
	}
	mode := uint32(syscall.OPEN_EXISTING)
	if create != 0 {
		mode = syscall.OPEN_ALWAYS
	}
	name, err := syscall.UTF16PtrFromString(path)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	// The third argument is the share mode: 0 means none. FILE_FLAG_OPEN_REPARSE_POINT opens a
	// link itself, instead of what it leads to.
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
