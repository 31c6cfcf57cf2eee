//go:build unix

package udp

import "syscall"

// losses are the errors of a packet that the system refuses to send now, although it may take the next one. EPERM and EACCES are those of
// firewalls, EINVAL that of routes which swallow packets, and of a source address that the machine has no longer, ECONNABORTED that of a network
// which went and took the socket's port along. Tunnels say EDESTADDRREQ, WireGuard's without an endpoint, and ESRCH, IPsec's without a key.
var losses = []syscall.Errno{
	syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.ENETDOWN, syscall.EHOSTDOWN, syscall.EADDRNOTAVAIL, syscall.ENODEV, syscall.ENXIO,
	syscall.ECONNREFUSED, syscall.ECONNABORTED, syscall.EDESTADDRREQ, syscall.ESRCH, syscall.EPERM, syscall.EACCES, syscall.EINVAL, syscall.ENOBUFS, syscall.ENOMEM,
}

// TooLong is the error that Windows has for a read of a datagram which is longer than the buffer; here none says so.
const TooLong = syscall.EMSGSIZE
