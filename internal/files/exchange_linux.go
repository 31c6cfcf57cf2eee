package files

import "golang.org/x/sys/unix"

// Exchange atomically exchanges two names in one file system: files, folders, or one of each.
// It fails if the system or the file system does not support this.
func Exchange(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}
