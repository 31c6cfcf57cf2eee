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
		return c.deliver(ch, m, cost)
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
		if err := c.deliver(ch, m, cost+end); err != nil {
			return err
		}
		m.Open, cost = false, 0
	}
	return nil
}

// deliver appends a message to the ready list. Unreliable ones cost nothing here: receiveUnreliable has counted them.
func (c *Conn) deliver(ch *channel, m Message, cost int) error {
	m.Channel = ch.number
	ch.opened = ch.opened || m.Open
	switch {
	case m.Delivery >= Unreliable:
	case ch.number == 0:
		if c.waitingControl += cost; c.waitingControl > maxControl {
			return violation(ReceiveLimitExceeded, "%d bytes wait on the control channel, at most %d", c.waitingControl, maxControl)
		}
		m.cost = int32(cost)
	default:
		m.cost = int32(cost)
		c.flow.waiting += uint64(cost)
	}
	c.ready.push(m)
	c.wake = true
	return nil
}

// takeUnordered hands out the unordered message that entry n is part of, when all of it is there though earlier entries
// are missing. One that opens or closes waits for its turn.
func (c *Conn) takeUnordered(ch *channel, n uint64) error {
	if !ch.opened {
		return nil // the open travels first
	}
	first, last, ok := ch.unorderedAround(n)
	if !ok {
		return nil
	}
	for n := first; n <= last; n++ {
		s := ch.in.at(n)
		if err := c.take(ch, &c.loose, s); err != nil {
			return err
		}
		*s = slot{state: taken}
	}
	return nil
}

// unorderedAround returns the entries of the message that n is part of; not ok while some are missing.
func (ch *channel) unorderedAround(n uint64) (first, last uint64, ok bool) {
	first, last = n, n
	for ch.in.at(first).flags&flagBegin == 0 {
		if first == ch.expected || !ch.looseAt(first-1) {
			return 0, 0, false
		}
		first--
	}
	for ch.in.at(last).flags&flagEnd == 0 {
		if last+1-ch.expected == uint64(len(ch.in.slots)) || !ch.looseAt(last+1) {
			return 0, 0, false
		}
		last++
	}
	return first, last, ch.looseAt(n)
}

// looseAt reports whether entry n is there and may overtake others.
func (ch *channel) looseAt(n uint64) bool {
	s := ch.in.at(n)
	return s.state == full && s.flags&(deliveryMask|flagOpen|flagClose) == byte(ReliableUnordered)
}

// Next returns the next complete message; what it returns counts as consumed.
func (c *Conn) Next() (Message, bool) {
	var one [1]Message
	n := c.Take(one[:])
	return one[0], n == 1
}

// Ready returns how many complete messages wait for Next or Take.
func (c *Conn) Ready() int { return c.ready.len() }

// takeBytes is what one Take hands out at most, one message aside: what an owner has taken is charged no more, so that one
// that stops in the middle must not hold much.
const takeBytes = 16 << 10

// Take moves at most len(into) complete messages, the oldest first, and returns how many: fewer as soon as they have 16 KiB,
// but always one when there is one. They count as consumed; what is left waits here, and holds the peer up once it is as much
// as may wait (see [Config].ReceiveLimit).
func (c *Conn) Take(into []Message) int {
	n, size, cost := 0, 0, 0
	for n < len(into) && c.ready.len() > 0 {
		if size += len(c.ready.peek().Payload); n > 0 && size > takeBytes {
			break
		}
		into[n] = c.ready.pop()
		cost += c.fetched(&into[n])
		n++
	}
	if cost > 0 {
		c.consume(uint64(cost))
	}
	return n
}

// fetched takes a message that leaves the ready list off what waits, and returns what it costs of the peer's limit.
func (c *Conn) fetched(m *Message) int {
	switch {
	case m.Delivery >= Unreliable:
		c.waitingUnreliable -= unreliableCost(*m)
	case m.Channel == 0:
		c.waitingControl -= int(m.cost)
	default:
		return int(m.cost)
	}
	return 0
}

func unreliableCost(m Message) int { return entryCost + len(m.Payload) }
