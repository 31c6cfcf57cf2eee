package files

import "golang.org/x/sys/unix"

// Mounted reports whether something is mounted at a path. If so, nothing can be renamed to or
// from the path. Before Linux 5.8, it returns false.
func Mounted(path string) bool {
	var s unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, 0, &s)
	return err == nil && s.Attributes&s.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0
}
