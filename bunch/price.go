package bunch

// Prices of reliable bunches, in bytes. Both ends compute them, and charge them to the sender's limit until the application has
// fetched the messages. They are no less than what the receiver holds, in whatever order bunches arrive: TestHeapIsCharged.
const (
	entryCost   = 80  // an entry beside its bytes: its slot and its place among those that wait for their turn
	messageCost = 64  // a message beside its bytes: its record in the ready list
	channelCost = 512 // a channel from its first entry until its open is fetched; again from its close until that is acknowledged both ways
)

// Bounds of what is not charged to the receive limit.
const (
	controlBuffer = 64        // entries of channel 0's reliable buffer: it is for control
	maxControl    = 160 << 10 // price of what channel 0 holds, two messages of 64 KiB: the limit does not bind it, so that control passes a stopped world
	maxParked     = 256 << 10 // price of unreliable and tracked messages that wait, and of those in parts that are not whole
)

// price returns what an entry costs.
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

// flagAnswer is the flags of the close with which a side answers the other's. It is free, so that it leaves whatever the limit is:
// a channel that lingers takes its price from the limit until its answer is acknowledged, so two sides that close many channels
// would otherwise wait for each other.
const flagAnswer = byte(ReliableUnordered) | flagWhole | flagClose

func answers(flags byte, size int) bool { return flags&^flagOpen == flagAnswer && size == 0 }

// inMemory returns how many bytes a payload takes at most: the allocator rounds sizes up, by an eighth or so.
func inMemory(size int) int { return size + size/8 }

// unreliablePrice returns what waiting unreliable or tracked messages cost, on either side.
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

// charge charges the price of something that arrived to the limit of channel 0 or of the peer.
func (c *Conn) charge(ch *channel, cost int) error {
	if ch.number == 0 {
		if c.flow.control += cost; c.flow.control > maxControl {
			return violation(ReceiveLimitExceeded, "%d bytes wait on the control channel, at most %d", c.flow.control, maxControl)
		}
		return nil
	}
	if !c.flow.take(cost) {
		return violation(ReceiveLimitExceeded, "%d reliable bytes came, %d are allowed", c.flow.received, c.flow.advertised)
	}
	return nil
}

// chargeEntry charges an entry when its first piece came. channelCost for its open was charged when the first bunch of the channel
// came, whichever that was.
func (c *Conn) chargeEntry(ch *channel, s *slot) error {
	if answers(s.flags, len(s.payload)) && !ch.outClosed {
		return violation(BunchDataOverflow, "channel %d: an answer to a close that was never sent", ch.number)
	}
	return c.charge(ch, price(s.flags&^flagOpen, len(s.payload), 1))
}

// chargeMessages charges all messages of a whole bunch but the first, once all of the bunch is there.
func (c *Conn) chargeMessages(ch *channel, s *slot) error {
	if s.flags&flagWhole != flagWhole {
		return nil
	}
	return c.charge(ch, max(0, messagesIn(s.payload)-1)*messageCost)
}

// paid returns what an entry's messages give back once they are fetched. It leaves out the slot of a message that overtook others,
// which is released when its turn comes, and the channel of a close, which is released by retire.
func paid(s *slot, messages int) int {
	if answers(s.flags, len(s.payload)) {
		return 0
	}
	cost := price(s.flags&^flagClose, len(s.payload), messages)
	if s.state == delivered {
		cost -= entryCost
	}
	return cost
}

// release gives back a cost that was charged.
func (c *Conn) release(number uint64, cost int) {
	if number == 0 {
		c.flow.control -= cost
		return
	}
	c.consume(uint64(cost))
}
