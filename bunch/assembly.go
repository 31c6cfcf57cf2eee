package bunch

const (
	maxAssemblies = 4       // unreliable messages in parts, a channel
	assemblyCost  = 2 << 10 // charged for each beside its bytes
	// partSpan is how many packets lie between two parts of a message at most. A datagram of UDP, 65,507 bytes, holds the
	// first part of 59 messages, so 512 packets number 30,208 of the 65,536 messages: no two have the same number.
	partSpan = 512
)

// assembly is an unreliable message that arrives in parts.
type assembly struct {
	channel  *channel
	message  uint16
	delivery Delivery
	newest   uint64 // packet that brought a part of it
	count    int    // 0 until the last part came
	have     int
	size     int
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

// stale reports whether a part is of an older message than the assembly with the same number. When it is of a newer one,
// that assembly gives way: some of its parts were lost, and 65,536 messages have left since.
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

// assembly finds or begins the assembly of a message and makes room for more bytes: the oldest ones go, of the channel
// when it has too many, else of the connection. It returns -1 when unreliable messages that wait leave no room.
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

// dropAssemblies gives up what a closed channel has.
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
