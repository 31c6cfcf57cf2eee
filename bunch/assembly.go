package bunch

import "slices"

const (
	maxAssemblies = 4       // per channel; the next one evicts the oldest
	assemblyCost  = 2 << 10 // price of an assembly besides its bytes; its parts array takes 1,440

	// partSpan is the largest difference between the numbers of two packets with parts of the
	// same message. No two messages within that many packets have the same 16-bit number: a
	// UDP datagram has at most 65,507 bytes, which is room for the first parts of 59 messages,
	// so at most 30,208 messages begin in 512 packets.
	partSpan = 512
)

// An assembly is an unreliable message of which some parts have arrived.
type assembly struct {
	channel  *channel
	message  uint16 // low 16 bits of the message's number in its channel
	delivery Delivery
	newest   uint64           // number of the newest packet with one of the parts
	total    int              // how many parts the message has; zero until the last one arrives
	arrived  int              // how many have arrived
	size     int              // how many bytes those have
	parts    [maxParts][]byte // nil for those that haven't arrived
}

// is reports whether the message has this header's number and delivery.
func (a *assembly) is(h header) bool { return a.message == h.sequence && a.delivery == h.delivery() }

// assemblies holds the incomplete unreliable messages of a connection. Together with the
// complete unreliable and tracked messages that wait for the owner, they may take maxParked
// bytes. If there's no room, the oldest is evicted.
//
// To find the assembly that a part belongs to, we only look at those of its own channel. When
// we looked at all, a peer that sent tiny parts of new messages on many channels made us spend
// 20 times as long on a packet.
type assemblies struct {
	all     []*assembly // oldest first
	spare   *assembly   // one that is empty, for reuse; may be nil
	price   int         // of all
	waiting int         // price of the complete messages that wait for Take
	evicted uint64      // how many were evicted; for Stats.DroppedAssembly
}

// fits reports whether there's room for something of this price.
func (a *assemblies) fits(price int) bool { return a.price+a.waiting+price <= maxParked }

// place returns the assembly for a part of more bytes, and makes room for them by evicting old
// assemblies: first of the channel if that has too many, then of the connection. It returns
// nil if the complete messages that wait for the owner leave no room.
func (a *assemblies) place(ch *channel, h header, more int) *assembly {
	asm := ch.assembling(h)
	if asm == nil {
		if len(ch.assemblies) == maxAssemblies {
			a.evict(ch.assemblies[0])
		}
		asm = a.begin(ch, h)
	}

	for !a.fits(more) {
		// Spare the message that gets the bytes until it's the only one left.
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

// finish drops an assembly that is complete and returns the message.
func (a *assemblies) finish(asm *assembly) []byte {
	message := make([]byte, 0, asm.size)
	for _, p := range asm.parts[:asm.total] {
		message = append(message, p...)
	}
	a.drop(asm)
	return message
}

// assemble handles one part, from the packet with this number. If the message is complete with
// it, assemble returns the message, and the number of the newest packet that had a part of it.
func (c *Conn) assemble(
	ch *channel, number uint64, h header, payload []byte,
) (whole []byte, newest uint64, err error) {
	index := int(h.part)
	isLast := h.flags&flagEnd != 0
	if index >= maxParts || !isLast && len(payload) != EntryBytes {
		return nil, 0, violation(PartialTooLarge, "channel %d: part %d of %d bytes",
			ch.number, index, len(payload))
	}

	// Numbers of messages are reused after 65,536 messages. If we have another message with
	// the same number, one of the two is old and has lost some of its parts.
	if asm := ch.assembling(h); asm != nil {
		switch {
		case number+partSpan < asm.newest:
			c.stats.DroppedLate++
			return nil, 0, nil
		case number > asm.newest+partSpan:
			c.assemblies.evict(asm)
		}
	}

	asm := c.assemblies.place(ch, h, len(payload))
	if asm == nil {
		c.stats.DroppedUnreliable++
		return nil, 0, nil
	}
	afterLast := asm.total != 0 && (isLast || index >= asm.total)
	if asm.parts[index] != nil || afterLast {
		c.stats.DroppedDuplicate++
		return nil, 0, nil
	}

	asm.newest = max(asm.newest, number)
	if isLast {
		asm.total = index + 1
	}
	// A part without bytes must not be nil, since that means that it's missing.
	asm.parts[index] = append(make([]byte, 0, max(1, len(payload))), payload...)
	asm.arrived++
	asm.size += len(payload)
	c.assemblies.price += len(payload)

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
