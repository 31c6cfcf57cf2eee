package bunch

const maxAssemblies = 4 // unreliable messages in parts, a channel

func (c *Conn) receiveUnreliable(ch *channel, h header, payload []byte, size int) error {
	if ch.number == 0 {
		return violation(BunchBadChannelIndex, "an unreliable bunch on the control channel")
	}
	if !ch.opened {
		c.stats.DroppedBeforeOpen++
		return nil
	}
	m := Message{Delivery: h.delivery()}
	if h.inParts() {
		whole, err := c.assemble(ch, h, payload, size)
		if whole == nil || err != nil {
			return err
		}
		m.Payload = whole
	} else {
		if len(payload) > c.limits.MaxBunch {
			return violation(PartialTooLarge, "channel %d: a message of %d bytes, at most %d (MaxBunch)", ch.number, len(payload), c.limits.MaxBunch)
		}
		m.Payload = payload
	}
	if m.Delivery == UnreliableSequenced && !ch.newer(h.sequence) {
		c.stats.DroppedLate++
		return nil
	}
	if cost := unreliableCost(m); c.waitingUnreliable+cost <= maxUnreliable {
		c.waitingUnreliable += cost
		m.Payload = keep(m.Payload, size)
		c.deliver(ch, m, 0)
		return nil
	}
	c.stats.DroppedUnreliable++ // the owner does not fetch them
	return nil
}

// newer reports whether n is newer than every UnreliableSequenced message so far, and makes it the newest.
func (ch *channel) newer(n uint16) bool {
	if ch.sequenced && int16(n-ch.newest) <= 0 {
		return false
	}
	ch.newest, ch.sequenced = n, true
	return true
}

// assemble adds one part and returns the message once it is complete.
func (c *Conn) assemble(ch *channel, h header, payload []byte, size int) ([]byte, error) {
	index, ends := int(h.part), h.flags&flagEnd != 0
	if index >= maxParts || !ends && len(payload) != EntryBytes {
		return nil, violation(PartialTooLarge, "channel %d: part %d of %d bytes", ch.number, index, len(payload))
	}
	a := c.assembly(ch, h, len(payload))
	if a == nil || a.parts[index] != nil || a.count != 0 && (ends || index >= a.count) {
		c.stats.DroppedAssembly++
		return nil, nil
	}
	if ends {
		a.count = index + 1
	}
	a.parts[index] = append(make([]byte, 0, max(1, len(payload))), payload...)
	a.have++
	a.size += len(payload)
	c.parked += len(payload)
	if a.size > c.limits.MaxBunch {
		return nil, violation(PartialTooLarge, "channel %d: a message of %d bytes or more, at most %d (MaxBunch)", ch.number, a.size, c.limits.MaxBunch)
	}
	if a.have != a.count {
		return nil, nil
	}
	return c.finish(ch, h), nil
}

// assembly finds or begins the assembly of a message; the oldest make room.
func (c *Conn) assembly(ch *channel, h header, more int) *assembly {
	i := ch.assemblyOf(h)
	for len(ch.assemblies) > 0 && i != 0 && (c.parked+more > maxUnreliable || i < 0 && len(ch.assemblies) == maxAssemblies) {
		c.stats.DroppedAssembly++
		c.dropAssembly(ch, 0)
		i = ch.assemblyOf(h)
	}
	if c.parked+more > maxUnreliable {
		return nil
	}
	if i < 0 {
		ch.assemblies = append(ch.assemblies, assembly{message: h.sequence, delivery: h.delivery()})
		i = len(ch.assemblies) - 1
	}
	return &ch.assemblies[i]
}

func (ch *channel) assemblyOf(h header) int {
	for i := range ch.assemblies {
		if a := &ch.assemblies[i]; a.message == h.sequence && a.delivery == h.delivery() {
			return i
		}
	}
	return -1
}

func (c *Conn) dropAssembly(ch *channel, i int) {
	c.parked -= ch.assemblies[i].size
	n := copy(ch.assemblies[i:], ch.assemblies[i+1:]) + i
	ch.assemblies[n] = assembly{}
	ch.assemblies = ch.assemblies[:n]
}

func (c *Conn) finish(ch *channel, h header) []byte {
	i := ch.assemblyOf(h)
	a := &ch.assemblies[i]
	message := make([]byte, 0, a.size)
	for _, p := range a.parts[:a.count] {
		message = append(message, p...)
	}
	c.dropAssembly(ch, i)
	return message
}
