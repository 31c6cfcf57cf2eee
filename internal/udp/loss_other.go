//go:build !unix && !windows

package udp

import "syscall"

// losses is empty because the errors of these systems are unknown.
var losses []syscall.Errno

// TooLong is the error of reading a datagram longer than the buffer on Windows. Other systems
// return no error for it.
const TooLong = syscall.EMSGSIZE
