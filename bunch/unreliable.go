package bunch

import "time"

const (
	// maxUnreliable is how many bytes of memory queued unreliable messages may take in all, as
	// counted by unreliablePrice. Tracked messages may take as much again. Beyond it, a new
	// unreliable message pushes out the oldest ones of its channel, whereas a new tracked one
	// is dropped.
	maxUnreliable = 256 << 10

	// maxUnreliableWait plus a round trip is how long an unreliable message may wait to be
	// sent, or half as long again (see expiry). If it's sent any later, it's too old for
	// a player to react to.
	//
	// The constant is six ticks at 30 Hz, to allow for a tick that queues too much at once.
	// The round trip allows for a full window, and for the ack of the channel that this one
	// comes after (see [Conn.After]).
	//
	// UE drops an unreliable RPC right at the call if the connection is saturated, and a
	// multicast if two of its kind already wait for the actor's next update.
	maxUnreliableWait = 200 * time.Millisecond
)

// A backlog is a number of unreliable messages and how many bytes they have. We need both,
// since a message may be empty.
type backlog struct{ messages, bytes int }

func (b *backlog) add(messages, bytes int) {
	b.messages += messages
	b.bytes += bytes
}

// An expiry decides which queued messages are too old to be sent: unreliable and tracked ones
// that sat out an outage, and unreliable ones that were passed over for too long.
//
// For the latter it remembers the chances, which are the times when AppendPacket was free to
// send unreliable messages, but left some in the queue for lack of rate or of room in the
// packet, or because of [Conn.After]. A message is overdue if it was queued before a chance
// and is still there once maxUnreliableWait and a round trip have passed since.
//
// A message's age alone doesn't tell. Its time stamp may be long before the call to Send,
// which isn't told the time, and nothing can be sent while a long tick is corked.
type expiry struct {
	outageBefore  time.Duration // messages queued before this sat out an outage; set by leaveDark
	overdueBefore time.Duration // unreliable messages queued before this are overdue

	// The last chances, newest first. They are at least a quarter of the permitted wait apart,
	// so that five of them cover all of it.
	chances [5]time.Duration
}

// noteChance notes a chance at now. wait is how long a message may wait after it.
func (x *expiry) noteChance(now, wait time.Duration) {
	for _, at := range x.chances {
		if now-at >= wait {
			x.overdueBefore = at
			break
		}
	}
	if now-x.chances[0] >= wait/4 {
		copy(x.chances[1:], x.chances[:])
		x.chances[0] = now
	}
}

// An unreliableMessage is a queued unreliable message. It may have been sent in part.
type unreliableMessage struct {
	payload  []byte // a pooled block, or memory of its own if it's longer than that
	delivery Delivery
	message  uint16        // number of a message in parts; set when its first part is sent
	part     uint8         // index of the next part to send
	after    uint64        // reliable entries below this sequence were queued earlier and go first
	at       time.Duration // when it was queued, by the connection's clock
}

// partCount returns how many bunches the message takes.
func (m *unreliableMessage) partCount() int { return max(1, (len(m.payload)+EntryBytes-1)/EntryBytes) }

// atLastPart reports whether only the last part is left to be sent.
func (m *unreliableMessage) atLastPart() bool { return int(m.part) == m.partCount()-1 }

// nextBunch returns the bunch that carries the next part.
func (m *unreliableMessage) nextBunch(channel uint64) (h header, payload []byte) {
	h = header{flags: byte(m.delivery), channel: channel, sequence: m.message, part: m.part}
	if m.part == 0 {
		h.flags |= flagBegin
	}
	if m.atLastPart() {
		h.flags |= flagEnd
	}
	payload = m.payload[int(m.part)*EntryBytes:]
	return h, payload[:min(len(payload), EntryBytes)]
}

// sendUnreliable queues an unreliable message. If there's no room for it, it pushes out the
// oldest ones of its channel, because the newer a message is, the more it's worth.
//
// A message that has been sent in part stays, though. If the next one always replaced it, none
// would ever arrive whole. If the channel has nothing else to drop, it's the new message that
// goes.
func (c *Conn) sendUnreliable(ch *channel, delivery Delivery, payload []byte) {
	oldest := ch.firstDroppable()
	for c.unreliableFull(len(payload)) && ch.unreliable.len() > oldest {
		c.dropUnreliable(ch, oldest)
	}
	if c.unreliableFull(len(payload)) {
		c.stats.DroppedUnreliable++
		return
	}
	if c.traced() {
		c.trace(Event{Kind: "queued", Channel: ch.number, Bytes: len(payload), Delivery: delivery})
	}
	m := unreliableMessage{delivery: delivery, after: ch.next, at: c.now}
	if len(payload) <= EntryBytes {
		m.payload = append(c.blocks.get(len(payload)), payload...)
	} else {
		m.payload = append(make([]byte, 0, len(payload)), payload...)
	}
	c.unreliables.add(1, len(payload))
	if ch.predecessor != nil {
		c.saturation.deferred++
	} else {
		c.saturation.newUnreliable++
	}
	ch.unreliable.push(m)
	c.addQueued(ch, len(payload))
	c.schedule(ch)
}

// dropUnreliable drops the i-th queued message of ch, or what is left to be sent of it. 0 is
// the oldest.
func (c *Conn) dropUnreliable(ch *channel, i int) {
	m := ch.unreliable.take(i)
	left := len(m.payload) - int(m.part)*EntryBytes
	c.unreliables.add(-1, -left)
	c.addQueued(ch, -left)
	if ch.predecessor != nil {
		c.saturation.deferred--
	}
	c.blocks.put(m.payload)
	c.stats.DroppedUnreliable++
	if c.traced() {
		c.trace(Event{Kind: "dropped", Channel: ch.number, Bytes: left, Delivery: m.delivery})
	}
}

// dropStale drops unreliable messages of ch that aren't worth sending any longer, because they
// sat out an outage or have waited for too long. In the latter case, a message that has been
// sent in part is completed.
//
// They are all at the front of the queue, which is in the order of at.
func (c *Conn) dropStale(ch *channel) {
	for ch.unreliable.len() > 0 {
		m := ch.unreliable.peek()
		overdue := m.at < c.expiry.overdueBefore && m.part == 0
		if m.at >= c.expiry.outageBefore && !overdue {
			return
		}
		c.dropUnreliable(ch, 0)
	}
}

// placeUnreliable adds the next part of ch's oldest unreliable message to the packet, if it
// fits.
//
// A lost part isn't retransmitted. We forget all about it as soon as the packet can't be taken
// back any more (see commitLast).
func (c *Conn) placeUnreliable(ch *channel) turnResult {
	m := ch.unreliable.peek()
	if m.part == 0 {
		m.message = ch.nextMessage
	}
	h, payload := m.nextBunch(ch.number)
	if h.size()+len(payload) > c.build.room() {
		return turnNoRoom
	}
	if h.inParts() && m.part == 0 {
		ch.nextMessage++
	}

	c.addBunch(h, payload, uint64(m.partCount()-1-int(m.part)), false)
	c.lastUnreliable = append(c.lastUnreliable, placedUnreliable{channel: ch, unreliableMessage: *m})
	c.unreliables.add(0, -len(payload))
	c.addQueued(ch, -len(payload))
	m.part++
	if int(m.part) == m.partCount() {
		c.unreliables.add(-1, 0)
		ch.unreliable.pop()
	}
	return turnDone
}

// receiveUnreliable handles an unreliable bunch of the packet with this number. size is the
// size of its datagram.
//
// Of two UnreliableSequenced messages, the one in the packet with the higher number is newer,
// since the peer sends them once and in order, and packet numbers don't wrap. Within a packet,
// it's the later one.
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

// deliverUnreliable hands an unreliable or tracked message to Next. These aren't charged to
// the peer's limit. If too many of them wait for the owner, the message is dropped instead and
// fits is false.
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
