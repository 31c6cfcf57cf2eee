package bunch

// What is charged to the sender of reliable bunches, until the application has fetched them. Both ends compute it, and it is
// no less than what the receiver holds then, in whatever order bunches arrive: TestHeapIsCharged.
const (
	entryCost   = 80  // an entry beside its bytes: its slot and its place among those that wait for their turn
	messageCost = 64  // a message beside its bytes: its record in the ready list
	channelCost = 512 // a channel from its first entry until its open is fetched; again from its close until that is acknowledged both ways
)

// What may wait beside the receive limit, bounded each.
const (
	controlBuffer = 64        // entries of channel 0's reliable buffer: it is for control
	maxControl    = 160 << 10 // price of what channel 0 holds, two messages of 64 KiB: the limit does not bind it, so that control passes a stopped world
	maxParked     = 256 << 10 // price of unreliable and tracked messages that wait, and of those in parts that are not whole
	maxPinned     = 32 << 10  // bytes of datagrams and blocks that payloads pin beyond their own; beyond it they are copied
	maxSlots      = 64        // kept for reuse
)

// price is what an entry costs. An eighth of its bytes covers that memory comes in sizes.
func price(flags byte, size, messages int) int {
	if answers(flags, size) {
		return 0
	}
	cost := entryCost + inMemory(size)
	if flags&flagBegin != 0 {
		cost += messageCost * max(1, messages)
	}
	if flags&flagOpen != 0 {
		cost += channelCost
	}
	if flags&flagClose != 0 {
		cost += channelCost
	}
	return cost
}

// flagAnswer marks the close with which a side answers the other's. It is free, so that it leaves whatever the limit is: a
// channel that lingers takes its price from the limit until its answer is acknowledged, and two sides that close many
// channels would else wait for each other.
const flagAnswer = byte(ReliableUnordered) | flagWhole | flagClose

func answers(flags byte, size int) bool { return flags&^flagOpen == flagAnswer && size == 0 }

func inMemory(size int) int { return size + size/8 }

// unreliablePrice is what unreliable and tracked messages cost that wait, on either side.
func unreliablePrice(messages, bytes int) int { return messages*messageCost + inMemory(bytes) }

// messagesIn counts the messages of a whole bunch, as far as they can be read.
func messagesIn(b []byte) (count int) {
	for len(b) > 0 && count < maxMessages {
		size, n := consumeVarint(b)
		if n == 0 || size > uint64(len(b)-n) {
			break
		}
		b = b[n+int(size):]
		count++
	}
	return count
}

// charge takes the price of what arrived.
func (c *Conn) charge(ch *channel, cost int) error {
	if ch.number == 0 {
		if c.control += cost; c.control > maxControl {
			return violation(ReceiveLimitExceeded, "%d bytes wait on the control channel, at most %d", c.control, maxControl)
		}
		return nil
	}
	if !c.flow.take(cost) {
		return violation(ReceiveLimitExceeded, "%d reliable bytes came, %d are allowed", c.flow.received, c.flow.advertised)
	}
	return nil
}

// chargeEntry charges an entry when its first piece came. The open of a channel was charged with whatever entry of it came
// first.
func (c *Conn) chargeEntry(ch *channel, s *slot) error {
	if answers(s.flags, len(s.payload)) && !ch.outClosed {
		return violation(BunchDataOverflow, "channel %d: an answer to a close that was never sent", ch.number)
	}
	return c.charge(ch, price(s.flags&^flagOpen, len(s.payload), 1))
}

// chargeMessages charges the messages of a whole bunch beyond the first, once all of it is there.
func (c *Conn) chargeMessages(ch *channel, s *slot) error {
	if s.flags&flagWhole != flagWhole {
		return nil
	}
	return c.charge(ch, max(0, messagesIn(s.payload)-1)*messageCost)
}

// paid is what an entry's message gives back once it is fetched. A slot that stays, its message having overtaken others, is
// paid for on its own, and so is a channel that lingers after its close.
func paid(s *slot, messages int) int {
	if answers(s.flags, len(s.payload)) {
		return 0
	}
	cost := price(s.flags&^flagClose, len(s.payload), messages)
	if s.state == taken {
		cost -= entryCost
	}
	return cost
}

// release gives back what was charged.
func (c *Conn) release(number uint64, cost int) {
	if number == 0 {
		c.control -= cost
		return
	}
	c.consume(uint64(cost))
}

// keep puts payload into s for as long as it waits: the part of the datagram itself, unless that is much larger or what waits
// pins much already; else a copy.
func (c *Conn) keep(s *slot, payload []byte, size int) {
	beyond := size - len(payload)
	if beyond <= 3*len(payload) && c.pin(s, beyond) {
		s.payload = payload
		return
	}
	c.block(s, len(payload))
	copy(s.payload, payload)
}

// block gives s memory of its own: parts of a run, which is copied when it is whole, share blocks.
func (c *Conn) block(s *slot, size int) {
	if s.flags&flagWhole != flagWhole && size >= EntryBytes/2 && c.pin(s, EntryBytes-size) {
		s.payload, s.pooled = c.spare.get(EntryBytes)[:size], true
		return
	}
	s.payload = make([]byte, size)
}

// pin reports whether s may hold so many bytes beyond its own.
func (c *Conn) pin(s *slot, beyond int) bool {
	if c.pinned+beyond > maxPinned {
		return false
	}
	c.pinned += beyond
	s.pinned = uint16(beyond)
	return true
}
