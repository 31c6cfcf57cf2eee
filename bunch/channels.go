package bunch

import (
	"slices"
	"sort"
)

// channels knows every channel of a connection. Numbers are never reused, so a number of the peer's is unseen, open or
// closed.
type channels struct {
	open    map[uint64]*channel
	control *channel
	limit   int // open at once, for each opener

	ourNext  uint64 // the next number this side opens
	ours     int    // opened here and not retired
	peerNext uint64 // no number of the peer's from here on was seen
	theirs   int    // opened by the peer, its close not taken yet
	unseen   []span // the peer's numbers below peerNext that were not seen, in order
}

// span is a range of channel numbers of one parity, both ends included.
type span struct{ first, last uint64 }

func newChannels(client bool, limit int) channels {
	c := channels{open: make(map[uint64]*channel), limit: limit, ourNext: 2, peerNext: 1}
	if client {
		c.ourNext, c.peerNext = 1, 2
	}
	c.control = &channel{priority: High, opened: true}
	c.open[0] = c.control
	return c
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

// incoming returns the channel that a bunch of the peer names: nil without an error when it is closed.
func (c *channels) incoming(number uint64) (*channel, error) {
	if ch := c.open[number]; ch != nil {
		return ch, nil
	}
	if c.isOurs(number) {
		if number >= c.ourNext {
			return nil, violation(BunchBadChannelIndex, "channel %d is not open", number)
		}
		return nil, nil
	}
	if !c.takeUnseen(number) {
		return nil, nil
	}
	if err := c.checkLimit(number); err != nil {
		return nil, err
	}
	ch := &channel{number: number, priority: Normal}
	c.open[number] = ch
	c.theirs++
	return ch, nil
}

// checkLimit refuses what an honest peer never reaches. It frees a channel of its own once it has our close, which it gets
// after we took its own; ours may then still wait for its ack, so such ones have a limit of their own. Numbers that it
// skipped are of channels that it holds open.
func (c *channels) checkLimit(number uint64) error {
	lingering := len(c.open) - 1 - c.ours - c.theirs
	switch {
	case c.theirs >= c.limit:
		return violation(BunchBadChannelIndex, "channel %d: more than %d open at once (MaxChannels)", number, c.limit)
	case lingering >= c.limit:
		return violation(BunchBadChannelIndex, "channel %d: %d closed ones wait for an ack (MaxChannels %d)", number, lingering, c.limit)
	case len(c.unseen) > c.limit:
		return violation(BunchBadChannelIndex, "channel %d: %d gaps in the numbers (MaxChannels %d)", number, len(c.unseen), c.limit)
	}
	return nil
}

func (c *channels) isOurs(number uint64) bool { return number&1 == c.ourNext&1 }

// takeUnseen marks the peer's number as seen and reports whether it was new.
func (c *channels) takeUnseen(number uint64) bool {
	if number >= c.peerNext {
		if number > c.peerNext {
			c.unseen = append(c.unseen, span{c.peerNext, number - 2})
		}
		c.peerNext = number + 2
		return true
	}
	i := sort.Search(len(c.unseen), func(i int) bool { return c.unseen[i].last >= number })
	if i == len(c.unseen) || number < c.unseen[i].first {
		return false
	}
	c.split(i, number)
	return true
}

func (c *channels) split(i int, number uint64) {
	s := &c.unseen[i]
	switch {
	case s.first == s.last:
		c.unseen = slices.Delete(c.unseen, i, i+1)
	case number == s.first:
		s.first += 2
	case number == s.last:
		s.last -= 2
	default:
		upper := span{number + 2, s.last}
		s.last = number - 2
		c.unseen = slices.Insert(c.unseen, i+1, upper)
	}
}

// taken notes that the peer's close of ch was processed.
func (c *channels) taken(ch *channel) {
	if !ch.ours {
		c.theirs--
	}
}

// retire forgets a channel that both sides have closed, and reports whether it did.
func (c *channels) retire(ch *channel) bool {
	if ch.number == 0 || !ch.inClosed || !ch.outClosed || ch.first != ch.next || c.open[ch.number] == nil {
		return false
	}
	delete(c.open, ch.number)
	if ch.ours {
		c.ours--
	}
	return true
}
