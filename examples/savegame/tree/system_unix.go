//go:build !windows

package tree

import "syscall"

// nonBlock opens a pipe without waiting for its other end.
const nonBlock = syscall.O_NONBLOCK
