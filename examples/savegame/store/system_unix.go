//go:build !windows

package store

import "golang.org/x/sys/unix"

// free returns how many bytes may still be written to the disk that dir is on.
func free(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}
