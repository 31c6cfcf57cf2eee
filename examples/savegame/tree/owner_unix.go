//go:build !windows

package tree

import (
	"io/fs"
	"os"
	"syscall"
)

// isMine reports whether a folder is of who runs this program, as far as its file system has owners: FAT says of all files that they are
// of who has mounted it, those that we make there as well.
func isMine(folder string, info fs.FileInfo) bool {
	if owner(info) == os.Geteuid() {
		return true
	}
	f, err := os.CreateTemp(folder, "owner")
	if err != nil {
		return false
	}
	defer os.Remove(f.Name())
	defer f.Close()
	made, err := f.Stat()
	return err == nil && owner(made) == owner(info)
}

func owner(info fs.FileInfo) int { return int(info.Sys().(*syscall.Stat_t).Uid) }
