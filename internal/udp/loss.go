package udp

import (
	"errors"
	"slices"
	"syscall"
)

// IsLoss reports whether a write error says only that a packet could not be sent now. The
// machine may be between two networks, have no network, or have a firewall. The packet counts
// as lost on the path. After a read with such an error, the next read may succeed.
func IsLoss(err error) bool {
	no, ok := errors.AsType[syscall.Errno](err)
	return ok && slices.Contains(losses, no)
}
