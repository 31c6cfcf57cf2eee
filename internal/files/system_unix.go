//go:build !windows

package files

import (
	"errors"
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
