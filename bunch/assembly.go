package bunch

const (
	maxAssemblies = 4       // how many a channel may have
	assemblyCost  = 2 << 10 // price of an assembly besides its bytes
	// partSpan is the most by which the packet numbers of two parts of a message differ. A UDP datagram has at most 65,507 bytes,
	// which hold the first parts of 59 messages, so 512 packets begin at most 30,208 messages: no two of them have the same number of 16
	// bits.
	partSpan = 512
)

// assembly is an unreliable message that arrives in parts.
type assembly struct {
	channel  *channel
	message  uint16
	delivery Delivery
	newest   uint64 // number of the newest packet that brought a part
	count    int    // how many parts it has; 0 until the last one came
	have     int    // how many parts came
	size     int    // bytes of those
	parts    [maxParts][]byte
}

func (a *assembly) is(ch *channel, h header) bool {
	return a.channel == ch && a.message == h.sequence && a.delivery == h.delivery()
}

// assemble adds one part, which came in the packet with a number, and returns the message and its last packet once it is
// complete.
func (c *Conn) assemble(ch *channel, number uint64, h header, payload []byte) (whole []byte, last uint64, err error) {
	index, ends := int(h.part), h.flags&flagEnd != 0
	if index >= maxParts || !ends && len(payload) != EntryBytes {
		return nil, 0, violation(PartialTooLarge, "channel %d: part %d of %d bytes", ch.number, index, len(payload))
	}
	if c.stale(ch, number, h) {
		c.stats.DroppedLate++
		return nil, 0, nil
	}
	i := c.assembly(ch, h, len(payload))
	if i < 0 {
		c.stats.DroppedUnreliable++
		return nil, 0, nil
	}
	a := &c.assemblies[i]
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
	c.parked += len(payload)
	if a.size > c.limits.MaxBunch {
		return nil, 0, violation(PartialTooLarge, "channel %d: a message of %d bytes or more, at most %d (MaxBunch)", ch.number, a.size, c.limits.MaxBunch)
	}
	if a.have != a.count {
		return nil, 0, nil
	}
	last = a.newest
	return c.finish(i), last, nil
}

// stale reports whether a part is of an older message than the assembly that has the same number. When it is of a newer one, stale
// drops that assembly: some of its parts were lost, and 65,536 messages have left since.
func (c *Conn) stale(ch *channel, number uint64, h header) bool {
	i := c.assemblyOf(ch, h)
	if i < 0 {
		return false
	}
	newest := c.assemblies[i].newest
	if number > newest+partSpan {
		c.evict(i)
	}
	return number+partSpan < newest
}

// assembly finds or begins the assembly of a message and makes room for more bytes. It drops the oldest assemblies: of the channel
// when that has too many, else of the connection. It returns -1 when waiting unreliable messages leave no room.
func (c *Conn) assembly(ch *channel, h header, more int) int {
	i := c.assemblyOf(ch, h)
	if i < 0 {
		if ch.assemblies == maxAssemblies {
			c.evict(c.oldestOf(ch))
		}
		c.assemblies = append(c.assemblies, assembly{channel: ch, message: h.sequence, delivery: h.delivery()})
		i = len(c.assemblies) - 1
		ch.assemblies++
		c.parked += assemblyCost
	}
	for c.parked+c.waitingUnreliable+more > maxParked {
		oldest := 0
		if i == 0 && len(c.assemblies) > 1 {
			oldest = 1
		}
		c.evict(oldest)
		if len(c.assemblies) == 0 {
			return -1
		}
		if oldest < i {
			i--
		}
	}
	return i
}

func (c *Conn) assemblyOf(ch *channel, h header) int {
	if ch.assemblies == 0 {
		return -1
	}
	for i := range c.assemblies {
		if c.assemblies[i].is(ch, h) {
			return i
		}
	}
	return -1
}

func (c *Conn) oldestOf(ch *channel) int {
	for i := range c.assemblies {
		if c.assemblies[i].channel == ch {
			return i
		}
	}
	return -1
}

// evict gives up a message that is not whole.
func (c *Conn) evict(i int) {
	c.stats.DroppedAssembly++
	c.dropAssembly(i)
}

func (c *Conn) dropAssembly(i int) {
	a := &c.assemblies[i]
	a.channel.assemblies--
	c.parked -= assemblyCost + a.size
	n := copy(c.assemblies[i:], c.assemblies[i+1:]) + i
	c.assemblies[n] = assembly{}
	c.assemblies = c.assemblies[:n]
}

// dropAssemblies gives up all assemblies of a channel that is closed.
func (c *Conn) dropAssemblies(ch *channel) {
	for ch.assemblies > 0 {
		c.evict(c.oldestOf(ch))
	}
}

func (c *Conn) finish(i int) []byte {
	a := &c.assemblies[i]
	message := make([]byte, 0, a.size)
	for _, p := range a.parts[:a.count] {
		message = append(message, p...)
	}
	c.dropAssembly(i)
	return message
}
