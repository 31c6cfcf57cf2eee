package bunch

import "slices"

const (
	maxAssemblies = 4       // how many a channel may have; the next one evicts the oldest
	assemblyCost  = 2 << 10 // price of an assembly besides its bytes: parts, an array of slices, takes 1,440 of them
	// partSpan is the most by which the packet numbers of two parts of a message differ. A UDP datagram has at most 65,507 bytes,
	// which hold the first parts of 59 messages, so 512 packets begin at most 30,208 messages: no two of them have the same number of 16
	// bits.
	partSpan = 512
)

// assembly is an unreliable message that arrives in parts.
type assembly struct {
	channel  *channel
	message  uint16 // number of the message in its channel
	delivery Delivery
	newest   uint64           // number of the newest packet that brought a part
	count    int              // parts of the message; 0 until the last one came
	have     int              // parts that came
	size     int              // bytes of those
	parts    [maxParts][]byte // by part number; nil until it comes
}

func (a *assembly) is(h header) bool { return a.message == h.sequence && a.delivery == h.delivery() }

// assemblies are the unreliable messages of a connection that are not whole. They share maxParked with the whole unreliable and tracked
// messages that wait for the owner: when room is short, the oldest assembly goes. However many there are, a part looks at those of its channel alone:
// a peer chooses its channels, and packets of tiny parts of new messages on many of them took 20 times as long as others.
type assemblies struct {
	all     []*assembly // the oldest first
	spare   *assembly   // the last one that was dropped, empty; nil = none
	price   int         // of all, in bytes
	waiting int         // price of the whole messages that wait for Take
	evicted uint64      // counts the assemblies that were given up
}

// fits reports whether there is room for messages or parts of such a price.
func (a *assemblies) fits(price int) bool { return a.price+a.waiting+price <= maxParked }

// stale reports whether a part is of an older message than the assembly that has the same number. When it is of a newer one, stale
// drops that assembly: some of its parts were lost, and 65,536 messages have left since.
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

// place finds or begins the assembly of a message and makes room for more bytes. It drops the oldest assemblies: of the channel when
// that has too many, else of the connection. It returns nil when whole messages that wait leave no room.
func (a *assemblies) place(ch *channel, h header, more int) *assembly {
	of := ch.assembling(h)
	if of == nil {
		if len(ch.assemblies) == maxAssemblies {
			a.evict(ch.assemblies[0])
		}
		of = a.begin(ch, h)
	}

	for !a.fits(more) {
		// Never the message that is to get the bytes, unless it is the only one.
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

// begin adds an assembly, the newest of all.
func (a *assemblies) begin(ch *channel, h header) *assembly {
	of := a.spare
	if a.spare = nil; of == nil {
		of = new(assembly)
	}
	of.channel, of.message, of.delivery = ch, h.sequence, h.delivery()
	a.all, ch.assemblies = append(a.all, of), append(ch.assemblies, of)
	a.price += assemblyCost
	return of
}

// evict gives up a message that is not whole.
func (a *assemblies) evict(of *assembly) {
	a.evicted++
	a.drop(of)
}

// drop takes an assembly out, and keeps it as the spare.
func (a *assemblies) drop(of *assembly) {
	a.price -= assemblyCost + of.size
	a.all, of.channel.assemblies = without(a.all, of), without(of.channel.assemblies, of)
	*of = assembly{}
	a.spare = of
}

// without removes an assembly from a list that has it.
func without(list []*assembly, of *assembly) []*assembly {
	i := slices.Index(list, of)
	return slices.Delete(list, i, i+1)
}

// finish returns the message of an assembly that has all parts, and drops the assembly.
func (a *assemblies) finish(whole *assembly) []byte {
	message := make([]byte, 0, whole.size)
	for _, p := range whole.parts[:whole.count] {
		message = append(message, p...)
	}
	a.drop(whole)
	return message
}

// assemble adds one part, which came in the packet of that number. Once the message is complete, it returns that, and the number of the newest packet
// that brought a part of it.
func (c *Conn) assemble(ch *channel, number uint64, h header, payload []byte) (whole []byte, last uint64, err error) {
	index, ends := int(h.part), h.flags&flagEnd != 0
	if index >= maxParts || !ends && len(payload) != EntryBytes {
		return nil, 0, violation(PartialTooLarge, "channel %d: part %d of %d bytes", ch.number, index, len(payload))
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
		return nil, 0, violation(PartialTooLarge, "channel %d: a message of %d bytes or more, at most %d (MaxBunch)", ch.number, a.size, c.limits.MaxBunch)
	}
	if a.have != a.count {
		return nil, 0, nil
	}
	last = a.newest
	return c.assemblies.finish(a), last, nil
}
