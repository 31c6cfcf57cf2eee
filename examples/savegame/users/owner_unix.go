//go:build !windows

package users

import (
	"io/fs"
	"os"
	"syscall"
)

// keepOwner gives f the owner of another file, unless it has it.
func keepOwner(f *os.File, of fs.FileInfo) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	now, want := info.Sys().(*syscall.Stat_t), of.Sys().(*syscall.Stat_t)
	if now.Uid == want.Uid && now.Gid == want.Gid {
		return nil
	}
	return f.Chown(int(want.Uid), int(want.Gid))
}
