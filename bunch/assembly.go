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

// An assembly is an unreliable message of which only some parts have arrived.
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

// matches reports whether the message has this header's number and delivery.
func (a *assembly) matches(h header) bool {
	return a.message == h.sequence && a.delivery == h.delivery()
}

// lacks reports whether a part with this index is still missing. If the part contradicts the parts
// that have arrived, because one of them comes after the last part or is a last part as well, the
// message can't have such a part.
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

// assemblies holds the incomplete unreliable messages of a connection. Together with the complete
// unreliable and tracked messages that wait for the owner, they may cost up to maxParked bytes. If
// there's no room, the oldest incomplete message is evicted.
//
// To find the assembly that a part belongs to, we only search those of its channel. Searching all
// of them would let a peer that sends tiny parts of new messages on many channels make us spend 20
// times as long on each packet.
type assemblies struct {
	all     []*assembly // oldest first
	spare   *assembly   // an empty assembly kept for reuse, or nil
	cost    int         // cost of all assemblies
	waiting int         // cost of the complete messages that wait for Take
	evicted uint64      // assemblies evicted; for Stats.DroppedAssembly
}

// fits reports whether there's room for something of this cost.
func (a *assemblies) fits(cost int) bool { return a.cost+a.waiting+cost <= maxParked }

// addWaiting counts a complete message that waits for Take. If there's no room for it, addWaiting
// does nothing and returns false.
func (a *assemblies) addWaiting(cost int) (ok bool) {
	if !a.fits(cost) {
		return false
	}
	a.waiting += cost
	return true
}

// removeWaiting is called when Take returns a message that addWaiting has counted.
func (a *assemblies) removeWaiting(cost int) { a.waiting -= cost }

// begin adds an assembly for the message that a part with header h belongs to. If the channel has
// maxAssemblies already, begin evicts the oldest of them.
func (a *assemblies) begin(ch *channel, h header) *assembly {
	if len(ch.assemblies) == maxAssemblies {
		a.evict(ch.assemblies[0])
	}
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
	a.cost += assemblyCost
	return asm
}

// makeRoom evicts other assemblies, oldest first, until asm can grow by size bytes. If that's not
// enough, because complete messages take up the room, it evicts asm as well and returns false.
func (a *assemblies) makeRoom(asm *assembly, size int) (ok bool) {
	for !a.fits(size) {
		if len(a.all) == 1 {
			a.evict(asm)
			return false
		}
		oldest := a.all[0]
		if oldest == asm {
			oldest = a.all[1]
		}
		a.evict(oldest)
	}
	return true
}

// evict drops a message because it will never be complete, or to make room.
func (a *assemblies) evict(asm *assembly) {
	a.evicted++
	a.remove(asm)
}

// remove removes an assembly and keeps its memory for the next one.
func (a *assemblies) remove(asm *assembly) {
	a.cost -= assemblyCost + asm.size
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

// store copies a part of a message into asm, which must lack it.
func (a *assemblies) store(asm *assembly, index int, payload []byte) {
	// An empty part must not be nil, because nil means that the part is missing.
	asm.parts[index] = append(make([]byte, 0, max(1, len(payload))), payload...)
	asm.arrived++
	asm.size += len(payload)
	a.cost += len(payload)
}

// finish removes an assembly that is complete and returns the message.
func (a *assemblies) finish(asm *assembly) []byte {
	message := make([]byte, 0, asm.size)
	for _, p := range asm.parts[:asm.total] {
		message = append(message, p...)
	}
	a.remove(asm)
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
		return violation(BunchBadChannelIndex, "unreliable bunch on the control channel")
	}
	if !ch.opened {
		c.stats.DroppedBeforeOpen++
		return nil
	}
	if h.delivery() == UnreliableSequenced && number < ch.newest {
		c.stats.DroppedLate++
		return nil
	}
	newest := number // the newest packet with a part of the message
	if h.inParts() {
		complete, err := c.assemble(ch, number, h, payload)
		if complete == nil || err != nil {
			return err
		}
		newest = complete.newest
		payload = c.assemblies.finish(complete)
		size = len(payload)
	}

	if len(payload) > c.limits.MaxBunch {
		return tooLarge(ch.number, len(payload), c.limits.MaxBunch)
	}
	if h.delivery() == UnreliableSequenced {
		ch.newest = newest
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
	if !c.assemblies.addWaiting(unreliableCost(1, len(m.Payload))) {
		return false
	}
	s := slot{flags: flagWhole}
	c.payloads.keep(&s, m.Payload, size)
	m.Payload, m.receipt.pinned = s.payload, s.pinned
	c.deliver(ch, &m)
	return true
}

// assemble handles a part from the packet with the given number. It returns the message's assembly
// if the part completes the message, and nil if parts are missing or this one was dropped.
func (c *Conn) assemble(ch *channel, number uint64, h header, payload []byte) (complete *assembly, err error) {
	index := int(h.part)
	isLast := h.flags&flagEnd != 0
	if index >= maxParts || !isLast && len(payload) != EntryBytes {
		return nil, violation(PartialTooLarge,
			"channel %d: part %d has %d bytes; a message has at most %d parts, all but the last of %d bytes",
			ch.number, index, len(payload), maxParts, EntryBytes)
	}

	// Message numbers repeat after 65,536 messages. If we already have part of a different
	// message with the same number, the older of the two has lost some of its parts.
	asm := ch.assembling(h)
	if asm != nil && number+partSpan < asm.newest {
		c.stats.DroppedLate++
		return nil, nil
	}
	if asm != nil && number > asm.newest+partSpan {
		c.assemblies.evict(asm)
		asm = nil
	}

	if asm == nil {
		asm = c.assemblies.begin(ch, h)
	} else if !asm.lacks(index, isLast) {
		c.stats.DroppedDuplicate++
		return nil, nil
	}
	if !c.assemblies.makeRoom(asm, len(payload)) {
		c.stats.DroppedUnreliable++
		return nil, nil
	}
	asm.newest = max(asm.newest, number)
	if isLast {
		asm.total = index + 1
	}
	c.assemblies.store(asm, index, payload)
	if asm.size > c.limits.MaxBunch {
		return nil, violation(PartialTooLarge, "channel %d: message has at least %d bytes; the limit is %d (MaxBunch)",
			ch.number, asm.size, c.limits.MaxBunch)
	}
	if asm.arrived != asm.total {
		return nil, nil
	}
	return asm, nil
}
