//go:build !windows

package tree

import (
	"io/fs"
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
