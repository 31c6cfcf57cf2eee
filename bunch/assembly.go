package bunch

import "slices"

const (
	maxAssemblies = 4       // per channel; the next one evicts the oldest
	assemblyCost  = 2 << 10 // cost of an assembly, excluding its data; parts alone is 1,440 bytes

	// partSpan is the maximum difference between the numbers of two packets with parts of the
	// same message. No two messages within that many packets have the same 16-bit number: a UDP
	// datagram has at most 65,507 bytes, which is enough for the first parts of 59 messages. At
	// most 30,208 messages can therefore begin in 512 packets, fewer than there are numbers.
	partSpan = 512
)

// An assembly is an unreliable message that has arrived only in part.
type assembly struct {
	channel  *channel
	message  uint16 // low 16 bits of the message's number in its channel
	delivery Delivery
	newest   uint64           // number of the newest packet with one of the parts
	total    int              // number of parts in the message; zero until the last part arrives
	arrived  int              // number of parts that have arrived
	size     int              // bytes in the parts that have arrived
	parts    [maxParts][]byte // nil for parts that haven't arrived
}

// is reports whether the message has this header's number and delivery.
func (a *assembly) is(h header) bool { return a.message == h.sequence && a.delivery == h.delivery() }

// lacks reports whether a part with this index hasn't arrived and agrees with the parts that have:
// no part is behind the last one, and there's only one last part.
func (a *assembly) lacks(index int, isLast bool) bool {
	hasArrived := func(part []byte) bool { return part != nil }
	switch {
	case hasArrived(a.parts[index]):
		return false
	case isLast:
		return a.total == 0 && !slices.ContainsFunc(a.parts[index+1:], hasArrived)
	}
	return a.total == 0 || index < a.total
}

// assemblies holds the incomplete unreliable messages of a connection. Together with the
// complete unreliable and tracked messages that wait for the owner, they may take up to
// maxParked bytes. If there's no room, the oldest incomplete message is evicted.
//
// To find the assembly that a part belongs to, we only search the assemblies of its channel.
// When we searched all of them, a peer that sent tiny parts of new messages on many channels
// made us spend 20 times as long on each packet.
type assemblies struct {
	all     []*assembly // oldest first
	spare   *assembly   // an empty assembly kept for reuse, or nil
	price   int         // price of all assemblies
	waiting int         // price of the complete messages that wait for Take
	evicted uint64      // assemblies evicted; for Stats.DroppedAssembly
}

// fits reports whether there's room for something of this price.
func (a *assemblies) fits(price int) bool { return a.price+a.waiting+price <= maxParked }

// place returns the assembly that a part of size bytes belongs to, which it begins if need be, and
// makes room for the part. It evicts the channel's oldest assembly if the channel has too many,
// and then the connection's oldest assemblies as needed. It returns nil if the complete messages
// that wait for the owner leave no room for the part.
func (a *assemblies) place(ch *channel, h header, size int) *assembly {
	asm := ch.assembling(h)
	if asm == nil {
		if len(ch.assemblies) == maxAssemblies {
			a.evict(ch.assemblies[0])
		}
		asm = a.begin(ch, h)
	}

	for !a.fits(size) {
		// Evict the message being assembled only as a last resort.
		oldest := a.all[0]
		if oldest == asm && len(a.all) > 1 {
			oldest = a.all[1]
		}
		a.evict(oldest)
		if oldest == asm {
			return nil
		}
	}
	return asm
}

// begin adds an assembly for the message that a part with header h belongs to.
func (a *assemblies) begin(ch *channel, h header) *assembly {
	asm := a.spare
	a.spare = nil
	if asm == nil {
		asm = new(assembly)
	}
	asm.channel = ch
	asm.message = h.sequence
	asm.delivery = h.delivery()
	a.all = append(a.all, asm)
	ch.assemblies = append(ch.assemblies, asm)
	a.price += assemblyCost
	return asm
}

// evict drops a message because it will never be complete, or to make room.
func (a *assemblies) evict(asm *assembly) {
	a.evicted++
	a.drop(asm)
}

// drop removes an assembly and keeps its memory for the next one.
func (a *assemblies) drop(asm *assembly) {
	a.price -= assemblyCost + asm.size
	a.all = without(a.all, asm)
	asm.channel.assemblies = without(asm.channel.assemblies, asm)
	*asm = assembly{}
	a.spare = asm
}

// without removes an assembly from a list.
func without(list []*assembly, asm *assembly) []*assembly {
	i := slices.Index(list, asm)
	return slices.Delete(list, i, i+1)
}

// store copies a part of a message that asm doesn't have yet.
func (a *assemblies) store(asm *assembly, index int, payload []byte) {
	// An empty part must not be nil, because nil means that the part is missing.
	asm.parts[index] = append(make([]byte, 0, max(1, len(payload))), payload...)
	asm.arrived++
	asm.size += len(payload)
	a.price += len(payload)
}

// finish drops an assembly that is complete and returns the message.
func (a *assemblies) finish(asm *assembly) []byte {
	message := make([]byte, 0, asm.size)
	for _, p := range asm.parts[:asm.total] {
		message = append(message, p...)
	}
	a.drop(asm)
	return message
}

// receiveUnreliable handles an unreliable bunch. number is the number of the packet that
// carried it, and size is the size of the datagram.
//
// Of two UnreliableSequenced messages, the one in the packet with the higher number is newer,
// since the peer sends them once and in order, and packet numbers don't wrap. Within a packet,
// the later message is newer.
func (c *Conn) receiveUnreliable(ch *channel, number uint64, h header, payload []byte, size int) error {
	if ch.number == 0 {
		return violation(BunchBadChannelIndex, "an unreliable bunch on the control channel")
	}
	if !ch.opened {
		c.stats.DroppedBeforeOpen++
		return nil
	}

	last := number // the newest packet with a part of the message
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
		return violation(PartialTooLarge, "channel %d: a message of %d bytes, at most %d (MaxBunch)",
			ch.number, len(payload), c.limits.MaxBunch)
	}
	if h.delivery() == UnreliableSequenced {
		ch.newest = last
	}
	if !c.deliverUnreliable(ch, Message{Delivery: h.delivery(), Payload: payload}, size) {
		c.stats.DroppedUnreliable++
	}
	return nil
}

// deliverUnreliable queues an unreliable or tracked message for Next. Such messages aren't
// charged to the peer's limit. If too many of them are waiting for the owner, deliverUnreliable
// drops the message and returns false.
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

// assemble handles a part from the packet with the given number. If the part completes its
// message, assemble returns the message, and the number of the newest packet that
// contained a part of it.
func (c *Conn) assemble(
	ch *channel, number uint64, h header, payload []byte,
) (whole []byte, newest uint64, err error) {
	index := int(h.part)
	isLast := h.flags&flagEnd != 0
	if index >= maxParts || !isLast && len(payload) != EntryBytes {
		return nil, 0, violation(PartialTooLarge, "channel %d: part %d of %d bytes",
			ch.number, index, len(payload))
	}

	// Message numbers repeat after 65,536 messages. If we already have part of a different
	// message with the same number, the older of the two has lost some of its parts.
	if asm := ch.assembling(h); asm != nil {
		switch {
		case number+partSpan < asm.newest:
			c.stats.DroppedLate++
			return nil, 0, nil
		case number > asm.newest+partSpan:
			c.assemblies.evict(asm)
		case !asm.lacks(index, isLast):
			c.stats.DroppedDuplicate++
			return nil, 0, nil
		}
	}

	asm := c.assemblies.place(ch, h, len(payload))
	if asm == nil {
		c.stats.DroppedUnreliable++
		return nil, 0, nil
	}
	asm.newest = max(asm.newest, number)
	if isLast {
		asm.total = index + 1
	}
	c.assemblies.store(asm, index, payload)
	if asm.size > c.limits.MaxBunch {
		return nil, 0, violation(PartialTooLarge, "channel %d: a message of %d bytes or more, at most %d (MaxBunch)",
			ch.number, asm.size, c.limits.MaxBunch)
	}
	if asm.arrived != asm.total {
		return nil, 0, nil
	}
	newest = asm.newest
	return c.assemblies.finish(asm), newest, nil
}
