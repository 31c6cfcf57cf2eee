package udp

import (
	"syscall"

	"golang.org/x/sys/windows"
)

// losses are the errors with which the system refuses to send a packet although it may send the
// next one.
var losses = []syscall.Errno{
	windows.WSAENETUNREACH, windows.WSAEHOSTUNREACH, windows.WSAENETDOWN, windows.WSAEHOSTDOWN,
	windows.WSAEADDRNOTAVAIL, windows.WSAENETRESET, windows.WSAECONNRESET, windows.WSAECONNREFUSED,
	windows.WSAEACCES, windows.WSAEINVAL, windows.WSAENOBUFS,
}

// TooLong is the error of reading a datagram longer than the buffer. The datagram is lost.
const TooLong = windows.WSAEMSGSIZE
