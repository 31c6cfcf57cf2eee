//go:build !windows

package files

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// tryLock locks the file with descriptor fd.
func tryLock(fd uintptr) error {
	err := unix.Flock(int(fd), unix.LOCK_EX|unix.LOCK_NB)
	if err == unix.EWOULDBLOCK {
		return ErrLocked
	}
	return err
}

// SyncFolder makes the names in a folder durable. It returns nil if the file system does not
// support this.
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

// IsMine reports whether a folder belongs to the user who runs this program.
//
// On a file system without owners, such as FAT, all files belong to the user who mounted it,
// including files that this program creates. IsMine then returns true.
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

// owner returns the user ID of a file's owner.
func owner(info fs.FileInfo) int { return int(info.Sys().(*syscall.Stat_t).Uid) }
