package bunch

import (
	"time"

	"github.com/quivernet/quiver/internal/pages"
)

// maxParts is the number of entries, or of unreliable parts, that a message of
// MaxBunchBytes takes: 60.
const maxParts = (MaxBunchBytes + EntryBytes - 1) / EntryBytes

// maxMessages is the maximum number of messages in a whole bunch, which is an entry that holds
// complete messages. Without a limit, a packet of 1,100 bytes could make us hold 1,100 messages,
// because an empty message takes a single byte on the wire, but messageCost bytes of our memory.
const maxMessages = 32

// deliverWhole delivers the messages in a whole bunch. The last of them carries the cost of the
// entire entry, which is given back to the peer's limit when Take returns that message.
func (c *Conn) deliverWhole(ch *channel, s *slot) error {
	if len(s.payload) == 0 {
		// An empty bunch closes the channel, and may open it as well.
		if s.flags&flagClose == 0 {
			return violation(BunchDataOverflow, "channel %d: whole bunch without a message", ch.number)
		}
		c.deliver(ch, &Message{
			Delivery: Reliable,
			Open:     s.flags&flagOpen != 0,
			Close:    true,
			receipt:  receipt{cost: int32(refund(s, 1))},
		})
		return nil
	}

	m := Message{Delivery: Delivery(s.flags & deliveryMask), Open: s.flags&flagOpen != 0}
	b := s.payload
	for count := 1; len(b) > 0; count++ {
		size, n := consumeVarint(b)
		if n == 0 || size > uint64(len(b)-n) {
			return violation(BunchDataOverflow, "channel %d: message %d of a whole bunch is truncated", ch.number, count)
		}
		if count > maxMessages {
			return violation(BunchDataOverflow, "channel %d: whole bunch has more than %d messages", ch.number, maxMessages)
		}
		if int(size) > c.limits.MaxBunch {
			return tooLarge(ch.number, int(size), c.limits.MaxBunch)
		}
		end := n + int(size)
		m.Payload = b[n:end:end]
		b = b[end:]
		isLast := len(b) == 0
		if isLast {
			m.Close = s.flags&flagClose != 0
			m.receipt.cost = int32(refund(s, count))
			m.receipt.pinned = s.pinned
		}
		c.deliver(ch, &m)
		m.Open = false
	}
	return nil
}

// A run is a message of several entries whose last entry hasn't been processed yet.
type run struct {
	open     bool // the first entry was processed, and the last one wasn't
	delivery Delivery
	opens    bool     // the message opens the channel
	size     int      // bytes of the parts
	cost     int      // bytes of ReceiveLimit that are given back when the message is taken
	pinned   int      // bytes that the parts keep in memory in addition to their own
	parts    [][]byte // payloads of the entries so far
	pooled   uint64   // bit i is set if part i is in a pooled block
}

// addToRun adds an entry to a run. If it's the last entry, the message is delivered.
func (c *Conn) addToRun(ch *channel, r *run, s *slot) error {
	d := Delivery(s.flags & deliveryMask)
	if s.flags&flagBegin != 0 {
		if r.open {
			return violation(PartialInitialReliableDestroy, "channel %d: message begins before the end of the previous one", ch.number)
		}
		*r = run{open: true, delivery: d, opens: s.flags&flagOpen != 0, parts: c.payloads.takeParts()}
	} else if !r.open || d != r.delivery {
		return violation(PartialMergeReliableDestroy, "channel %d: part of a message that has not begun or has another delivery", ch.number)
	}

	r.size += len(s.payload)
	r.cost += refund(s, 1)
	r.pinned += int(s.pinned)
	if r.size > c.limits.MaxBunch || len(r.parts) == maxParts {
		return violation(PartialTooLarge,
			"channel %d: message has at least %d bytes in %d entries; the limits are %d bytes (MaxBunch) and %d entries",
			ch.number, r.size, len(r.parts)+1, c.limits.MaxBunch, maxParts)
	}

	if s.pooled {
		r.pooled |= 1 << len(r.parts)
	}
	r.parts = append(r.parts, s.payload)
	if s.flags&flagEnd == 0 {
		return nil
	}
	c.deliverRun(ch, r, s.flags&flagClose != 0)
	return nil
}

// deliverRun joins the parts of a run and delivers the message.
func (c *Conn) deliverRun(ch *channel, r *run, closes bool) {
	m := Message{
		Delivery: r.delivery,
		Open:     r.opens,
		Close:    closes,
		Payload:  c.payloads.join(r),
		receipt:  receipt{cost: int32(r.cost), joined: true},
	}
	*r = run{}
	c.deliver(ch, &m)
}

// deliver puts a message on the ready list and wakes the owner.
func (c *Conn) deliver(ch *channel, m *Message) {
	m.Channel = ch.number
	m.receipt.at = grains(c.now)
	ch.opened = ch.opened || m.Open
	c.ready.push(m)
	if c.traced() {
		c.trace(Event{
			Kind:     "ready",
			Channel:  ch.number,
			Number:   c.currentPacket,
			Bytes:    len(m.Payload),
			Delivery: m.Delivery,
		})
	}
	c.wake = true
}

// grains returns t in units of grain. It wraps around after about 19 hours.
func grains(t time.Duration) uint32 { return uint32(t / grain) }

// Waited returns the time since a message became complete, with an accuracy of 16 µs. It may be
// called on any goroutine, for up to 9 hours after Take.
func (c *Conn) Waited(now time.Time, m *Message) time.Duration {
	since := int32(grains(now.Sub(c.start)) - m.receipt.at)
	return time.Duration(max(0, since)) * grain
}

// deliverUnordered delivers the unordered message that the i-th parked entry belongs to,
// provided that all of it has arrived. Earlier messages may be missing, except for the one that
// opens the channel. A message that opens or closes the channel has to wait for its turn, so it
// isn't delivered here.
func (c *Conn) deliverUnordered(ch *channel, i int) error {
	if !ch.opened {
		return nil
	}
	first, last, ok := ch.in.unorderedAround(i)
	if !ok {
		return nil
	}
	for k := first; k <= last; k++ {
		s := ch.in.at(k)
		s.state = delivered
		if err := c.deliverEntry(ch, &c.unorderedRun, s); err != nil {
			return err
		}
		s.payload = nil // only the slot is needed until its turn comes
	}
	return nil
}

// Next returns the next complete message, which counts as consumed. ok is false if there is none.
// The caller may keep the message and its Payload. To have their memory reused, call Reuse.
func (c *Conn) Next() (m Message, ok bool) {
	var one [1]Message
	n := c.Take(one[:])
	return one[0], n == 1
}

// Ready returns the number of complete messages that wait for Next or Take.
func (c *Conn) Ready() int { return c.ready.len() }

// takeBytes is the maximum number of bytes that one Take returns, unless a single message is
// larger. Since messages no longer count against any limit once they're taken, takeBytes bounds
// how much a slow owner holds without the peer noticing.
const takeBytes = 16 << 10

// Take fills into with complete messages, oldest first, and returns their number. It stops before
// they exceed 16 KiB, except that the first message may have any size. The messages count as
// consumed.
//
// Messages that Take does not return stay queued. Once they fill the ReceiveLimit (see [Config]),
// the peer has to stop sending.
func (c *Conn) Take(into []Message) int {
	n, size, cost := 0, 0, 0
	for n < len(into) && c.ready.len() > 0 {
		size += len(c.ready.peek().Payload)
		if n > 0 && size > takeBytes {
			break
		}
		c.ready.pop(&into[n])
		cost += c.discharge(&into[n])
		n++
	}
	if cost > 0 {
		c.consume(uint64(cost))
	}
	return n
}

// Reuse gives back the memory of a message from Next or Take. It must be called at most once
// per message. Afterwards, the message, its Payload and all copies of them must not be used.
//
// Only pages of 32 KiB are actually reused. They hold bulk messages of 28 to 32 KiB. Another
// connection may write data from its own peer into such a page right away. Reuse does not touch
// c, so it may be called on any goroutine, like [Conn.Waited].
func (c *Conn) Reuse(m *Message) {
	if m.receipt.joined && cap(m.Payload) == pages.Size {
		pages.Give((*pages.Page)(m.Payload[:pages.Size]))
	}
	*m = Message{}
}

// discharge is called when Take removes a message. The message no longer counts as held here,
// and discharge returns how many bytes of the peer's limit this frees.
func (c *Conn) discharge(m *Message) (cost int) {
	c.payloads.pinned -= int(m.receipt.pinned)
	switch {
	case m.Delivery >= Unreliable:
		c.assemblies.removeWaiting(unreliableCost(1, len(m.Payload)))
	case m.Channel == 0:
		c.flow.releaseControl(int(m.receipt.cost))
	default:
		cost = int(m.receipt.cost)
	}
	m.receipt.cost = 0
	m.receipt.pinned = 0
	return cost
}
