package stream

import (
	"math"
	"time"

	"github.com/quivernet/quiver/internal/slices"
)

const (
	// firstCredit is the credit with which a transfer starts, unless it's smaller than that or
	// memory is short. It's three times the bandwidth-delay product of 100 Mbit/s and 100 ms,
	// which is 1.25 MB. A part that is lost twice arrives two round trips late, and all parts
	// after it have to wait for it at the receiver.
	firstCredit = 4 << 20
	// freeShare says which part of the free memory a transfer may start with if that is more
	// than firstCredit: one eighth. The reserved half of MaxMemory doesn't count as free. By
	// default, this gives up to 16 MiB, over twice the product of 1 Gbit/s and 50 ms. Doubling
	// from 4 MiB would take longer to get there than the path's window takes to grow.
	freeShare = 8
	// sliceRounding is the most memory that chunks take on top of the payload of their parts, at
	// both ends. Each has a header, and its last slice may not be full.
	sliceRounding = 2 * slices.Places * (maxPartHeader + slices.Size)
	// progressInterval is how often the receiver reports what it has consumed while it has no
	// credit to grant.
	progressInterval = 100 * time.Millisecond
)

// A credit is the flow control of a transfer, at the receiver. Much like TCP's receive window, it
// limits how far the sender may be ahead of the application. Nothing else can slow a sender
// down.
//
// This distance starts small and doubles for as long as the application keeps up with the path.
// Guarded by incoming.mu.
type credit struct {
	ahead    int64 // how far the sender may be ahead of consumed; the account has promised that memory
	maxAhead int64 // maximum of ahead
	limit    int64 // offset up to which the sender may send
	consumed int64 // offset up to which the application has consumed everything

	// The application's speed is measured each time it has consumed half of ahead. These are
	// consumed and the time at the last measurement.
	mark     int64
	markTime time.Time

	// consumed in the newest grant, and when that was sent.
	reported     int64
	reportedTime time.Time
}

// newCredit returns the credit of a transfer that starts at offset base. The account must have
// promised the memory for ahead already.
func newCredit(now time.Time, base, ahead, maxAhead int64) credit {
	return credit{
		ahead: ahead, maxAhead: maxAhead, limit: base + ahead, consumed: base,
		mark: base, markTime: now, reported: base, reportedTime: now,
	}
}

// consume is called when the application has consumed everything before offset below. It
// reports whether a grant has become due.
func (c *credit) consume(below int64) bool {
	c.consumed = below
	return c.due()
}

// due reports whether a grant is worth a message.
func (c *credit) due() bool {
	owed := c.consumed + c.ahead - c.limit
	left := c.limit - c.consumed
	isLarge := owed >= c.ahead/4
	isUrgent := owed > 0 && left < maxElementBytes // the sender might not have enough for a part
	return isLarge || isUrgent
}

// next returns the limit to send to the sender. ok is false if there is no need to tell it
// anything now.
//
// growTime returns how quickly the application must consume half of ahead for ahead to double.
// cover is asked for the memory, and returns false if there isn't enough.
func (c *credit) next(
	now time.Time, growTime func() time.Duration, cover func(ahead int64) bool,
) (limit int64, ok bool) {
	if c.consumed-c.mark >= c.ahead/2 {
		more := min(2*c.ahead, c.maxAhead)
		keepsUp := now.Sub(c.markTime) <= growTime()
		if c.ahead < more && keepsUp && cover(more) {
			c.ahead = more
		}
		c.mark = c.consumed
		c.markTime = now
	}

	limit = c.consumed + c.ahead
	reportDue := c.consumed != c.reported && now.Sub(c.reportedTime) >= progressInterval
	if !c.due() && !reportDue {
		return 0, false
	}
	c.limit = max(c.limit, limit) // a grant can't be taken back
	c.reported = c.consumed
	c.reportedTime = now
	return c.limit, true
}

// idleTime is how long a sender may leave memory unused that was promised to it, before others
// may have that memory.
const idleTime = 30 * time.Second

// A usage measures how much of its credit a sender really uses: the bytes that have arrived in
// order lately, which is within the last one to two idleTimes. Until the first idleTime has
// passed we can't know, so we assume that it uses all of it.
//
// The usage of a transfer is guarded by incoming.mu. That of a sliceRoute is only used on the
// world's goroutine.
type usage struct {
	lastArrival time.Time // when something last arrived in order, or else when the transfer began

	// We count over two windows of at least an idleTime each: the current one and the one
	// before.
	windowStart time.Time // when the current window began
	startOffset int64     // where the content in order ended at that time
	previous    int64     // bytes that arrived in the previous window; huge if there was none
}

// newUsage returns the usage of a transfer that starts at offset at.
func newUsage(now time.Time, at int64) usage {
	return usage{lastArrival: now, windowStart: now, startOffset: at, previous: math.MaxInt64 / 2}
}

// move is called when content in order, which ended at offset from, has grown to offset to.
func (u *usage) move(now time.Time, from, to int64) {
	if to > from {
		u.rollWindow(now, from)
		u.lastArrival = now
	}
}

// recent returns how many bytes have arrived lately. end is the offset at which the content in
// order ends.
func (u *usage) recent(now time.Time, end int64) int64 {
	u.rollWindow(now, end)
	return u.previous + end - u.startOffset
}

// rollWindow begins a new window if the current one has lasted long enough.
func (u *usage) rollWindow(now time.Time, end int64) {
	lasted := now.Sub(u.windowStart)
	if lasted < idleTime {
		return
	}
	u.previous = end - u.startOffset
	if lasted >= 2*idleTime {
		// All of it arrived in the window's first idleTime, or else a later arrival would have
		// ended the window. By now it's too old to count.
		u.previous = 0
	}
	u.windowStart = now
	u.startOffset = end
}
