package bunch

import "time"

const (
	// maxUnreliable is how much memory the waiting unreliable messages may cost (unreliablePrice), and the tracked ones as much again. Beyond it the
	// oldest unreliable messages of a channel make room for its new one; a new tracked message is dropped.
	maxUnreliable = 256 << 10
	// freshTime plus a round trip is how long an unreliable message may wait for the rate or the path; chances stretches that by half at most.
	// In freshTime, six ticks at 30 Hz, what was too much for one tick can leave; in the round trip a window opens, or the channel that the
	// message comes [Conn.After] is acked. What leaves later is too old for a player to react to. UE drops an unreliable RPC at the
	// call when the connection is saturated, and a multicast when two of its kind wait already for the actor's next update.
	freshTime = 200 * time.Millisecond
)

// backlog counts the unreliable messages that wait, and their bytes. It counts messages too, because one may have no bytes.
type backlog struct{ messages, bytes int }

func (b *backlog) add(messages, bytes int) { b.messages, b.bytes = b.messages+messages, b.bytes+bytes }

// chances remembers when unreliable messages waited while AppendPacket was free to send new ones: those that stayed were kept back by the owner's
// rate, the room of the packet, or [Conn.After]. A message that was queued before such a moment, and still waits freshTime plus a round
// trip after it, is too old. Its age alone does not tell: Send is not told the time, so datagram.at may lie long before the call, and
// while a long tick is corked no message can leave.
type chances struct {
	at  [5]time.Duration // the newest first; at least a quarter of the permitted wait apart, so five reach back for all of it
	old time.Duration    // unreliable messages queued before then are too old; set by note
}

// note notes a chance at now; wait is how long a message may wait after one.
func (c *chances) note(now, wait time.Duration) {
	for _, at := range c.at {
		if now-at >= wait {
			c.old = at
			break
		}
	}
	if now-c.at[0] >= wait/4 {
		copy(c.at[1:], c.at[:])
		c.at[0] = now
	}
}

// datagram is an unreliable message on its way out.
type datagram struct {
	payload  []byte // from the connection's blocks, or its own when longer than one
	delivery Delivery
	message  uint16        // its number, if it leaves in parts; set when the first one leaves
	part     uint8         // index of the next part to leave
	after    uint64        // reliable entries below this sequence were queued earlier and leave first
	at       time.Duration // the connection's clock when it was queued
}

// parts returns the number of bunches in which the message leaves.
func (d *datagram) parts() int { return max(1, (len(d.payload)+EntryBytes-1)/EntryBytes) }

// last reports whether the next part is the last one.
func (d *datagram) last() bool { return int(d.part) == d.parts()-1 }

// bunch returns the bunch of the next part.
func (d *datagram) bunch(channel uint64) (h header, payload []byte) {
	h = header{flags: byte(d.delivery), channel: channel, sequence: d.message, part: d.part}
	if d.part == 0 {
		h.flags |= flagBegin
	}
	if d.last() {
		h.flags |= flagEnd
	}
	payload = d.payload[int(d.part)*EntryBytes:]
	return h, payload[:min(len(payload), EntryBytes)]
}

// sendUnreliable queues an unreliable message. When too many wait, the oldest of its channel make room, because a newer one is worth more. One
// that has begun to leave in parts stays: if the next message always replaced it, nothing but beginnings would arrive. When there are no
// others, the new message is dropped and counted.
func (c *Conn) sendUnreliable(ch *channel, delivery Delivery, payload []byte) {
	begun := ch.begunUnreliable()
	for c.crowded(len(payload)) && ch.unreliable.len() > begun {
		c.dropUnreliable(ch, begun)
	}
	if c.crowded(len(payload)) {
		c.stats.DroppedUnreliable++
		return
	}
	if c.traced() {
		c.trace(Event{Kind: "queued", Channel: ch.number, Bytes: len(payload), Delivery: delivery})
	}
	d := datagram{delivery: delivery, after: ch.next, at: c.now}
	if len(payload) <= EntryBytes {
		d.payload = append(c.blocks.get(len(payload)), payload...)
	} else {
		d.payload = append(make([]byte, 0, len(payload)), payload...)
	}
	c.unreliables.add(1, len(payload))
	if ch.earlier != nil {
		c.saturation.behind++
	} else {
		c.saturation.young++
	}
	ch.unreliable.push(d)
	c.addQueued(ch, len(payload))
	c.schedule(ch)
}

// dropUnreliable drops the i-th of ch's waiting messages, counted from 0, the oldest, or what is left of it when some of its parts have left.
func (c *Conn) dropUnreliable(ch *channel, i int) {
	d := ch.unreliable.take(i)
	left := len(d.payload) - int(d.part)*EntryBytes
	c.unreliables.add(-1, -left)
	c.addQueued(ch, -left)
	if ch.earlier != nil {
		c.saturation.behind--
	}
	c.blocks.put(d.payload)
	c.stats.DroppedUnreliable++
	if c.traced() {
		c.trace(Event{Kind: "dropped", Channel: ch.number, Bytes: left, Delivery: d.delivery})
	}
}

// dropStale drops the unreliable messages of ch that have waited through an outage, and those that have waited for too long (see chances) and
// have not begun to leave in parts. They are at the head of its queue, which is in the order of at.
func (c *Conn) dropStale(ch *channel) {
	for ch.unreliable.len() > 0 {
		d := ch.unreliable.peek()
		if d.at >= c.saturation.stale && (d.at >= c.saturation.chances.old || d.part > 0) {
			return
		}
		c.dropUnreliable(ch, 0)
	}
}

// placeUnreliable places the next part of the oldest unreliable message of ch, if it fits. Its loss is not repaired: once the packet cannot be
// taken back any more (settle), nothing remembers the part.
func (c *Conn) placeUnreliable(ch *channel) placed {
	d := ch.unreliable.peek()
	if d.part == 0 {
		d.message = ch.nextMessage
	}
	h, payload := d.bunch(ch.number)
	if h.size()+len(payload) > c.build.room() {
		return noRoom
	}
	if h.inParts() && d.part == 0 {
		ch.nextMessage++
	}

	c.add(h, payload, uint64(d.parts()-1-int(d.part)), false)
	c.placed = append(c.placed, placedDatagram{channel: ch, datagram: *d})
	c.unreliables.add(0, -len(payload))
	c.addQueued(ch, -len(payload))
	if d.part++; int(d.part) == d.parts() {
		c.unreliables.add(-1, 0)
		ch.unreliable.pop()
	}
	return done
}

// receiveUnreliable takes an unreliable bunch that came in packet number, a datagram of size bytes. The unreliable bunches of a channel leave once
// and in the order of their messages. So packet numbers, which never wrap, say which of two UnreliableSequenced messages is the newer one;
// in one packet it is the later.
func (c *Conn) receiveUnreliable(ch *channel, number uint64, h header, payload []byte, size int) error {
	if ch.number == 0 {
		return violation(BunchBadChannelIndex, "an unreliable bunch on the control channel")
	}
	if !ch.opened {
		c.stats.DroppedBeforeOpen++
		return nil
	}

	last := number // the newest packet that brought a part of the message
	if h.delivery() == UnreliableSequenced && number < ch.newest {
		c.stats.DroppedLate++
		return nil
	}
	if h.inParts() {
		var whole []byte
		var err error
		if whole, last, err = c.assemble(ch, number, h, payload); whole == nil || err != nil {
			return err
		}
		payload, size = whole, len(whole)
	}

	if len(payload) > c.limits.MaxBunch {
		return violation(PartialTooLarge, "channel %d: a message of %d bytes, at most %d (MaxBunch)", ch.number, len(payload), c.limits.MaxBunch)
	}
	if h.delivery() == UnreliableSequenced {
		ch.newest = last
	}
	if !c.deliverUnreliable(ch, Message{Delivery: h.delivery(), Payload: payload}, size) {
		c.stats.DroppedUnreliable++
	}
	return nil
}

// deliverUnreliable hands out an unreliable or tracked message. These are not charged to the peer's limit; it returns false when too
// many wait because the owner does not fetch them.
func (c *Conn) deliverUnreliable(ch *channel, m Message, size int) (fits bool) {
	cost := unreliablePrice(1, len(m.Payload))
	if !c.assemblies.fits(cost) {
		return false
	}
	c.assemblies.waiting += cost
	s := slot{flags: flagWhole}
	c.payloads.keep(&s, m.Payload, size)
	m.Payload, m.pinned = s.payload, s.pinned
	c.deliver(ch, &m)
	return true
}
