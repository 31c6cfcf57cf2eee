package bunch

import "slices"

const (
	maxAssemblies = 4       // how many a channel may have; the next one evicts the oldest
	assemblyCost  = 2 << 10 // price of an assembly besides its bytes; its slices of parts take 1,440 bytes
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

func (a *assembly) is(ch *channel, h header) bool {
	return a.channel == ch && a.message == h.sequence && a.delivery == h.delivery()
}

// assemblies are the unreliable messages of a connection that are not whole. They share maxParked with the whole unreliable and tracked
// messages that wait for the owner: when room is short, the oldest assembly goes.
type assemblies struct {
	list    []assembly // oldest first
	price   int        // of the list
	waiting int        // price of the whole messages that wait for Take
	evicted uint64     // assemblies that were given up
}

// fits reports whether there is room for messages or parts of such a price.
func (a *assemblies) fits(price int) bool { return a.price+a.waiting+price <= maxParked }

// stale reports whether a part is of an older message than the assembly that has the same number. When it is of a newer one, stale
// drops that assembly: some of its parts were lost, and 65,536 messages have left since.
func (a *assemblies) stale(ch *channel, number uint64, h header) bool {
	i := a.find(ch, h)
	if i < 0 {
		return false
	}
	newest := a.list[i].newest
	if number > newest+partSpan {
		a.evict(i)
	}
	return number+partSpan < newest
}

// place finds or begins the assembly of a message and makes room for more bytes. It drops the oldest assemblies: of the channel when
// that has too many, else of the connection. It returns -1 when whole messages that wait leave no room.
func (a *assemblies) place(ch *channel, h header, more int) int {
	i := a.find(ch, h)
	if i < 0 {
		if ch.assemblies == maxAssemblies {
			a.evict(a.oldestOf(ch))
		}
		a.list = append(a.list, assembly{channel: ch, message: h.sequence, delivery: h.delivery()})
		i = len(a.list) - 1
		ch.assemblies++
		a.price += assemblyCost
	}

	for !a.fits(more) {
		// Never the message that is to get the bytes, unless it is the only one.
		oldest := 0
		if i == 0 && len(a.list) > 1 {
			oldest = 1
		}
		a.evict(oldest)
		if len(a.list) == 0 {
			return -1
		}
		if oldest < i {
			i--
		}
	}
	return i
}

func (a *assemblies) find(ch *channel, h header) int {
	if ch.assemblies == 0 {
		return -1
	}
	for i := range a.list {
		if a.list[i].is(ch, h) {
			return i
		}
	}
	return -1
}

func (a *assemblies) oldestOf(ch *channel) int {
	for i := range a.list {
		if a.list[i].channel == ch {
			return i
		}
	}
	return -1
}

// evict gives up a message that is not whole.
func (a *assemblies) evict(i int) {
	a.evicted++
	a.drop(i)
}

// evictAll gives up those of a channel that is closed.
func (a *assemblies) evictAll(ch *channel) {
	for ch.assemblies > 0 {
		a.evict(a.oldestOf(ch))
	}
}

func (a *assemblies) drop(i int) {
	a.list[i].channel.assemblies--
	a.price -= assemblyCost + a.list[i].size
	a.list = slices.Delete(a.list, i, i+1)
}

// finish returns the message of an assembly that has all parts, and drops the assembly.
func (a *assemblies) finish(i int) []byte {
	whole := &a.list[i]
	message := make([]byte, 0, whole.size)
	for _, p := range whole.parts[:whole.count] {
		message = append(message, p...)
	}
	a.drop(i)
	return message
}

// assemble adds one part, which came in the packet with a number, and returns the message and its last packet once it is
// complete.
func (c *Conn) assemble(ch *channel, number uint64, h header, payload []byte) (whole []byte, last uint64, err error) {
	index, ends := int(h.part), h.flags&flagEnd != 0
	if index >= maxParts || !ends && len(payload) != EntryBytes {
		return nil, 0, violation(PartialTooLarge, "channel %d: part %d of %d bytes", ch.number, index, len(payload))
	}

	if c.assemblies.stale(ch, number, h) {
		c.stats.DroppedLate++
		return nil, 0, nil
	}
	i := c.assemblies.place(ch, h, len(payload))
	if i < 0 {
		c.stats.DroppedUnreliable++
		return nil, 0, nil
	}
	a := &c.assemblies.list[i]
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
	return c.assemblies.finish(i), last, nil
}
