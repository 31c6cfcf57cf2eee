package udp

import "syscall"

// WireGuard says ENOKEY of an address that is no peer's.
func init() { losses = append(losses, syscall.ENOKEY) }
