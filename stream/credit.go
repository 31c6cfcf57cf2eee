package stream

import (
	"fmt"
	"math"
	"time"

	"github.com/quivernet/quiver/internal/slices"
)

const (
	// firstCredit is the credit with which a transfer starts, unless the transfer is smaller or
	// memory is short. It's three times the bandwidth-delay product of 100 Mbit/s and 100 ms, which
	// is 1.25 MB, because a part that is lost twice arrives two round trips late and all parts
	// after it wait for it at the receiver.
	firstCredit = 4 << 20
	// A transfer may start with 1/freeShare of the free memory if that is more than firstCredit.
	// The reserved half of MaxMemory doesn't count as free. By default, this gives up to 16 MiB,
	// which is more than twice the bandwidth-delay product of 1 Gbit/s and 50 ms. Credit that had
	// to double from 4 MiB would reach this size later than the path's window does.
	freeShare = 8
	// sliceRounding is the maximum memory that chunks use in addition to the payload of their
	// parts, at both ends. Each chunk has a header, and its last slice may not be full.
	sliceRounding = 2 * slices.ReservedRecords * (maxPartHeader + slices.Size)
	// progressInterval is the minimum time between two reports of what the receiver has consumed
	// while it has no credit to grant. A progress bar doesn't need more than ten reports a second.
	progressInterval = 100 * time.Millisecond
)

// A credit is a transfer's flow control at the receiver. Much like TCP's receive window, it
// limits how far the sender may be ahead of the application. Nothing else slows a sender down.
//
// This distance starts small and doubles as long as the application keeps up with the path.
// Guarded by incoming.mu.
type credit struct {
	ahead    int64 // bytes that the sender may be ahead of consumed; the account has promised them
	maxAhead int64 // maximum of ahead
	limit    int64 // offset up to which the sender may send
	consumed int64 // offset up to which the application has consumed everything

	// The application's speed is measured each time it has consumed half of ahead.
	mark     int64     // consumed at the last measurement
	markTime time.Time // time of the last measurement

	reported     int64     // consumed in the newest grant
	reportedTime time.Time // when the newest grant was sent
}

// newCredit returns the credit of a transfer that starts at offset base. The account must already
// have promised the memory for ahead.
func newCredit(now time.Time, base, ahead, maxAhead int64) credit {
	return credit{
		ahead: ahead, maxAhead: maxAhead, limit: base + ahead, consumed: base,
		mark: base, markTime: now, reported: base, reportedTime: now,
	}
}

// consume records that the application has consumed everything before offset, and returns due.
func (c *credit) consume(offset int64) (due bool) {
	c.consumed = offset
	return c.due()
}

// due reports whether the sender can be granted enough to be worth a message.
func (c *credit) due() bool {
	grantable := c.consumed + c.ahead - c.limit
	left := c.limit - c.consumed
	isLarge := grantable >= c.ahead/4
	isUrgent := grantable > 0 && left < maxElementBytes // what is left might not suffice for a part
	return isLarge || isUrgent
}

// unreported reports whether the application has consumed something since the newest grant.
func (c *credit) unreported() bool { return c.consumed != c.reported }

// nextLimit returns the limit to send to the sender, and records it as sent. ok is false if nothing
// needs to be sent.
//
// growTime returns the time within which the application must consume half of ahead for ahead to
// double. nextLimit calls cover to get the memory for that, which returns false if there isn't
// enough.
func (c *credit) nextLimit(
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
	reportDue := c.unreported() && now.Sub(c.reportedTime) >= progressInterval
	if !c.due() && !reportDue {
		return 0, false
	}
	c.limit = max(c.limit, limit) // a grant can't be taken back
	c.reported = c.consumed
	c.reportedTime = now
	return c.limit, true
}

// idleTime is how long a sender may leave promised memory unused before others may have it. It
// equals the default IdleTimeout of package rpc, after which a silent connection ends anyway.
const idleTime = 30 * time.Second

// A usage measures how much of its credit a sender really uses. It counts the bytes that have
// arrived in order within the last one to two idleTimes. Until the first idleTime has passed, the
// sender is assumed to use all of its credit.
//
// The usage of a transfer is guarded by incoming.mu. The usage of a sliceRoute is only used on the
// world's goroutine.
type usage struct {
	lastArrival time.Time // when something last arrived in order, or when the transfer began

	// Bytes are counted in two windows of at least one idleTime each.
	windowStart time.Time // when the current window began
	startOffset int64     // offset at which the content in order ended at that time
	previous    int64     // bytes that arrived in the previous window; huge if there was none
}

// newUsage returns the usage of a transfer that starts at offset.
func newUsage(now time.Time, offset int64) usage {
	return usage{lastArrival: now, windowStart: now, startOffset: offset, previous: math.MaxInt64 / 2}
}

// move is called when the end of the content in order may have moved, from one offset to another.
func (u *usage) move(now time.Time, from, to int64) {
	if to > from {
		u.rollWindow(now, from)
		u.lastArrival = now
	}
}

// measure returns the number of bytes that have arrived recently. end is the offset at which the
// content in order ends.
func (u *usage) measure(now time.Time, end int64) int64 {
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
		// All of these bytes arrived in the window's first idleTime, because a later arrival would
		// have ended the window. They are too old to count.
		u.previous = 0
	}
	u.windowStart = now
	u.startOffset = end
}

// An allowance is a transfer's flow control at the sender. It tracks how much of the content the
// receiver allows it to send, and how much was sent. Only used on the world's goroutine.
type allowance struct {
	// The receiver's answers.
	accepted bool  // it has answered the header
	hasAll   bool  // it has stored all of the content already
	granted  int64 // the limit in its newest message

	limit int64 // end of the content that may be sent: by credit or, before the answer, early
	next  int64 // offset at which the next part begins
}

// accept applies the answer to the header.
func (a *allowance) accept(m accept) {
	a.accepted = true
	a.hasAll = m.hasAll
	a.granted = m.limit
	// The limit may fall, because early bytes that we haven't sent are no longer promised to us.
	a.limit = max(a.next, m.limit)
}

// grant applies the limit of a grant.
func (a *allowance) grant(limit int64) {
	a.granted = limit
	a.limit = max(a.limit, limit)
}

// earlyBytes returns the number of bytes that count as early. size is that of the content, or -1
// while it's unknown. Until the answer arrives, all bytes that may be sent count. Afterwards, only
// bytes sent in excess of the granted credit count.
func (a *allowance) earlyBytes(size int64) int64 {
	switch {
	case a.accepted:
		return max(a.next-a.granted, 0)
	case size >= 0:
		return min(a.limit, size)
	}
	return a.limit
}

// unsentBytes returns the number of bytes that have not been sent, given the size of the content.
// If the size is unknown, it returns firstCredit.
func (a *allowance) unsentBytes(size int64) int64 {
	switch {
	case a.hasAll:
		return 0
	case size < 0:
		return firstCredit
	}
	return max(size-a.next, 0)
}

// An earlyCredit limits the parts that the peer may send early, that is, before we have answered
// their transfers' headers. All transfers of a connection share it.
type earlyCredit struct {
	bytes int64 // bytes of early parts from all transfers
	share int64 // limit that our limits message announced; see Streams.shareEarly
}

// limit returns how many bytes may arrive early. It's at least minPending, because the peer may
// send that many before it learns its share.
func (c *earlyCredit) limit() int64 { return max(c.share, minPending) }

// add counts n more bytes of early parts. It returns an error if the sender has exceeded the limit,
// because that breaks the protocol.
func (c *earlyCredit) add(n int64) error {
	c.bytes += n
	if limit := c.limit(); c.bytes > limit {
		return fmt.Errorf("%w: %d bytes arrived before their headers were answered; the limit is %d",
			errNoCredit, c.bytes, limit)
	}
	return nil
}

// remove stops counting n bytes of early parts.
func (c *earlyCredit) remove(n int64) { c.bytes -= n }
