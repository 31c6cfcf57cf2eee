package files

import (
	"io/fs"

	"golang.org/x/sys/windows"
)

// tryLock locks a byte far beyond the end of the file, because a locked byte can't be read by other
// processes.
func tryLock(fd uintptr) error {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(fd), flags, 0, 1, 0, &windows.Overlapped{OffsetHigh: 1 << 30})
	if err == windows.ERROR_LOCK_VIOLATION {
		return ErrLocked
	}
	return err
}

// SyncFolder does nothing. On Windows, package os opens folders only for reading, and such
// handles cannot be flushed.
func SyncFolder(string) error { return nil }

// Free returns the number of bytes an ordinary user may still write to the disk of a folder.
func Free(folder string) (bytes int64, err error) {
	path, err := windows.UTF16PtrFromString(folder)
	if err != nil {
		return 0, err
	}
	var available uint64
	err = windows.GetDiskFreeSpaceEx(path, &available, nil, nil)
	return int64(available), err
}

// IsMine returns true. It is for folders shared by all users, such as /tmp, and Windows has
// none.
func IsMine(string, fs.FileInfo) bool { return true }
