//go:build !windows && !netbsd && !openbsd && !solaris

package files

import "golang.org/x/sys/unix"

// Free returns the number of bytes an ordinary user may still write to the disk of a folder.
func Free(folder string) (bytes int64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(folder, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}
