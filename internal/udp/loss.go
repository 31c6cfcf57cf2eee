package udp

import (
	"errors"
	"slices"
	"syscall"
)

// IsLoss reports whether a write error means only that a packet could not be sent now, so that the
// packet counts as lost on the path. The machine may be between two networks, have no network, or
// have a firewall. After a read with such an error, the next read may succeed.
func IsLoss(err error) bool {
	errno, ok := errors.AsType[syscall.Errno](err)
	return ok && slices.Contains(losses, errno)
}
