package bunch

import "time"

const (
	// maxUnreliable is the maximum memory that a connection's queued unreliable messages
	// may take, as unreliablePrice counts it. Tracked messages may take as much again. When
	// it is used up, the oldest unreliable messages of a channel make room for its next
	// one, and a new tracked message is dropped.
	maxUnreliable = 256 << 10
	// freshTime plus a round trip is how long an unreliable message may wait to be sent.
	// With chances it may become half as long again. A message that is sent later is too
	// old for a player to react to.
	//
	// freshTime, six ticks at 30 Hz, allows for a tick that queued too much at once. The
	// round trip allows for a full window, and for the ack of the channel that the message
	// follows (see [Conn.After]).
	//
	// UE drops an unreliable RPC at the call if the connection is saturated, and a
	// multicast if two of its kind already wait for the actor's next update.
	freshTime = 200 * time.Millisecond
)

// A backlog counts the queued unreliable messages and their bytes. It counts messages as
// well because a message may be empty.
type backlog struct{ messages, bytes int }

func (b *backlog) add(messages, bytes int) {
	b.messages += messages
	b.bytes += bytes
}

// chances records the times at which AppendPacket was free to send unreliable messages but
// left some in the queue: for lack of rate, for lack of room in the packet, or because of
// [Conn.After].
//
// A message is too old if it was queued before such a chance and is still queued freshTime
// plus a round trip after it. Its age alone does not show that. Send does not know the
// time, so datagram.at may be long before the call, and no message can be sent while a long
// tick is corked.
type chances struct {
	// Newest first. They are at least a quarter of the permitted wait apart, so five cover
	// all of it.
	at  [5]time.Duration
	old time.Duration // unreliable messages queued before this time are too old; set by note
}

// note records a chance at now. wait is how long a message may wait after a chance.
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

// A datagram is a queued unreliable message.
type datagram struct {
	payload  []byte // a block of the connection, or memory of its own if it is longer
	delivery Delivery
	message  uint16        // number of a message in parts; set when its first part is sent
	part     uint8         // index of the next part to send
	after    uint64        // reliable entries below this sequence were queued earlier and are sent first
	at       time.Duration // the connection's clock when the message was queued
}

// parts returns the number of bunches that the message takes.
func (d *datagram) parts() int { return max(1, (len(d.payload)+EntryBytes-1)/EntryBytes) }

// last reports whether the next part to send is the last one.
func (d *datagram) last() bool { return int(d.part) == d.parts()-1 }

// bunch returns the bunch of the next part to send.
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

// sendUnreliable queues an unreliable message. If too many are queued, it drops the oldest
// ones of the channel, because a newer message is worth more.
//
// A message that was sent in part stays. If the next message always replaced it, no message
// would ever arrive whole. If no message of the channel may be dropped, the new one is
// dropped and counted.
func (c *Conn) sendUnreliable(ch *channel, delivery Delivery, payload []byte) {
	begun := ch.begunUnreliable()
	for c.unreliableFull(len(payload)) && ch.unreliable.len() > begun {
		c.dropUnreliable(ch, begun)
	}
	if c.unreliableFull(len(payload)) {
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
		c.saturation.deferred++
	} else {
		c.saturation.newUnreliable++
	}
	ch.unreliable.push(d)
	c.addQueued(ch, len(payload))
	c.schedule(ch)
}

// dropUnreliable drops a queued message of ch, or the parts of it that were not sent yet.
// Index i is 0 for the oldest message.
func (c *Conn) dropUnreliable(ch *channel, i int) {
	d := ch.unreliable.take(i)
	left := len(d.payload) - int(d.part)*EntryBytes
	c.unreliables.add(-1, -left)
	c.addQueued(ch, -left)
	if ch.earlier != nil {
		c.saturation.deferred--
	}
	c.blocks.put(d.payload)
	c.stats.DroppedUnreliable++
	if c.traced() {
		c.trace(Event{Kind: "dropped", Channel: ch.number, Bytes: left, Delivery: d.delivery})
	}
}

// dropStale drops unreliable messages of ch that were queued before an outage. It also
// drops those that have waited for too long (see chances), unless they were sent in part.
// All of these are at the front of the queue, which is in the order of at.
func (c *Conn) dropStale(ch *channel) {
	for ch.unreliable.len() > 0 {
		d := ch.unreliable.peek()
		if d.at >= c.saturation.staleBefore && (d.at >= c.saturation.chances.old || d.part > 0) {
			return
		}
		c.dropUnreliable(ch, 0)
	}
}

// placeUnreliable puts the next part of ch's oldest unreliable message into the packet, if
// it fits. A lost part is not resent: once the packet can no longer be taken back (see
// settle), nothing refers to the part.
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
	d.part++
	if int(d.part) == d.parts() {
		c.unreliables.add(-1, 0)
		ch.unreliable.pop()
	}
	return done
}

// receiveUnreliable handles an unreliable bunch of packet number, a datagram of size bytes.
//
// The peer sends the unreliable bunches of a channel once and in the order of their
// messages. Packet numbers never wrap, so they show which of two UnreliableSequenced
// messages is newer. Within a packet, the later one is.
func (c *Conn) receiveUnreliable(ch *channel, number uint64, h header, payload []byte, size int) error {
	if ch.number == 0 {
		return violation(BunchBadChannelIndex, "an unreliable bunch on the control channel")
	}
	if !ch.opened {
		c.stats.DroppedBeforeOpen++
		return nil
	}

	last := number // the newest packet with a part of the message
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
		return violation(PartialTooLarge, "channel %d: a message of %d bytes, at most %d (MaxBunch)",
			ch.number, len(payload), c.limits.MaxBunch)
	}
	if h.delivery() == UnreliableSequenced {
		ch.newest = last
	}
	if !c.deliverUnreliable(ch, Message{Delivery: h.delivery(), Payload: payload}, size) {
		c.stats.DroppedUnreliable++
	}
	return nil
}

// deliverUnreliable makes an unreliable or tracked message available to Next. Such messages
// are not charged to the peer's limit. Instead, deliverUnreliable drops the message and
// returns false if too many are waiting for the owner.
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
