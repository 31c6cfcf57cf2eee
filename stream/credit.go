package stream

import (
	"time"

	"github.com/quivernet/quiver/internal/slices"
)

const (
	// firstWindow is the credit that a transfer starts with, unless it is smaller or memory is short: three bandwidth-delay products
	// of 100 Mbit/s and 100 ms, 1.25 MB. A part that is lost twice arrives two round trips late, and what follows waits behind it.
	firstWindow = 4 << 20
	// plenty says that a transfer may start with an eighth of the memory that is nobody's yet, beyond the half that is kept, when that is
	// more: 16 MiB by default, two products of 1 Gbit/s and 50 ms and more, which a window that doubles would have later than the path.
	plenty = 8
	// defaultMaxPending is what the credit grows to.
	defaultMaxPending = 16 << 20
	// sliceRounding is what chunks take at the most beyond the payload of their parts: each a header, and the place of a slice
	// that is not full; of both machines that have chunks.
	sliceRounding = 2 * slices.Places * (maxPartHeader + slices.Size)
	// progressInterval is how often consumption is reported though no credit is due.
	progressInterval = 100 * time.Millisecond
)

// credit decides what a sender may send: a window beyond what the application consumed, which doubles while full
// windows are consumed at the pace of the path. It is the receiver's only brake.
type credit struct {
	window   int64 // promised
	max      int64
	limit    int64 // granted, absolute
	consumed int64 // absolute

	// The window that is being measured.
	mark     int64
	markTime time.Time

	reported     int64
	reportedTime time.Time
}

// newCredit begins at base, which is consumed already, with a window that was promised.
func newCredit(now time.Time, base, window, most int64) credit {
	return credit{
		window: window, max: most, limit: base + window, consumed: base,
		mark: base, markTime: now, reported: base, reportedTime: now,
	}
}

// consume notes that the application took all below that offset, and reports whether a grant is due.
func (c *credit) consume(below int64) bool {
	c.consumed = below
	return c.due()
}

// due reports whether to grant now: after a quarter of the window, or when the largest part might not fit what is left.
func (c *credit) due() bool {
	owed := c.consumed + c.window - c.limit
	return owed >= c.window/4 || owed > 0 && c.limit-c.consumed < maxElementBytes
}

// next returns the limit to grant, if one is due now: what it adds is worth a message, or progress is to be reported. The window
// doubles when half of it was consumed within pace, which is 2 RTT or 2 ticks.
func (c *credit) next(now time.Time, pace func() time.Duration, all lender) (limit int64, ok bool) {
	if c.consumed-c.mark >= c.window/2 {
		if c.window < c.max && now.Sub(c.markTime) <= pace() {
			c.grow(all)
		}
		c.mark, c.markTime = c.consumed, now
	}
	limit = c.consumed + c.window
	if !c.due() && (c.consumed == c.reported || now.Sub(c.reportedTime) < progressInterval) {
		return 0, false
	}
	c.limit = max(c.limit, limit)
	c.reported, c.reportedTime = c.consumed, now
	return c.limit, true
}

// lender gives n more bytes of window, or none.
type lender interface{ take(n int64) bool }

func (c *credit) grow(all lender) {
	more := min(c.window, c.max-c.window)
	if all.take(more) {
		c.window += more
	}
}
