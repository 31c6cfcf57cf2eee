package udp

import (
	"errors"
	"slices"
	"syscall"
)

// IsLoss reports whether err, of a write, says no more than that a packet could not leave now, as between two networks, where a machine has
// none, or at a firewall. The packet is as good as lost on the way. Of a read it says that the next one may succeed.
func IsLoss(err error) bool {
	no, ok := errors.AsType[syscall.Errno](err)
	return ok && slices.Contains(losses, no)
}
