package bunch

func (c *Conn) receiveUnreliable(ch *channel, h header, payload []byte, size int) error {
	if ch.number == 0 {
		return violation(BunchBadChannelIndex, "an unreliable bunch on the control channel")
	}
	if !ch.opened {
		c.stats.DroppedBeforeOpen++
		return nil
	}
	if h.delivery() == UnreliableSequenced && !ch.newer(h.sequence) {
		c.stats.DroppedLate++
		return nil
	}
	if h.inParts() {
		whole, err := c.assemble(ch, h, payload)
		if whole == nil || err != nil {
			return err
		}
		payload, size = whole, len(whole)
	}
	if len(payload) > c.limits.MaxBunch {
		return violation(PartialTooLarge, "channel %d: a message of %d bytes, at most %d (MaxBunch)", ch.number, len(payload), c.limits.MaxBunch)
	}
	if h.delivery() == UnreliableSequenced {
		ch.newest, ch.sequenced = h.sequence, true
	}
	return c.deliverUnreliable(ch, Message{Delivery: h.delivery(), Payload: payload}, size)
}

func (c *Conn) deliverUnreliable(ch *channel, m Message, size int) error {
	cost := unreliableCost(m)
	if c.waitingUnreliable+cost > maxUnreliable {
		c.stats.DroppedUnreliable++ // the owner does not fetch them
		return nil
	}
	c.waitingUnreliable += cost
	m.Payload = keep(m.Payload, size)
	return c.deliver(ch, m, 0)
}

// newer reports whether n is newer than every UnreliableSequenced message handed out so far.
func (ch *channel) newer(n uint16) bool {
	return !ch.sequenced || int16(n-ch.newest) > 0
}
