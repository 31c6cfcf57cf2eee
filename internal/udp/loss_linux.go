package udp

import "syscall"

// WireGuard returns ENOKEY for an address that doesn't belong to a peer.
func init() { losses = append(losses, syscall.ENOKEY) }
