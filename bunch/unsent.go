package bunch

import "slices"

// A placedDatagram is an unreliable bunch in the last packet, for Unsent.
type placedDatagram struct {
	channel *channel
	datagram
}

// settle frees what Unsent would need: from now on the last packet cannot be taken back.
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
// datagram was not sent. Its reliable and unreliable bunches, acks and limit are queued
// again, and Fates reports its tracked messages with Back. Its number is not used again,
// like those that are left out. Any other number is ignored. The packet and its bunches
// stay counted as sent, and the reliable ones count as sent again when they are sent.
func (c *Conn) Unsent(number uint64) {
	if number+1 != c.sent.Next || !c.sent.Has(number) {
		return
	}
	p := c.sent.At(number)
	if p.fate != flying && p.fate != nothing {
		return // the peer has acknowledged it, or it was declared lost meanwhile
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

	// Restore what it asked for, announced and acknowledged.
	if p.probe {
		c.loss.probes++
	}
	c.flow.update = c.flow.update || p.limit
	if p.acks {
		c.received.asking, c.received.deadline = max(c.received.asking, 1), c.now
	}
	c.sent.decide(p, skipped)
	c.sent.unload(p)
	p.lostUntil = c.now + lostMemory*c.pto()
	c.changed = true
}

// unsendDatagrams returns the unreliable bunches of a packet that was not sent to the
// heads of their queues, the last one first. The last part of a message, or a whole
// one, becomes a message of its own there. An earlier part joins the rest of its
// message, which is at the head, because nothing drops that before the next packet.
func (c *Conn) unsendDatagrams() {
	for _, u := range slices.Backward(c.placed) {
		ch := u.channel
		_, payload := u.bunch(ch.number)
		switch {
		case c.channels.find(ch.number) == nil:
			c.stats.DroppedUnreliable++ // both ends have closed the channel meanwhile
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
