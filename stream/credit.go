package stream

import (
	"math"
	"time"

	"github.com/quivernet/quiver/internal/slices"
)

const (
	// firstCredit is the credit that a transfer starts with, unless the transfer is smaller or memory is short: three times the
	// bandwidth-delay product of 100 Mbit/s and 100 ms, which is 1.25 MB. A part that is lost twice arrives two round trips late, and what
	// follows it waits here meanwhile.
	firstCredit = 4 << 20
	// freeShare is the part of the free memory, beyond the half of MaxMemory that is kept, with which a transfer starts if that is more than
	// firstCredit: up to 16 MiB by default. That is over twice the product of 1 Gbit/s and 50 ms. Credit that doubles from 4 MiB would get there
	// later than the path's window.
	freeShare = 8
	// sliceRounding is the most memory that chunks take beyond the payload of their parts, at both ends: each has a header, and its last slice
	// may not be full.
	sliceRounding = 2 * slices.Places * (maxPartHeader + slices.Size)
	// progressInterval is how often the sender is told what was consumed while no credit is due.
	progressInterval = 100 * time.Millisecond
)

// credit decides, at the receiver, how far ahead of the application the sender may go. That distance doubles while the application keeps up
// with the path. Nothing else lets the receiver slow its sender down. incoming.mu guards it.
type credit struct {
	ahead    int64 // how many bytes the sender may be ahead of consumed; the account has promised memory for them
	most     int64 // the most that ahead grows to
	limit    int64 // offset below which the sender may send
	consumed int64 // offset below which the application has taken all

	// Where and when the application began with the half of ahead whose time decides about growth.
	mark     int64
	markTime time.Time

	// What the newest grant told the sender of consumed, and when.
	reported     int64
	reportedTime time.Time
}

// newCredit begins at base: what lies below takes no credit. The account has promised the memory for ahead.
func newCredit(now time.Time, base, ahead, most int64) credit {
	return credit{
		ahead: ahead, most: most, limit: base + ahead, consumed: base,
		mark: base, markTime: now, reported: base, reportedTime: now,
	}
}

// consume notes that the application took all below that offset, and reports whether a grant is due.
func (c *credit) consume(below int64) bool {
	c.consumed = below
	return c.due()
}

// due reports whether a grant is worth a message: it adds a quarter of ahead, or the largest part might not fit what is left.
func (c *credit) due() bool {
	owed := c.consumed + c.ahead - c.limit
	return owed >= c.ahead/4 || owed > 0 && c.limit-c.consumed < maxElementBytes
}

// next returns the limit to grant, if a grant or a report of progress is due now. It doubles ahead when half of that was consumed
// within growTime and cover has promised the memory.
func (c *credit) next(now time.Time, growTime func() time.Duration, cover func(ahead int64) bool) (limit int64, ok bool) {
	if c.consumed-c.mark >= c.ahead/2 {
		if more := min(2*c.ahead, c.most); c.ahead < more && now.Sub(c.markTime) <= growTime() && cover(more) {
			c.ahead = more
		}
		c.mark, c.markTime = c.consumed, now
	}
	limit = c.consumed + c.ahead
	if !c.due() && (c.consumed == c.reported || now.Sub(c.reportedTime) < progressInterval) {
		return 0, false
	}
	c.limit = max(c.limit, limit)
	c.reported, c.reportedTime = c.consumed, now
	return c.limit, true
}

// idleTime is how long a sender may leave memory that it was promised unused before others, if they need it, get it.
const idleTime = 30 * time.Second

// usage measures how much of its credit a sender needs: the bytes that came in order in the last one to two idleTimes. Before the first one is
// over nobody knows, and recent returns a huge number. incoming.mu guards it in a transfer; the world's goroutine owns that of a sliceRoute.
type usage struct {
	moved time.Time // when something last came in order, or when the transfer began

	// The running window, which lasts at least idleTime, and the one before it.
	mark   time.Time // when the running one began
	at     int64     // where the content in order ended then
	before int64     // bytes that came in the one before
}

func newUsage(now time.Time, at int64) usage {
	return usage{moved: now, mark: now, at: at, before: math.MaxInt64 / 2}
}

// move notes that the content in order ended at one offset, and now ends at another.
func (u *usage) move(now time.Time, from, to int64) {
	if to > from {
		u.roll(now, from)
		u.moved = now
	}
}

// recent returns how many bytes have come lately; the content in order ends at end.
func (u *usage) recent(now time.Time, end int64) int64 {
	u.roll(now, end)
	return u.before + end - u.at
}

// roll begins another window when the running one is over. All that this one brought came in its first idleTime, because a later move would have
// ended it: after 2 idleTimes it is too old to count.
func (u *usage) roll(now time.Time, end int64) {
	lasted := now.Sub(u.mark)
	if lasted < idleTime {
		return
	}
	u.before = end - u.at
	if lasted >= 2*idleTime {
		u.before = 0
	}
	u.mark, u.at = now, end
}
