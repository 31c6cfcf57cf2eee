package bunch

// receiveUnreliable takes an unreliable bunch of the packet with a number. Unreliable bunches of a channel leave once and in
// the order of their messages, so packet numbers, which never wrap, tell which UnreliableSequenced message is the newer
// one; within a packet the later bunch is.
func (c *Conn) receiveUnreliable(ch *channel, number uint64, h header, payload []byte, size int) error {
	if ch.number == 0 {
		return violation(BunchBadChannelIndex, "an unreliable bunch on the control channel")
	}
	if !ch.opened {
		c.stats.DroppedBeforeOpen++
		return nil
	}
	last := number // packet of the message
	if h.delivery() == UnreliableSequenced && number < ch.newest {
		c.stats.DroppedLate++
		return nil
	}
	if h.inParts() {
		var whole []byte
		var err error
		if whole, last, err = c.assemble(ch, number, h, payload); whole == nil || err != nil {
			return err
		}
		payload, size = whole, len(whole)
	}
	if len(payload) > c.limits.MaxBunch {
		return violation(PartialTooLarge, "channel %d: a message of %d bytes, at most %d (MaxBunch)", ch.number, len(payload), c.limits.MaxBunch)
	}
	if h.delivery() == UnreliableSequenced {
		ch.newest = last
	}
	if !c.deliverUnreliable(ch, Message{Delivery: h.delivery(), Payload: payload}, size) {
		c.stats.DroppedUnreliable++
	}
	return nil
}

// deliverUnreliable hands out a message that no limit of the peer's is charged with; false when too many wait, for the owner
// does not fetch them.
func (c *Conn) deliverUnreliable(ch *channel, m Message, size int) (fits bool) {
	cost := unreliablePrice(1, len(m.Payload))
	if c.parked+c.waitingUnreliable+cost > maxParked {
		return false
	}
	c.waitingUnreliable += cost
	s := slot{flags: flagWhole}
	c.keep(&s, m.Payload, size)
	m.Payload, m.pinned = s.payload, s.pinned
	c.deliver(ch, &m)
	return true
}
