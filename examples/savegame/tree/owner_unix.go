//go:build !windows

package tree

import (
	"io/fs"
	"os"
	"syscall"
)

// isMine reports whether a file is of who runs this program.
func isMine(info fs.FileInfo) bool { return int(info.Sys().(*syscall.Stat_t).Uid) == os.Geteuid() }
