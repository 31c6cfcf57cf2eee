package bunch

import "slices"

const (
	maxAssemblies = 4       // per channel; the next one evicts the oldest
	assemblyCost  = 2 << 10 // price of an assembly besides its bytes; parts alone takes 1,440 of them
	// partSpan is the maximum difference between the packet numbers of two parts of a
	// message. A UDP datagram has at most 65,507 bytes, room for the first parts of 59
	// messages. At most 30,208 messages therefore begin in 512 packets, and no two of them
	// have the same 16-bit number.
	partSpan = 512
)

// An assembly is an unreliable message that arrives in parts.
type assembly struct {
	channel  *channel
	message  uint16 // number of the message in its channel, 16 bits
	delivery Delivery
	newest   uint64           // number of the newest packet that had a part
	count    int              // parts of the message; 0 until the last part has arrived
	have     int              // parts that have arrived
	size     int              // bytes of the parts that have arrived
	parts    [maxParts][]byte // by part number; nil until it arrives
}

// is reports whether a part with header h belongs to the assembly.
func (a *assembly) is(h header) bool { return a.message == h.sequence && a.delivery == h.delivery() }

// assemblies holds a connection's incomplete unreliable messages. They share maxParked with
// the complete unreliable and tracked messages waiting for the owner. If there is no room,
// the oldest assembly is dropped.
//
// A part is compared only with the assemblies of its own channel, however many others there
// are. A peer chooses its channels, and handling packets with tiny parts of new messages on
// many channels took 20 times as long as handling other packets.
type assemblies struct {
	all     []*assembly // oldest first
	spare   *assembly   // the last assembly dropped, emptied for reuse; nil = none
	price   int         // of all, in bytes
	waiting int         // price of the complete messages waiting for Take
	evicted uint64      // assemblies that were evicted
}

// fits reports whether there is room for messages or parts of the given price.
func (a *assemblies) fits(price int) bool { return a.price+a.waiting+price <= maxParked }

// stale reports whether a part belongs to an older message than the assembly with the same
// number.
//
// If the part belongs to a newer message, stale drops the assembly: some of its parts were
// lost, and 65,536 messages have been sent since.
func (a *assemblies) stale(ch *channel, number uint64, h header) bool {
	of := ch.assembling(h)
	if of == nil {
		return false
	}
	newest := of.newest
	if number > newest+partSpan {
		a.evict(of)
	}
	return number+partSpan < newest
}

// place finds or begins the assembly of a message and makes room for more bytes. It evicts
// the oldest assemblies of the channel if that has too many, otherwise those of the
// connection. It returns nil if complete messages waiting for the owner leave no room.
func (a *assemblies) place(ch *channel, h header, more int) *assembly {
	of := ch.assembling(h)
	if of == nil {
		if len(ch.assemblies) == maxAssemblies {
			a.evict(ch.assemblies[0])
		}
		of = a.begin(ch, h)
	}

	for !a.fits(more) {
		// Spare the message that is to get the bytes, unless it is the only one.
		oldest := a.all[0]
		if oldest == of && len(a.all) > 1 {
			oldest = a.all[1]
		}
		a.evict(oldest)
		if oldest == of {
			return nil
		}
	}
	return of
}

// begin adds an assembly as the newest.
func (a *assemblies) begin(ch *channel, h header) *assembly {
	of := a.spare
	a.spare = nil
	if of == nil {
		of = new(assembly)
	}
	of.channel = ch
	of.message = h.sequence
	of.delivery = h.delivery()
	a.all = append(a.all, of)
	ch.assemblies = append(ch.assemblies, of)
	a.price += assemblyCost
	return of
}

// evict drops an incomplete message and counts it.
func (a *assemblies) evict(of *assembly) {
	a.evicted++
	a.drop(of)
}

// drop removes an assembly and keeps it as the spare.
func (a *assemblies) drop(of *assembly) {
	a.price -= assemblyCost + of.size
	a.all = without(a.all, of)
	of.channel.assemblies = without(of.channel.assemblies, of)
	*of = assembly{}
	a.spare = of
}

// without removes an assembly from a list that contains it.
func without(list []*assembly, of *assembly) []*assembly {
	i := slices.Index(list, of)
	return slices.Delete(list, i, i+1)
}

// finish returns the message of a complete assembly and drops the assembly.
func (a *assemblies) finish(whole *assembly) []byte {
	message := make([]byte, 0, whole.size)
	for _, p := range whole.parts[:whole.count] {
		message = append(message, p...)
	}
	a.drop(whole)
	return message
}

// assemble adds one part, from the packet with the given number. If that completes the
// message, assemble returns it and the number of the newest packet that had a part of it.
func (c *Conn) assemble(
	ch *channel, number uint64, h header, payload []byte,
) (whole []byte, last uint64, err error) {
	index := int(h.part)
	ends := h.flags&flagEnd != 0
	if index >= maxParts || !ends && len(payload) != EntryBytes {
		return nil, 0, violation(PartialTooLarge, "channel %d: part %d of %d bytes",
			ch.number, index, len(payload))
	}

	if c.assemblies.stale(ch, number, h) {
		c.stats.DroppedLate++
		return nil, 0, nil
	}
	a := c.assemblies.place(ch, h, len(payload))
	if a == nil {
		c.stats.DroppedUnreliable++
		return nil, 0, nil
	}
	if a.parts[index] != nil || a.count != 0 && (ends || index >= a.count) {
		c.stats.DroppedDuplicate++
		return nil, 0, nil
	}

	a.newest = max(a.newest, number)
	if ends {
		a.count = index + 1
	}
	a.parts[index] = append(make([]byte, 0, max(1, len(payload))), payload...)
	a.have++
	a.size += len(payload)
	c.assemblies.price += len(payload)

	if a.size > c.limits.MaxBunch {
		return nil, 0, violation(PartialTooLarge, "channel %d: a message of %d bytes or more, at most %d (MaxBunch)",
			ch.number, a.size, c.limits.MaxBunch)
	}
	if a.have != a.count {
		return nil, 0, nil
	}
	last = a.newest
	return c.assemblies.finish(a), last, nil
}
