//go:build !windows

package vault

import "syscall"

// Flags for opening files: do not wait for a pipe's other end, and do not follow a link.
const (
	nonBlock = syscall.O_NONBLOCK
	noFollow = syscall.O_NOFOLLOW
)
