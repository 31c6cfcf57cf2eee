package bunch

import (
	"maps"
	"slices"
	"time"
)

// channels knows every channel of a connection. Numbers are never reused, so a number of the peer's is unseen, open or
// closed.
type channels struct {
	open  map[uint64]*channel
	last  *channel // the open one that find has found last; nil = none
	peak  int      // the most channels that open has held since it was made anew
	limit int      // how many each side may have open of its own

	ourNext  uint64   // number of the next channel that this side opens
	ours     int      // channels that this side opened and has not retired
	peerNext uint64   // one above the largest number of the peer's that was seen, or its first
	theirs   int      // channels that the peer opened and whose close was not taken
	unseen   []uint32 // the peer's numbers below peerNext that were not seen, in order
	refuse   Code     // NoError: the peer may open channels
}

func newChannels(client bool, limit int) channels {
	c := channels{open: make(map[uint64]*channel), limit: limit, ourNext: 2, peerNext: 1}
	if client {
		c.ourNext, c.peerNext = 1, 2
	}
	c.open[0] = &channel{priority: High, opened: true}
	return c
}

// find returns the open channel with a number, or nil. Most bunches are of the channel of the one before, and a map's memory is cold by then.
func (c *channels) find(number uint64) *channel {
	if c.last == nil || c.last.number != number {
		c.last = c.open[number]
	}
	return c.last
}

// create opens the next channel of this side; nil when too many are open or all numbers were used.
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

// known reports whether the channel with a number that is not open was closed; else the peer may open it. A number of ours that
// this side never opened is a violation, and so is one of the peer's while it may open none.
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

// begin opens the channel with a number of the peer's, which was never open.
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

// checkLimit refuses more channels than an honest peer opens. A number that it skipped counts as open: its first bunch is on the
// way. The peer forgets a channel once it has our close, and our ack of its own. Its ack of our close may then still be on the way,
// so channels that wait for that have a limit of their own.
func (c *channels) checkLimit(number uint64) error {
	lingering := len(c.open) - 1 - c.ours - c.theirs
	held := c.theirs + len(c.unseen)
	if number >= c.peerNext {
		held += int(number-c.peerNext)/2 + 1
	}
	switch {
	case held > c.limit:
		return violation(BunchBadChannelIndex, "channel %d: %d open at once, of %d no bunch came, at most %d (MaxChannels)", number, held, held-c.theirs, c.limit)
	case lingering >= c.limit:
		return violation(BunchBadChannelIndex, "channel %d: %d closed ones wait for an ack (MaxChannels %d)", number, lingering, c.limit)
	}
	return nil
}

func (c *channels) isOurs(number uint64) bool { return number&1 == c.ourNext&1 }

// peerClosed notes that the peer's close of ch was processed.
func (c *channels) peerClosed(ch *channel) {
	if !ch.ours {
		c.theirs--
	}
}

// retire forgets a channel that both sides have closed, and reports whether it did. This side has when the peer has: closed answers at once.
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

// shrink makes the map anew: a map keeps room for the most that it ever held.
func (c *channels) shrink() {
	fewer := make(map[uint64]*channel, len(c.open))
	maps.Copy(fewer, c.open)
	c.open, c.peak = fewer, len(fewer)
}

// maxOwed is how many answers to closes a peer may owe for as long as it likes; each keeps 582 bytes here, 4.5 MiB in all. An
// honest peer whose world hangs in the middle of a tick holds its answers back. With a receive limit of 4 MiB it owes fewer: a
// close takes 657 bytes of that until it is fetched, so no more than 6,384 can arrive (TestClosesDuringALongTick). With a higher limit,
// as rpc has by default, it may owe more, but answers them as soon as it ticks; so owing more is a violation only after Config.IdleTimeout.
const maxOwed = 8192

// owed counts the channels that were closed here and whose every entry the peer has acknowledged: it has our close, and owes its own, without
// which this side cannot forget the channel.
type owed struct {
	count int
	since time.Duration // when count last rose above maxOwed
}

func (o *owed) add(now time.Duration) {
	if o.count++; o.count == maxOwed+1 {
		o.since = now
	}
}

// until returns when the peer has owed too many answers for too long.
func (o *owed) until(patience time.Duration) (time.Duration, bool) {
	return o.since + patience, o.count > maxOwed
}
