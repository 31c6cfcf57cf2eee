package bunch

import (
	"time"

	"github.com/quivernet/quiver/internal/pages"
)

// maxMessages is the maximum number of messages in a whole bunch, which packs complete
// messages into one entry. An empty message takes one byte on the wire, but messageCost at
// the receiver. Without the limit, a packet of 1,100 bytes could make the receiver hold
// 1,100 messages.
const maxMessages = 32

// deliverWhole delivers the messages of a whole bunch. The last message carries the cost of
// the whole entry, which Take returns to the peer's limit. An empty payload is only a
// close, and possibly an open; it is always reliable.
func (c *Conn) deliverWhole(ch *channel, s *slot) error {
	if len(s.payload) == 0 {
		if s.flags&flagClose == 0 {
			return violation(BunchDataOverflow, "channel %d: a whole bunch without a message", ch.number)
		}
		c.deliver(ch, &Message{
			Delivery: Reliable,
			Open:     s.flags&flagOpen != 0,
			Close:    true,
			cost:     int32(paid(s, 1)),
		})
		return nil
	}
	m := Message{Delivery: Delivery(s.flags & deliveryMask), Open: s.flags&flagOpen != 0}
	b := s.payload
	for count := 1; len(b) > 0; count++ {
		size, n := consumeVarint(b)
		if n == 0 || size > uint64(len(b)-n) || count > maxMessages {
			return violation(BunchDataOverflow, "channel %d: message %d of a whole bunch", ch.number, count)
		}
		if int(size) > c.limits.MaxBunch {
			return violation(PartialTooLarge, "channel %d: a message of %d bytes, at most %d (MaxBunch)",
				ch.number, size, c.limits.MaxBunch)
		}
		end := n + int(size)
		m.Payload = b[n:end:end]
		b = b[end:]
		if len(b) == 0 {
			m.Close = s.flags&flagClose != 0
			m.cost = int32(paid(s, count))
			m.pinned = s.pinned
		}
		c.deliver(ch, &m)
		m.Open = false
	}
	return nil
}

// deliver appends a message to the ready list and wakes the owner.
func (c *Conn) deliver(ch *channel, m *Message) {
	m.Channel, m.at = ch.number, grains(c.now)
	ch.opened = ch.opened || m.Open
	c.ready.push(m)
	if c.traced() {
		c.trace(Event{
			Kind:     "ready",
			Channel:  ch.number,
			Number:   c.arriving,
			Bytes:    len(m.Payload),
			Delivery: m.Delivery,
		})
	}
	c.wake = true
}

// grains returns t in units of grain. It wraps after about 19 hours.
func grains(t time.Duration) uint32 { return uint32(t / grain) }

// Waited returns how long ago a message was complete, with an error of less than 16 µs. It
// may be called on any goroutine, and for 9 hours after Take.
func (c *Conn) Waited(now time.Time, m *Message) time.Duration {
	since := int32(grains(now.Sub(c.start)) - m.at)
	return time.Duration(max(0, since)) * grain
}

// deliverUnordered delivers the unordered message that contains the i-th parked entry, if
// all its entries have arrived. Earlier messages may still be missing. A message that opens
// or closes the channel is delivered in order.
func (c *Conn) deliverUnordered(ch *channel, i int) error {
	if !ch.opened {
		return nil // the message that opens the channel must be delivered first
	}
	first, last, ok := ch.in.unorderedAround(i)
	if !ok {
		return nil
	}
	for k := first; k <= last; k++ {
		s := ch.in.at(k)
		s.state = delivered
		if err := c.deliverEntry(ch, &c.unordered, s); err != nil {
			return err
		}
		s.payload = nil
	}
	return nil
}

// Next returns the next complete message, which then counts as consumed. ok is false if
// there is none.
func (c *Conn) Next() (m Message, ok bool) {
	var one [1]Message
	n := c.Take(one[:])
	return one[0], n == 1
}

// Ready returns the number of complete messages waiting for Next or Take.
func (c *Conn) Ready() int { return c.ready.len() }

// takeBytes is the maximum number of bytes that one Take returns, unless a single message
// has more. Messages already taken count against no limit, so this bounds what a slow owner
// holds outside of them.
const takeBytes = 16 << 10

// Take fills into with complete messages, oldest first, and returns how many there were. It
// stops before they exceed 16 KiB, but returns one of any size. They count as consumed.
//
// The other messages stay here. Once they reach the ReceiveLimit (see [Config]), the peer
// must stop sending.
func (c *Conn) Take(into []Message) int {
	n, size, cost := 0, 0, 0
	for n < len(into) && c.ready.len() > 0 {
		if size += len(c.ready.peek().Payload); n > 0 && size > takeBytes {
			break
		}
		c.ready.pop(&into[n])
		cost += c.fetched(&into[n])
		n++
	}
	if cost > 0 {
		c.consume(uint64(cost))
	}
	return n
}

// Reuse returns the memory of a message from Next or Take. Call it at most once for a
// message, and do not use any copy of the message or its Payload afterwards.
//
// Only pages of 32 KiB, which hold bulk messages of 28 to 32 KiB, are actually reused.
// Another connection may at once write its own peer's data into the page. Reuse touches
// nothing of c and may be called on any goroutine, like [Conn.Waited].
func (c *Conn) Reuse(m *Message) {
	if m.joined && cap(m.Payload) == pages.Size {
		pages.Give((*pages.Page)(m.Payload[:pages.Size]))
	}
	*m = Message{}
}

// fetched subtracts a message that Take moves from the memory held here. It returns the
// part of the peer's limit that this frees.
func (c *Conn) fetched(m *Message) (cost int) {
	c.payloads.pinned -= int(m.pinned)
	switch {
	case m.Delivery >= Unreliable:
		c.assemblies.waiting -= unreliablePrice(1, len(m.Payload))
	case m.Channel == 0:
		c.flow.control -= int(m.cost)
	default:
		cost = int(m.cost)
	}
	m.cost = 0
	m.pinned = 0
	return cost
}
