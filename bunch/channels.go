package bunch

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/quivernet/quiver/internal/words"
)

// channels holds the channels of a connection. Since channel numbers are never reused, each of
// the peer's channels is unseen, open or closed.
type channels struct {
	open   map[uint64]*channel
	last   *channel // the channel that find last returned; nil if it has been removed
	peak   int      // maximum size of open since it was allocated
	limit  int      // maximum number of its own channels that each side may have open
	refuse Code     // NoError if the peer may open channels

	// Channels of this side.
	ourNext uint64 // number of the next channel
	ours    int    // how many are open

	// Channels of the peer.
	peerNext uint64   // one after the largest number seen
	theirs   int      // how many are open, not counting those the peer has closed
	unseen   []uint32 // numbers below peerNext that we haven't seen yet, ascending
}

func newChannels(client bool, limit int) channels {
	c := channels{open: make(map[uint64]*channel), limit: limit, ourNext: 2, peerNext: 1}
	if client {
		c.ourNext, c.peerNext = 1, 2
	}
	c.open[0] = &channel{priority: High, opened: true}
	return c
}

// find returns the open channel with this number, or nil. It remembers the last result, because
// most bunches are for the same channel as the one before, and the map is rarely in the CPU's
// cache.
func (c *channels) find(number uint64) *channel {
	if c.last == nil || c.last.number != number {
		c.last = c.open[number]
	}
	return c.last
}

// exhausted reports whether we have no channel numbers left.
func (c *channels) exhausted() bool { return c.ourNext > maxChannelNumber }

// create opens our next channel.
func (c *channels) create(p Priority) (*channel, error) {
	if c.exhausted() {
		return nil, fmt.Errorf("bunch: all channel numbers up to %d are used up", maxChannelNumber)
	}
	if c.ours >= c.limit {
		return nil, fmt.Errorf("bunch: %s open; the limit is %d (MaxChannels): close one first",
			words.Plural(c.ours, "channel is", "channels are"), c.limit)
	}
	ch := &channel{number: c.ourNext, priority: p, ours: true, opened: true}
	c.open[ch.number] = ch
	c.ourNext += 2
	c.ours++
	return ch, nil
}

// wasClosed is called when a bunch is for a channel that isn't open. It reports whether the channel
// was closed. If it wasn't, the peer may open it.
//
// A bunch for a channel of ours that we never opened is a violation. So is one for a channel of the
// peer's if the peer may not open any.
func (c *channels) wasClosed(number uint64) (closed bool, err error) {
	if c.isOurs(number) {
		if c.isUnseen(number) {
			return false, violation(BunchBadChannelIndex, "channel %d is not open", number)
		}
		return true, nil
	}
	if c.refuse != NoError {
		return false, violation(c.refuse, "channel %d: the peer may not open channels", number)
	}
	return !c.isUnseen(number), nil
}

// isUnseen reports whether a channel was never open.
func (c *channels) isUnseen(number uint64) bool {
	switch {
	case number == 0:
		return false
	case c.isOurs(number):
		return number >= c.ourNext
	case number >= c.peerNext:
		return true
	}
	_, unseen := slices.BinarySearch(c.unseen, uint32(number))
	return unseen
}

// accept opens a channel of the peer's that has never been open.
func (c *channels) accept(number uint64) (*channel, error) {
	if err := c.checkLimit(number); err != nil {
		return nil, err
	}
	if i, ok := slices.BinarySearch(c.unseen, uint32(number)); ok {
		c.unseen = slices.Delete(c.unseen, i, i+1)
	}
	for ; c.peerNext < number; c.peerNext += 2 {
		// A bunch for this channel may still arrive.
		c.unseen = append(c.unseen, uint32(c.peerNext))
	}
	c.peerNext = max(c.peerNext, number+2)
	ch := &channel{number: number, priority: Normal}
	c.open[number] = ch
	c.theirs++
	return ch, nil
}

// checkLimit returns an error if opening this channel would give the peer more channels than a
// correct peer can have.
//
// A number that the peer skipped counts as open, because the first bunch of that channel must be
// in flight.
//
// There's a separate limit for channels that linger because our close hasn't been acknowledged.
// The peer removes a channel once it has received our close and the ack of its own close, so it
// may have removed a lingering channel while its ack of our close is still in flight.
func (c *channels) checkLimit(number uint64) error {
	lingering := len(c.open) - 1 - c.ours - c.theirs
	held := c.theirs + len(c.unseen)
	if number >= c.peerNext {
		held += int(number-c.peerNext)/2 + 1
	}
	switch {
	case held > c.limit:
		return violation(BunchBadChannelIndex,
			"channel %d: %s open, including %s; the limit is %d (MaxChannels)",
			number, words.Plural(held, "channel is", "channels are"),
			words.Plural(held-c.theirs, "skipped number", "skipped numbers"), c.limit)
	case lingering >= c.limit:
		return violation(BunchBadChannelIndex, "channel %d: %s unacknowledged; the limit is %d (MaxChannels)",
			number, words.Plural(lingering, "close is", "closes are"), c.limit)
	}
	return nil
}

func (c *channels) isOurs(number uint64) bool { return number&1 == c.ourNext&1 }

// peerClosed is called when the peer's close of ch has been processed.
func (c *channels) peerClosed(ch *channel) {
	if !ch.ours {
		c.theirs--
	}
}

// retire removes ch, provided that both sides have closed it and everything on it is acknowledged,
// and reports whether it did.
func (c *channels) retire(ch *channel) bool {
	// If the peer has closed the channel, so have we, because receiveClose answers at once.
	if !ch.inClosed || ch.first != ch.next || c.open[ch.number] == nil {
		return false
	}
	c.peak = max(c.peak, len(c.open))
	delete(c.open, ch.number)
	c.last = nil
	if ch.ours {
		c.ours--
	}
	if c.peak > minPeak && len(c.open) < c.peak/4 {
		c.shrink()
	}
	return true
}

// minPeak is the size up to which the map of channels is never replaced, because it's small anyway.
const minPeak = 64

// shrink replaces the map with a smaller one, because a map never frees the memory that it once
// needed.
func (c *channels) shrink() {
	fewer := make(map[uint64]*channel, len(c.open))
	maps.Copy(fewer, c.open)
	c.open, c.peak = fewer, len(fewer)
}

// maxUnanswered is the maximum number of our channel closes that a peer may leave unanswered for
// longer than Config.IdleTimeout. We keep 582 bytes for each of them, which is 4.5 MiB in all.
//
// A correct peer doesn't answer while its world is stuck in a tick. If its receive limit is 4
// MiB, it can't leave that many unanswered, because each close takes 657 bytes of the limit until
// the peer's owner takes the message, so no more than 6,384 closes can arrive
// (TestClosesDuringALongTick). With a higher limit, such as the default of package rpc, there can
// be more, but the peer answers them as soon as it ticks. It's therefore only a violation to
// exceed maxUnanswered for longer than the IdleTimeout.
const maxUnanswered = 8192

// unansweredCloses counts the channels that we have closed and that the peer has fully
// acknowledged, but whose close it hasn't answered. We can't remove these channels until it does.
type unansweredCloses struct {
	count int
	since time.Duration // when count last rose above maxUnanswered
}

// add counts another channel.
func (u *unansweredCloses) add(now time.Duration) {
	u.count++
	if u.count == maxUnanswered+1 {
		u.since = now
	}
}

// remove is called when the peer answers a close that was counted.
func (u *unansweredCloses) remove() { u.count-- }

// timeoutAt returns when count will have exceeded maxUnanswered for the duration of timeout.
func (u *unansweredCloses) timeoutAt(timeout time.Duration) time.Duration {
	if u.count <= maxUnanswered {
		return never
	}
	return u.since + timeout
}
