//go:build !unix && !windows

package udp

import "syscall"

// losses is empty, because the errors of these systems are not known.
var losses []syscall.Errno

// TooLong is the error of a read of a datagram that is longer than the buffer
// on Windows. Other systems return none for it.
const TooLong = syscall.EMSGSIZE
