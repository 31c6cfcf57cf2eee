package bunch

import "slices"

// A placedDatagram is an unreliable bunch in the last packet, for Unsent.
type placedDatagram struct {
	channel *channel
	datagram
}

// settle frees the memory needed by Unsent. From now on, the last packet cannot be taken
// back.
func (c *Conn) settle() {
	for _, u := range c.placed {
		if u.last() {
			c.blocks.put(u.payload)
		}
	}
	clear(c.placed)
	c.placed = c.placed[:0]
}

// Unsent takes back the content of the packet that AppendPacket returned last, because the
// datagram was not sent. It ignores any number but that packet's.
//
// The packet's reliable and unreliable bunches, acks and limit are queued again, and Fates
// reports its tracked messages with Back. Its number is not used again, like the numbers
// left out on purpose. The packet and its bunches stay counted as sent. Its reliable
// bunches count as resent when they are sent again.
func (c *Conn) Unsent(number uint64) {
	if number+1 != c.sent.Next || !c.sent.Has(number) {
		return
	}
	p := c.sent.At(number)
	if p.fate != flying && p.fate != nothing {
		return // acknowledged or declared lost in the meantime
	}
	if c.traced() {
		c.trace(Event{Kind: "unsent", Number: number, Bytes: p.size})
	}

	// Queue its bunches again.
	for _, it := range p.items {
		c.giveBack(it)
	}
	c.unsendDatagrams()
	for _, record := range p.records {
		c.tracked.fates.push(Fate{Record: record, Back: true})
	}

	// Restore what it requested, announced and acknowledged.
	if p.probe {
		c.loss.probes++
	}
	c.flow.update = c.flow.update || p.limit
	if p.acks {
		c.received.asking = max(c.received.asking, 1)
		c.received.deadline = c.now
	}
	c.sent.decide(p, skipped)
	c.sent.unload(p)
	p.lostUntil = c.now + lostMemory*c.pto()
	c.changed = true
}

// unsendDatagrams returns the unreliable bunches of a packet that was not sent to the front
// of their queues, the last one first.
//
// The last part of a message, or a whole message, becomes a message of its own there. An
// earlier part rejoins the rest of its message, which is still at the front because nothing
// drops it before the next packet.
func (c *Conn) unsendDatagrams() {
	for _, u := range slices.Backward(c.placed) {
		ch := u.channel
		_, payload := u.bunch(ch.number)
		switch {
		case c.channels.find(ch.number) == nil:
			c.stats.DroppedUnreliable++ // both ends have closed the channel in the meantime
			continue
		case u.last():
			ch.unreliable.insert(0, u.datagram)
			c.unreliables.add(1, 0)
		default:
			ch.unreliable.peek().part = u.part
		}
		c.unreliables.add(0, len(payload))
		c.addQueued(ch, len(payload))
		c.schedule(ch)
	}
	c.placed = c.placed[:0]
}
