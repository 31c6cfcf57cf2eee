package bunch

// maxMessages bounds the small messages of one whole bunch.
const maxMessages = 32

// deliverWhole hands out the messages of a whole bunch.
func (c *Conn) deliverWhole(ch *channel, s *slot) error {
	b, cost := s.payload, entryCost
	if s.pieced {
		b = append(make([]byte, 0, len(b)), b...)
		c.spare.put(s.payload[:0])
	}
	m := Message{Delivery: Delivery(s.flags & deliveryMask), Open: s.flags&flagOpen != 0}
	closes := s.flags&flagClose != 0
	if len(b) == 0 {
		if !closes {
			return violation(BunchDataOverflow, "channel %d: a whole bunch without a message", ch.number)
		}
		m.Close = true
		c.deliver(ch, m, cost)
		return nil
	}
	for count := 1; len(b) > 0; count++ {
		size, n := consumeVarint(b)
		if n == 0 || size > uint64(len(b)-n) || count > maxMessages {
			return violation(BunchDataOverflow, "channel %d: message %d of a whole bunch", ch.number, count)
		}
		if int(size) > c.limits.MaxBunch {
			return violation(PartialTooLarge, "channel %d: a message of %d bytes, at most %d (MaxBunch)", ch.number, size, c.limits.MaxBunch)
		}
		end := n + int(size)
		m.Payload = b[n:end:end]
		b = b[end:]
		m.Close = closes && len(b) == 0
		c.deliver(ch, m, cost+end)
		m.Open, cost = false, 0
	}
	return nil
}

// deliver appends a message to the ready list.
func (c *Conn) deliver(ch *channel, m Message, cost int) {
	m.Channel = ch.number
	if ch.number != 0 && m.Delivery <= ReliableUnordered {
		m.cost = int32(cost)
		c.flow.waiting += uint64(cost)
	}
	c.ready = append(c.ready, m)
	c.wake = true
}

// takeUnordered hands out an unordered message whose entries are all there though earlier entries are missing.
func (c *Conn) takeUnordered(ch *channel, n uint64) error {
	first, last := n, n
	for ch.in.at(first).flags&flagBegin == 0 {
		if first == ch.expected || ch.in.at(first-1).state != full {
			return nil
		}
		first--
	}
	if !ch.opened {
		return nil // the open travels first
	}
	for ch.in.at(last).flags&flagEnd == 0 {
		if last+1-ch.expected >= uint64(len(ch.in.slots)) || ch.in.at(last+1).state != full {
			return nil
		}
		last++
	}
	return c.deliverUnordered(ch, first, last)
}

func (c *Conn) deliverUnordered(ch *channel, first, last uint64) error {
	var r channel // a run of its own beside the channel's ordered one
	r.number, r.opened, r.ours = ch.number, true, ch.ours
	for n := first; n <= last; n++ {
		s := ch.in.at(n)
		if s.flags&(flagOpen|flagClose) != 0 || Delivery(s.flags&deliveryMask) != ReliableUnordered {
			return nil // in order, then
		}
	}
	for n := first; n <= last; n++ {
		s := ch.in.at(n)
		if err := c.process(&r, n, s); err != nil {
			return err
		}
		*s = slot{state: taken}
	}
	return nil
}

// Next returns the next complete message; what it returns counts as consumed.
func (c *Conn) Next() (Message, bool) {
	if c.head == len(c.ready) {
		return Message{}, false
	}
	m := c.ready[c.head]
	c.ready[c.head] = Message{}
	if c.head++; c.head == len(c.ready) {
		c.ready, c.head = c.ready[:0], 0
	}
	if m.cost > 0 {
		c.flow.consume(uint64(m.cost))
	}
	if m.Delivery >= Unreliable {
		c.waitingUnreliable -= unreliableCost(m)
	}
	return m, true
}

// Swap returns all ready messages at once, which count as consumed, and takes into's memory for the next ones.
func (c *Conn) Swap(into []Message) []Message {
	out := c.ready[c.head:]
	c.ready, c.head = into[:0], 0
	c.flow.consume(c.flow.waiting)
	c.waitingUnreliable = 0
	return out
}

func unreliableCost(m Message) int { return entryCost + len(m.Payload) }
