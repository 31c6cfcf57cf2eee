package bunch

// Prices of reliable bunches, in bytes. Both ends compute them and charge them to the
// sender's limit until the application has taken the messages. A price is at least the
// memory that the receiver holds, in whatever order bunches arrive (TestHeapIsCharged).
const (
	entryCost   = 80 // an entry besides its bytes: its slot, and its place among parked entries
	messageCost = 64 // a message besides its bytes: its record in the ready list
	// A channel, from its first entry until its opening message is taken. It is charged
	// again from the channel's close until both ends have acknowledged that.
	channelCost = 512
)

// Limits of memory that is not charged to the receive limit. The last two are prices.
const (
	controlBuffer = 64 // entries of channel 0's reliable buffer, which is for control only
	// For everything that channel 0 holds: two messages of 64 KiB. The limit is separate,
	// so that control messages get through while a world is stopped.
	maxControl = 160 << 10
	// For waiting unreliable and tracked messages, and for incomplete messages in parts.
	maxParked = 256 << 10
)

// price returns the price of an entry.
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

// flagAnswer holds the flags of the close with which a side answers the other side's close.
// The answer is free, so it can be sent whatever the limit is. A lingering channel is
// charged to the limit until its answer is acknowledged. If answers were charged too, two
// sides that close many channels would wait for each other.
const flagAnswer = byte(ReliableUnordered) | flagWhole | flagClose

// answers reports whether an entry is the answer to a close.
func answers(flags byte, size int) bool { return flags&^flagOpen == flagAnswer && size == 0 }

// inMemory returns the maximum memory that a payload takes. The allocator rounds sizes up
// by about an eighth.
func inMemory(size int) int { return size + size/8 }

// unreliablePrice returns the price of waiting unreliable or tracked messages, at either
// end.
func unreliablePrice(messages, bytes int) int { return messages*messageCost + inMemory(bytes) }

// messagesIn counts the messages of a whole bunch, up to the first that cannot be parsed.
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

// charge charges the price of an arrival to the limit of channel 0 or of the peer.
func (c *Conn) charge(ch *channel, cost int) error {
	if ch.number == 0 {
		c.flow.control += cost
		if c.flow.control > maxControl {
			return violation(ReceiveLimitExceeded, "%d bytes wait on the control channel, at most %d",
				c.flow.control, maxControl)
		}
		return nil
	}
	if !c.flow.take(cost) {
		return violation(ReceiveLimitExceeded, "%d reliable bytes came, %d are allowed",
			c.flow.received, c.flow.advertised)
	}
	return nil
}

// chargeEntry charges an entry when its first piece arrives. The channelCost of an open is
// not included: Conn.incoming charged it when the channel's first bunch arrived.
func (c *Conn) chargeEntry(ch *channel, s *slot) error {
	if answers(s.flags, len(s.payload)) && !ch.outClosed {
		return violation(BunchDataOverflow, "channel %d: an answer to a close that was never sent", ch.number)
	}
	return c.charge(ch, price(s.flags&^flagOpen, len(s.payload), 1))
}

// chargeMessages charges all messages of a whole bunch except the first, once the whole
// bunch has arrived.
func (c *Conn) chargeMessages(ch *channel, s *slot) error {
	if s.flags&flagWhole != flagWhole {
		return nil
	}
	return c.charge(ch, max(0, messagesIn(s.payload)-1)*messageCost)
}

// paid returns how much of an entry's price is freed when its messages are taken.
//
// It excludes the slot of a message that has overtaken others, which is freed when its turn
// comes. It also excludes the channel of a close, which retire frees.
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

// release frees a cost that was charged.
func (c *Conn) release(number uint64, cost int) {
	if number == 0 {
		c.flow.control -= cost
		return
	}
	c.consume(uint64(cost))
}
