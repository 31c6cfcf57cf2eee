package bunch

// Costs of reliable bunches, in bytes. Both ends compute them, and charge them to the sender's
// limit until the receiver's owner has taken the messages. The cost of a bunch is never less than
// the memory that it takes at the receiver, no matter in what order bunches arrive
// (TestHeapIsCharged).
const (
	entryCost   = 80 // an entry, excluding its bytes: its slot, and its place among parked entries
	messageCost = 64 // a message, excluding its bytes: its record in the ready list

	// channelCost is the cost of a channel from its first entry until the owner takes its opening
	// message. It's charged again from the channel's close until both ends have acknowledged the
	// close.
	channelCost = 512
)

// Limits of memory that isn't charged to the receive limit.
const (
	controlBuffer = 64 // entries of channel 0's reliable buffer, which is only for control messages

	// maxControl limits the cost of everything that channel 0 holds. It suffices for two
	// messages of 64 KiB. The limit is separate so that control messages get through while the
	// owner takes no others.
	maxControl = 160 << 10

	// maxParked limits the cost of unreliable and tracked messages that wait for the owner,
	// including unreliable messages that have arrived only in part.
	maxParked = 256 << 10
)

// costOf returns the cost of an entry with size bytes. messages is the number of messages in a
// whole bunch, and otherwise 1.
//
// The sender charges itself all of it at once. The receiver charges channelCost when it accepts a
// new channel (findOrAccept), the rest without messageCost for further messages when the entry
// arrives (chargeEntry), and that when all of the bunch has arrived (chargeMessages). It refunds
// all but the channelCost of a close when the owner takes the messages (refund), and that when both
// ends have acknowledged the close (retire).
func costOf(flags byte, size, messages int) int {
	if isAnswer(flags, size) {
		return 0
	}
	cost := entryCost + allocatedSize(size)
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

// answerFlags are the flags of a close that answers the other side's close.
//
// An answer is free, so that it can be sent no matter what the limit is. If answers were charged,
// two sides that close many channels might wait for each other forever. Instead, the lingering
// channel is charged to the limit until the answer is acknowledged.
const answerFlags = byte(ReliableUnordered) | flagWhole | flagClose

// isAnswer reports whether an entry answers a close.
func isAnswer(flags byte, size int) bool { return flags&^flagOpen == answerFlags && size == 0 }

// allocatedSize returns the most memory that a payload of size bytes can take, given that the
// allocator rounds sizes up by about an eighth.
func allocatedSize(size int) int { return size + size/8 }

// unreliableCost returns the cost of unreliable or tracked messages that wait at either end.
func unreliableCost(messages, bytes int) int { return messages*messageCost + allocatedSize(bytes) }

// messagesIn counts the messages in a whole bunch, up to the first that can't be parsed.
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

// charge counts a cost against the peer's limit or, for channel 0, against maxControl. It returns
// an error if the peer has exceeded that limit.
func (c *Conn) charge(ch *channel, cost int) error {
	if ch.number == 0 {
		if !c.flow.chargeControl(cost) {
			return violation(ReceiveLimitExceeded, "control messages hold %d bytes; the limit is %d",
				c.flow.control, maxControl)
		}
		return nil
	}
	if !c.flow.charge(cost) {
		return violation(ReceiveLimitExceeded, "reliable messages from the peer cost %d bytes; the limit is %d (ReceiveLimit)",
			c.flow.received, c.flow.advertised)
	}
	return nil
}

// chargeEntry charges for an entry when its first piece arrives. If the entry opens the
// channel, channelCost was already charged when findOrAccept accepted the channel.
func (c *Conn) chargeEntry(ch *channel, s *slot) error {
	if isAnswer(s.flags, len(s.payload)) && !ch.outClosed {
		return violation(BunchDataOverflow, "channel %d: answer to a close that was never sent", ch.number)
	}
	return c.charge(ch, costOf(s.flags&^flagOpen, len(s.payload), 1))
}

// chargeMessages charges for all messages of a whole bunch except for the first, for which
// chargeEntry has charged. It's called when all of the bunch has arrived.
func (c *Conn) chargeMessages(ch *channel, s *slot) error {
	if s.flags&flagWhole != flagWhole {
		return nil
	}
	return c.charge(ch, max(0, messagesIn(s.payload)-1)*messageCost)
}

// refund returns how much of an entry's cost is given back when its messages are taken.
func refund(s *slot, messages int) int {
	if isAnswer(s.flags, len(s.payload)) {
		return 0
	}
	cost := costOf(s.flags&^flagClose, len(s.payload), messages) // retire refunds a closed channel
	if s.state == delivered {
		// Its message overtook others, so the slot is still needed until its turn comes.
		cost -= entryCost
	}
	return cost
}

// release gives back a cost that charge has charged for a channel.
func (c *Conn) release(number uint64, cost int) {
	if number == 0 {
		c.flow.releaseControl(cost)
		return
	}
	c.consume(uint64(cost))
}
