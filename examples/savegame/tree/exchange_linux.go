package tree

import "golang.org/x/sys/unix"

// exchange swaps two names in one step, or fails where the file system does not know how.
var exchange = func(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}
