package bunch

import "slices"

// placedDatagram is an unreliable bunch of the last packet, for Unsent.
type placedDatagram struct {
	channel *channel
	datagram
}

// settle frees what Unsent would need: the last packet can no longer be taken back.
func (c *Conn) settle() {
	for _, u := range c.placed {
		if u.last() {
			c.blocks.put(u.payload)
		}
	}
	clear(c.placed)
	c.placed = c.placed[:0]
}

// Unsent takes back what was in the packet that AppendPacket returned last, because the datagram did not leave: its reliable and unreliable
// bunches, acks and limit wait again, and Fates tells that its tracked messages are back. Its number is used up like those that are left out.
// Any other number is ignored. The packet and its bunches count as sent, and the reliable ones as sent again when they leave.
func (c *Conn) Unsent(number uint64) {
	if number+1 != c.sent.Next || !c.sent.Has(number) {
		return
	}
	p := c.sent.At(number)
	if p.fate != flying && p.fate != nothing {
		return // the peer says that it came, or it was given up meanwhile
	}
	if c.traced() {
		c.trace(Event{Kind: "unsent", Number: number, Bytes: p.size})
	}

	// Its bunches wait again.
	for _, it := range p.items {
		c.giveBack(it)
	}
	c.unsendDatagrams()
	for _, record := range p.records {
		c.tracked.fates.push(Fate{Record: record, Back: true})
	}

	// So does what it asked, told and acknowledged.
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

// unsendDatagrams puts the unreliable bunches of a packet that never left back to the heads of their queues, the last one first. The last part of
// a message, or a whole one, is a message of its own there; an earlier part joins the rest of its message, which is at the head: nothing drops
// that before the next packet.
func (c *Conn) unsendDatagrams() {
	for _, u := range slices.Backward(c.placed) {
		ch := u.channel
		_, payload := u.bunch(ch.number)
		switch {
		case c.channels.find(ch.number) == nil:
			c.stats.DroppedUnreliable++ // closed by both meanwhile
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
