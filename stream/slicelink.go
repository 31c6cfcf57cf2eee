package stream

import (
	"sync/atomic"

	"github.com/quivernet/quiver/internal/guest"
	"github.com/quivernet/quiver/internal/slices"
)

// sliceProtocol is the first byte of a datagram with a packet of package chunk behind it.
const sliceProtocol = 0x02

// sliceLink is the machine of slices of a connection, whose link drives it. All but the account and news is reached within
// [guest.Drive].
type sliceLink struct {
	*slices.Machine
	account *account
	news    atomic.Bool // for the world's goroutine, which need not take the lock to see that there is none
}

func newSliceLink(account *account) *sliceLink {
	return &sliceLink{account: account, Machine: slices.New(sliceProtocol, account)}
}

// Wake reports, once, that the world's goroutine finds news.
func (l *sliceLink) Wake() bool {
	if !l.Machine.Wake() {
		return false
	}
	l.news.Store(true)
	return true
}

// Drained is always true: a connection that closes does not wait for bulk.
func (l *sliceLink) Drained() bool { return true }

// Copies says that the machine keeps nothing of what it receives.
func (l *sliceLink) Copies() {}

// sliceLink is a machine that the link drives.
var _ guest.Machine = (*sliceLink)(nil)
