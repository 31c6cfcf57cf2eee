package bunch

import "time"

// undo holds the state with which Unsent takes the last packet back.
type undo struct {
	datagrams []unsentDatagram // its unreliable bunches
	tracked   []trackedMessage // its tracked bunches
	acks      ackTimer         // before the packet, if it acknowledges something
	toTell    toTell           // before the packet
	probe     bool             // the packet asked for a higher limit
	lastAsk   time.Duration    // sentPackets.lastAsk before the packet
}

// unsentDatagram is an unreliable bunch of the last packet.
type unsentDatagram struct {
	channel *channel
	datagram
}

// remember notes the state that launch is about to change.
func (c *Conn) remember(flags byte) {
	c.undo.acks = ackTimer{}
	if flags&flagAcks != 0 {
		c.undo.acks = c.received.ackTimer
	}
	c.undo.probe, c.undo.lastAsk = c.flow.probe, c.sent.lastAsk
}

// settle frees what Unsent would need: the last packet can no longer be taken back.
func (c *Conn) settle() {
	for i, u := range c.undo.datagrams {
		if int(u.part) == u.parts()-1 {
			c.blocks.put(u.payload)
		}
		c.undo.datagrams[i] = unsentDatagram{}
	}
	c.undo.datagrams = c.undo.datagrams[:0]
	c.settleTracked()
	c.repairs.placed = 0
}

// Unsent takes back the packet that AppendPacket returned last, because the datagram did not leave: its bunches, acks and limit wait
// again. Any other number is ignored.
func (c *Conn) Unsent(number uint64) {
	if number+1 != c.sent.Next || c.sent.Cap() == 0 {
		return
	}
	p := c.sent.At(number)
	if p.fate != flying && p.fate != nothing {
		return // the peer says that it came, or it was given up meanwhile
	}
	if p.fate == nothing {
		c.stats.AcksOnlySent--
	}
	if c.traced() {
		c.trace(Event{Kind: "unsent", Number: number, Bytes: p.size})
	}

	// Its bunches wait again.
	for _, it := range p.items {
		c.giveBack(it)
		c.unsendItem(it)
	}
	c.unsendDatagrams()
	c.unsendTracked()
	c.repairs.unsend()

	// So does what it asked, told and acknowledged.
	if p.probe {
		c.loss.probes++
		c.stats.ProbesSent--
	}
	c.flow.update = c.flow.update || p.limit
	c.flow.probe = c.flow.probe || c.undo.probe
	c.received.ackUnsent(c.undo.acks, c.undo.toTell)

	c.stats.PacketsSent--
	c.stats.BytesSent -= uint64(p.size)
	c.sent.unsend(p, c.undo.lastAsk)
	c.loss.overtaken = min(c.loss.overtaken, c.sent.Next)
	c.changed = true
}

// unsendItem counts the pieces of an item that left for the first time as waiting again. Their cost stays charged.
func (c *Conn) unsendItem(it item) {
	c.stats.BunchesSent--
	c.stats.PayloadSent -= uint64(it.end - it.off)
	if !it.first {
		c.stats.BunchesResent--
		return
	}
	ch := it.channel
	if it.sequence < ch.first {
		return
	}
	e := ch.out.at(it.sequence)
	for i := range e.all() {
		if p := &e.pieces[i]; p.off == it.off && p.end == it.end {
			p.sent = false
			c.addQueued(ch, int(p.end-p.off))
		}
	}
}

// unsendDatagrams puts the unreliable bunches of a packet that never left back to the heads of their queues, the last one first.
func (c *Conn) unsendDatagrams() {
	for i := len(c.undo.datagrams) - 1; i >= 0; i-- {
		u := c.undo.datagrams[i]
		size := min(len(u.payload)-int(u.part)*EntryBytes, EntryBytes)
		c.stats.BunchesSent--
		c.stats.PayloadSent -= uint64(size)
		if c.channels.find(u.channel.number) == nil {
			c.stats.DroppedUnreliable++ // closed by both meanwhile
			continue
		}
		if u.part == 0 && u.parts() > 1 {
			u.channel.nextMessage--
		}
		c.unreliables.add(u.pushBack(), size)
		c.addQueued(u.channel, size)
		c.schedule(u.channel)
	}
	c.undo.datagrams = c.undo.datagrams[:0]
}

// pushBack puts an unreliable bunch back at the head of its queue, and returns by how many messages that grew. The last part of a
// message, or a whole one, is a message of its own there; an earlier part joins the rest of its message, which is at the head: nothing
// drops that before the next packet.
func (u *unsentDatagram) pushBack() (messages int) {
	q := &u.channel.unreliable
	if int(u.part) == u.parts()-1 {
		q.unpop(u.datagram)
		return 1
	}
	q.peek().part = u.part
	return 0
}
