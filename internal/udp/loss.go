package udp

import (
	"errors"
	"slices"
	"syscall"
)

// IsLoss reports whether the error of a write says only that a packet could not be sent
// now: because the machine is between two networks, has none, or has a firewall. The packet
// counts as lost on the path. After a read with such an error, the next read may succeed.
func IsLoss(err error) bool {
	no, ok := errors.AsType[syscall.Errno](err)
	return ok && slices.Contains(losses, no)
}
