package bunch

// receiveUnreliable takes an unreliable bunch of packet number. The unreliable bunches of a channel leave once and in the order of
// their messages. So packet numbers, which never wrap, say which of two UnreliableSequenced messages is the newer one; in one packet
// it is the later.
func (c *Conn) receiveUnreliable(ch *channel, number uint64, h header, payload []byte, size int) error {
	if ch.number == 0 {
		return violation(BunchBadChannelIndex, "an unreliable bunch on the control channel")
	}
	if !ch.opened {
		c.stats.DroppedBeforeOpen++
		return nil
	}
	last := number // of the message's packets
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

// deliverUnreliable hands out an unreliable or tracked message. These are not charged to the peer's limit; it returns false when too
// many wait because the owner does not fetch them.
func (c *Conn) deliverUnreliable(ch *channel, m Message, size int) (fits bool) {
	cost := unreliablePrice(1, len(m.Payload))
	if !c.assemblies.fits(cost) {
		return false
	}
	c.assemblies.waiting += cost
	s := slot{flags: flagWhole}
	c.payloads.keep(&s, m.Payload, size)
	m.Payload, m.pinned = s.payload, s.pinned
	c.deliver(ch, &m)
	return true
}
