package tree

import (
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

// nonBlock is nothing: Windows has no pipes among its files.
const nonBlock = 0

// inode is nothing either: size and time tell whether a file changed.
func inode(fs.FileInfo) uint64 { return 0 }

// lock locks a file until it is closed, or fails when another process has it locked.
func lock(f *os.File) error {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	return windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, new(windows.Overlapped))
}
