package udp

import "syscall"

// WireGuard returns ENOKEY for an address that is not of a peer.
func init() { losses = append(losses, syscall.ENOKEY) }
