//go:build !windows

package tree

import (
	"io/fs"
	"os"
	"syscall"
)

// nonBlock opens a pipe without waiting for its other end.
const nonBlock = syscall.O_NONBLOCK

// inode returns a file's number.
func inode(info fs.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Ino
	}
	return 0
}

// lock locks a file until it is closed, or fails when another process has it locked.
func lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
