//go:build !windows

package flock

import "golang.org/x/sys/unix"

func try(fd uintptr) error {
	err := unix.Flock(int(fd), unix.LOCK_EX|unix.LOCK_NB)
	if err == unix.EWOULDBLOCK {
		return ErrHeld
	}
	return err
}
