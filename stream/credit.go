package stream

import (
	"math"
	"time"

	"github.com/quivernet/quiver/internal/slices"
)

const (
	// firstCredit is the credit with which a transfer starts, unless the transfer is smaller
	// or memory is short. It is three times the bandwidth-delay product of 100 Mbit/s and 100
	// ms, which is 1.25 MB. A part that is lost twice arrives two round trips late, and
	// meanwhile the parts after it wait at the receiver.
	firstCredit = 4 << 20
	// freeShare is the inverse of the part of the free memory with which a transfer starts, if
	// that is more than firstCredit. Only the memory that is free beyond the reserved half of
	// MaxMemory counts. By default this credit is up to 16 MiB, over twice the product of 1
	// Gbit/s and 50 ms. Credit that doubles from 4 MiB would get there later than the path's
	// window.
	freeShare = 8
	// sliceRounding is the maximum memory that chunks take beyond the payload of their parts,
	// at both ends. Each chunk has a header, and its last slice may not be full.
	sliceRounding = 2 * slices.Places * (maxPartHeader + slices.Size)
	// progressInterval is the time between two reports of what the receiver has consumed,
	// while no credit is due.
	progressInterval = 100 * time.Millisecond
)

// credit is the flow control of a transfer, at its receiver. It decides how far the sender may
// be ahead of the application. The receiver has no other means to slow its sender down. This
// distance doubles while the application keeps up with the path. incoming.mu guards it.
type credit struct {
	ahead    int64 // bytes that the sender may be ahead of consumed; the account has promised memory for them
	maxAhead int64 // maximum of ahead
	limit    int64 // offset up to which the sender may send
	consumed int64 // offset up to which the application has consumed everything

	// The value of consumed, and the time, at next's last measurement of the application's
	// speed. next measures over every half of ahead.
	mark     int64
	markTime time.Time

	// The value of consumed in the newest grant, and the time when it was sent.
	reported     int64
	reportedTime time.Time
}

// newCredit returns the credit of a transfer that begins at offset base. The account must
// already have promised the memory for ahead.
func newCredit(now time.Time, base, ahead, maxAhead int64) credit {
	return credit{
		ahead: ahead, maxAhead: maxAhead, limit: base + ahead, consumed: base,
		mark: base, markTime: now, reported: base, reportedTime: now,
	}
}

// consume is called when the application has consumed everything before offset below. It
// reports whether a grant is due.
func (c *credit) consume(below int64) bool {
	c.consumed = below
	return c.due()
}

// due reports whether a grant is worth a message. It is if it would add a quarter of ahead, or
// if the largest part might exceed the credit that is left.
func (c *credit) due() bool {
	owed := c.consumed + c.ahead - c.limit
	return owed >= c.ahead/4 || owed > 0 && c.limit-c.consumed < maxElementBytes
}

// next returns the limit to grant, if a grant or a report of progress is due now. It doubles
// ahead if half of it was consumed within growTime and cover promises the memory.
func (c *credit) next(
	now time.Time, growTime func() time.Duration, cover func(ahead int64) bool,
) (limit int64, ok bool) {
	if c.consumed-c.mark >= c.ahead/2 {
		more := min(2*c.ahead, c.maxAhead)
		if c.ahead < more && now.Sub(c.markTime) <= growTime() && cover(more) {
			c.ahead = more
		}
		c.mark = c.consumed
		c.markTime = now
	}

	limit = c.consumed + c.ahead
	if !c.due() && (c.consumed == c.reported || now.Sub(c.reportedTime) < progressInterval) {
		return 0, false
	}
	c.limit = max(c.limit, limit)
	c.reported = c.consumed
	c.reportedTime = now
	return c.limit, true
}

// idleTime is the time for which a sender may leave promised memory unused before others may
// get it.
const idleTime = 30 * time.Second

// usage measures how much of its credit a sender needs. That is the number of bytes that
// arrived in order within the last one to two idleTimes. During the first idleTime it is
// unknown, and recent returns a huge number. The usage of a transfer is guarded by
// incoming.mu. That of a sliceRoute is used by the world's goroutine only.
type usage struct {
	moved time.Time // when something last arrived in order, or when the transfer began

	// The current window, which lasts at least idleTime, and the previous one.
	mark   time.Time // when the current window began
	at     int64     // the offset at which the content in order ended at that time
	before int64     // bytes that arrived in the previous window
}

// newUsage returns the usage of a transfer that begins at offset at.
func newUsage(now time.Time, at int64) usage {
	return usage{moved: now, mark: now, at: at, before: math.MaxInt64 / 2}
}

// move is called when the end of the content in order moves from offset from to offset to.
func (u *usage) move(now time.Time, from, to int64) {
	if to > from {
		u.roll(now, from)
		u.moved = now
	}
}

// recent returns the number of bytes that arrived lately. end is the offset at which the
// content in order ends.
func (u *usage) recent(now time.Time, end int64) int64 {
	u.roll(now, end)
	return u.before + end - u.at
}

// roll begins a new window if the current one is over. All bytes of the current window arrived
// in its first idleTime, because a later move would have ended it. After two idleTimes they
// are therefore too old to count.
func (u *usage) roll(now time.Time, end int64) {
	lasted := now.Sub(u.mark)
	if lasted < idleTime {
		return
	}
	u.before = end - u.at
	if lasted >= 2*idleTime {
		u.before = 0
	}
	u.mark = now
	u.at = end
}
