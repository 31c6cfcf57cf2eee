package bunch

import "sort"

// channels knows every channel of a connection. Numbers are never reused, so a number of the peer's is unseen, open or closed.
type channels struct {
	open     map[uint64]*channel
	control  *channel
	client   bool
	limit    int    // open at once
	ourNext  uint64 // the next number this side opens
	peerNext uint64 // no number of the peer's from here on was seen
	unseen   []span // the peer's numbers below peerNext that were not seen, in order
}

// span is a range of channel numbers of one parity, both ends included.
type span struct{ first, last uint64 }

func newChannels(client bool, limit int) channels {
	c := channels{open: make(map[uint64]*channel), client: client, limit: limit, ourNext: 2, peerNext: 1}
	if client {
		c.ourNext, c.peerNext = 1, 2
	}
	c.control = &channel{priority: High, opened: true}
	c.open[0] = c.control
	return c
}

// create opens the next channel of this side; nil when too many are open.
func (c *channels) create(p Priority) *channel {
	if len(c.open) > c.limit || c.ourNext > maxChannelNumber {
		return nil
	}
	ch := &channel{number: c.ourNext, priority: p, ours: true, opened: true}
	c.open[ch.number] = ch
	c.ourNext += 2
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
	if len(c.open) > c.limit {
		return nil, violation(BunchBadChannelIndex, "channel %d: more than %d open at once (MaxChannels)", number, c.limit)
	}
	ch := &channel{number: number, priority: Normal}
	c.open[number] = ch
	return ch, nil
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
	s := c.unseen[i]
	switch {
	case s.first == s.last:
		c.unseen = append(c.unseen[:i], c.unseen[i+1:]...)
	case number == s.first:
		c.unseen[i].first += 2
	case number == s.last:
		c.unseen[i].last -= 2
	default:
		c.unseen = append(c.unseen, span{})
		copy(c.unseen[i+1:], c.unseen[i:])
		c.unseen[i].last, c.unseen[i+1].first = number-2, number+2
	}
}

// retire forgets a channel that both sides have closed.
func (c *channels) retire(ch *channel) {
	if ch.number != 0 && ch.inClosed && ch.outClosed && ch.first == ch.next {
		delete(c.open, ch.number)
	}
}
