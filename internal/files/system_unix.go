//go:build !windows

package files

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func tryLock(fd uintptr) error {
	err := unix.Flock(int(fd), unix.LOCK_EX|unix.LOCK_NB)
	if err == unix.EWOULDBLOCK {
		return ErrLocked
	}
	return err
}

// SyncFolder makes the names in a folder durable. It does not blame file systems that cannot do that.
func SyncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	err = f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	return errors.Join(err, f.Close())
}

// IsMine reports whether a folder is of who runs this program, as far as its file system has owners: FAT says of all files that they are
// of who has mounted it, those that we make there as well.
func IsMine(folder string, info fs.FileInfo) bool {
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
