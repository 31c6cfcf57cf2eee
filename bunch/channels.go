package bunch

import (
	"maps"
	"slices"
	"time"
)

// channels holds the channels of a connection. Numbers are never reused, so each of the
// peer's numbers is either unseen, open or closed.
type channels struct {
	open  map[uint64]*channel
	last  *channel // the open channel that find returned last; nil = none
	peak  int      // maximum size of open since it was allocated
	limit int      // maximum number of channels of its own that each side may have open

	ourNext  uint64   // number of the next channel that this side opens
	ours     int      // channels that this side opened and has not retired
	peerNext uint64   // number after the peer's largest one seen, or its first number
	theirs   int      // channels opened by the peer whose close has not been processed
	unseen   []uint32 // the peer's unseen numbers below peerNext, ascending
	refuse   Code     // NoError = the peer may open channels
}

func newChannels(client bool, limit int) channels {
	c := channels{open: make(map[uint64]*channel), limit: limit, ourNext: 2, peerNext: 1}
	if client {
		c.ourNext, c.peerNext = 1, 2
	}
	c.open[0] = &channel{priority: High, opened: true}
	return c
}

// find returns the open channel with a number, or nil. It remembers the last one, because
// most bunches belong to the same channel as the previous one and the map is no longer in
// the CPU's cache.
func (c *channels) find(number uint64) *channel {
	if c.last == nil || c.last.number != number {
		c.last = c.open[number]
	}
	return c.last
}

// create opens this side's next channel. It returns nil if too many channels are open or
// all numbers were used.
func (c *channels) create(p Priority) *channel {
	if c.ours >= c.limit || c.ourNext > maxChannelNumber {
		return nil
	}
	ch := &channel{number: c.ourNext, priority: p, ours: true, opened: true}
	c.open[ch.number] = ch
	c.ourNext += 2
	c.ours++
	return ch
}

// known is called with the number of a channel that is not open. It reports whether that
// channel was closed. If it was not, the peer may open it.
//
// It is a violation if the number is one of ours that this side never opened, or one of the
// peer's if the peer may open no channels.
func (c *channels) known(number uint64) (bool, error) {
	if c.isOurs(number) {
		if number >= c.ourNext {
			return false, violation(BunchBadChannelIndex, "channel %d is not open", number)
		}
		return true, nil
	}
	if c.refuse != NoError {
		return false, violation(c.refuse, "channel %d: the peer may open none", number)
	}
	if number >= c.peerNext {
		return false, nil
	}
	_, unseen := slices.BinarySearch(c.unseen, uint32(number))
	return !unseen, nil
}

// begin opens the channel with one of the peer's numbers that was never open.
func (c *channels) begin(number uint64) (*channel, error) {
	if err := c.checkLimit(number); err != nil {
		return nil, err
	}
	if i, ok := slices.BinarySearch(c.unseen, uint32(number)); ok {
		c.unseen = slices.Delete(c.unseen, i, i+1)
	}
	for ; c.peerNext < number; c.peerNext += 2 {
		c.unseen = append(c.unseen, uint32(c.peerNext))
	}
	c.peerNext = max(c.peerNext, number+2)
	ch := &channel{number: number, priority: Normal}
	c.open[number] = ch
	c.theirs++
	return ch, nil
}

// checkLimit returns an error if the peer has more channels open than a correct peer can.
//
// A number that the peer skipped counts as open, because its first bunch is in flight.
//
// The peer forgets a channel once it has received our close and the ack of its own. Its ack
// of our close may still be in flight at that point, so channels waiting for such an ack
// have a separate limit.
func (c *channels) checkLimit(number uint64) error {
	lingering := len(c.open) - 1 - c.ours - c.theirs
	held := c.theirs + len(c.unseen)
	if number >= c.peerNext {
		held += int(number-c.peerNext)/2 + 1
	}
	switch {
	case held > c.limit:
		return violation(BunchBadChannelIndex, "channel %d: %d open at once, of %d no bunch came, at most %d (MaxChannels)",
			number, held, held-c.theirs, c.limit)
	case lingering >= c.limit:
		return violation(BunchBadChannelIndex, "channel %d: %d closed ones wait for an ack (MaxChannels %d)",
			number, lingering, c.limit)
	}
	return nil
}

func (c *channels) isOurs(number uint64) bool { return number&1 == c.ourNext&1 }

// peerClosed records that the peer's close of ch was processed.
func (c *channels) peerClosed(ch *channel) {
	if !ch.ours {
		c.theirs--
	}
}

// retire forgets a channel if both sides have closed it, and reports whether it did. Once
// the peer has closed it, this side has too, because Conn.closed answers at once.
func (c *channels) retire(ch *channel) bool {
	if !ch.inClosed || ch.first != ch.next || c.open[ch.number] == nil {
		return false
	}
	c.peak = max(c.peak, len(c.open))
	delete(c.open, ch.number)
	c.last = nil
	if ch.ours {
		c.ours--
	}
	if c.peak > 64 && len(c.open) < c.peak/4 {
		c.shrink()
	}
	return true
}

// shrink replaces the map by a smaller one. A map never frees the room it once needed.
func (c *channels) shrink() {
	fewer := make(map[uint64]*channel, len(c.open))
	maps.Copy(fewer, c.open)
	c.open, c.peak = fewer, len(fewer)
}

// maxOwed is the number of answers to closes that a peer may owe for any length of time.
// Each keeps 582 bytes here, 4.5 MiB in all.
//
// A correct peer does not answer while its world is stuck in a tick. With a receive limit
// of 4 MiB it owes fewer than maxOwed: a close takes 657 bytes of the limit until the owner
// takes it, so at most 6,384 can arrive (TestClosesDuringALongTick). With a higher limit,
// such as the default of package rpc, it may owe more, but it answers as soon as it ticks.
// Owing more is therefore a violation only after Config.IdleTimeout.
const maxOwed = 8192

// owed counts the channels that this side has closed and the peer has fully acknowledged.
// The peer has received our close for them and owes its own. Until that arrives, this side
// cannot forget the channel.
type owed struct {
	count int
	since time.Duration // when count last rose above maxOwed
}

// add counts a channel.
func (o *owed) add(now time.Duration) {
	o.count++
	if o.count == maxOwed+1 {
		o.since = now
	}
}

// until returns the time at which the peer will have owed too many answers for longer than
// patience. ok is false if it does not owe too many.
func (o *owed) until(patience time.Duration) (time.Duration, bool) {
	return o.since + patience, o.count > maxOwed
}
