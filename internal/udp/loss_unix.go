//go:build unix

package udp

import "syscall"

// losses are the errors of a packet that the system refuses to send now, although it
// may send the next one. EPERM and EACCES are those of firewalls. EINVAL is that of
// routes that discard packets, and of a source address that the machine no longer has.
// ECONNABORTED is that of a network that is gone, with the socket's port. Tunnels
// return EDESTADDRREQ (WireGuard without an endpoint) and ESRCH (IPsec without a key).
var losses = []syscall.Errno{
	syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.ENETDOWN, syscall.EHOSTDOWN, syscall.EADDRNOTAVAIL, syscall.ENODEV, syscall.ENXIO,
	syscall.ECONNREFUSED, syscall.ECONNABORTED, syscall.EDESTADDRREQ, syscall.ESRCH, syscall.EPERM, syscall.EACCES, syscall.EINVAL, syscall.ENOBUFS, syscall.ENOMEM,
}

// TooLong is the error of a read of a datagram that is longer than the buffer
// on Windows. Other systems return none for it.
const TooLong = syscall.EMSGSIZE
