package files

import "golang.org/x/sys/unix"

// Exchange swaps what two names of one file system stand for, in one step: files, folders, or one of each. It fails where the system or the
// file system does not know how.
func Exchange(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}
