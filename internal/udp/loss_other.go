//go:build !unix && !windows

package udp

import "syscall"

// losses are not known here.
var losses []syscall.Errno
