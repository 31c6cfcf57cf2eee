package files

import (
	"io/fs"

	"golang.org/x/sys/windows"
)

// tryLock locks a byte far behind the end: nobody else can read what is locked.
func tryLock(fd uintptr) error {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(fd), flags, 0, 1, 0, &windows.Overlapped{OffsetHigh: 1 << 30})
	if err == windows.ERROR_LOCK_VIOLATION {
		return ErrLocked
	}
	return err
}

// SyncFolder does nothing: os opens folders only for reading here, and such handles cannot be flushed.
func SyncFolder(string) error { return nil }

// Free returns how many bytes an ordinary user may still write to the disk that a folder is on.
func Free(folder string) (bytes int64, err error) {
	path, err := windows.UTF16PtrFromString(folder)
	if err != nil {
		return 0, err
	}
	var available uint64
	err = windows.GetDiskFreeSpaceEx(path, &available, nil, nil)
	return int64(available), err
}

// IsMine is for folders that all users share, as /tmp, which Windows has not.
func IsMine(string, fs.FileInfo) bool { return true }
