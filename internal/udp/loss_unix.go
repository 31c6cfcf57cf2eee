//go:build unix

package udp

import "syscall"

// losses are the errors with which the system refuses to send a packet although it may send the
// next one.
//
// EPERM and EACCES come from firewalls, EINVAL from routes that discard packets and from a source
// address that the machine no longer has, and ECONNABORTED from a network that has disappeared
// along with the socket's port. Tunnels return EDESTADDRREQ (WireGuard without an endpoint) and
// ESRCH (IPsec without a key).
var losses = []syscall.Errno{
	syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.ENETDOWN, syscall.EHOSTDOWN,
	syscall.EADDRNOTAVAIL, syscall.ENODEV, syscall.ENXIO,
	syscall.ECONNREFUSED, syscall.ECONNABORTED, syscall.EDESTADDRREQ, syscall.ESRCH,
	syscall.EPERM, syscall.EACCES, syscall.EINVAL, syscall.ENOBUFS, syscall.ENOMEM,
}

// TooLong is the error of reading a datagram longer than the buffer on Windows. Other systems
// return no error for it.
const TooLong = syscall.EMSGSIZE
