//go:build !unix && !windows

package udp

import "syscall"

// losses are not known here.
var losses []syscall.Errno

// TooLong is the error that Windows has for a read of a datagram which is longer than the buffer; here none says so.
const TooLong = syscall.EMSGSIZE
