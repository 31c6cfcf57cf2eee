package bunch

import "slices"

// A placedUnreliable is an unreliable bunch in the last packet, with a copy of the message as it
// was before the bunch was added.
type placedUnreliable struct {
	channel *channel
	unreliableMessage
}

// commitLast is called before the next packet is built. It frees what Unsent would need to take
// back the last packet.
func (c *Conn) commitLast() {
	for _, u := range c.lastUnreliable {
		if u.atLastPart() {
			c.blocks.put(u.payload)
		}
	}
	clear(c.lastUnreliable)
	c.lastUnreliable = c.lastUnreliable[:0]
}

// Unsent takes back the contents of the last packet from AppendPacket, because the datagram
// could not be sent. It does nothing if number does not belong to the last packet.
//
// The packet's reliable and unreliable bunches, acks and limit are queued again, and Fates
// reports its tracked messages with Back. The packet number is not reused, but counts as
// deliberately skipped. Statistics still count the packet and its bunches as sent, and count the
// reliable bunches as resent when they are sent again.
func (c *Conn) Unsent(number uint64) {
	if number+1 != c.sent.Next || !c.sent.Has(number) {
		return
	}
	p := c.sent.At(number)
	if p.fate != inFlight && p.fate != noFate {
		return // it has been acknowledged or declared lost
	}
	if c.traced() {
		c.trace(Event{Kind: "unsent", Number: number, Bytes: p.size})
	}

	for _, it := range p.items {
		c.removeCopy(it)
	}
	c.requeueUnreliable()
	for _, record := range p.tracked {
		c.tracked.fates.push(Fate{Record: record, Back: true})
	}

	// Probes, limits and acks have to be sent again, too.
	if p.probe {
		c.loss.probes++
	}
	if p.limit {
		c.flow.updateDue = true
	}
	if p.acks {
		c.received.ackUnsent(c.now)
	}
	c.sent.decide(p, skipped)
	c.sent.uncountBunches(p)
	p.lostUntil = c.now + lostRecordPTOs*c.pto()
	c.changed = true
}

// requeueUnreliable puts the unreliable bunches of a packet that wasn't sent back at the front
// of their queues, the last one first.
func (c *Conn) requeueUnreliable() {
	for _, u := range slices.Backward(c.lastUnreliable) {
		ch := u.channel
		_, payload := u.nextBunch(ch.number)
		switch {
		case c.channels.find(ch.number) == nil:
			// Both ends have closed the channel in the meantime.
			c.stats.DroppedUnreliable++
			continue
		case u.atLastPart():
			// It was the last part, so the message is no longer in the queue.
			ch.unreliable.insert(0, u.unreliableMessage)
			c.unreliables.add(1, 0)
		default:
			// The rest of the message is still at the front of the queue, because nothing drops
			// it before the next packet is built.
			ch.unreliable.peek().part = u.part
		}
		c.unreliables.add(0, len(payload))
		c.addQueued(ch, len(payload))
		c.schedule(ch)
	}
	c.lastUnreliable = c.lastUnreliable[:0]
}
