package bunch

import "time"

const (
	// maxUnreliable is the maximum cost of all queued unreliable messages (see unreliableCost).
	// Tracked messages have a limit of the same size. Beyond the limit, a new unreliable message
	// replaces the oldest ones of its channel, whereas a new tracked message is dropped.
	maxUnreliable = 256 << 10

	// An unreliable message may wait to be sent for maxUnreliableWait plus a round trip, and up
	// to half as long again because of how expiry works. After that, the message would be too
	// old for a player to react to.
	//
	// The constant is six ticks at 30 Hz, to allow for a tick that queues too much at once. The
	// round trip allows for a full window, and for the ack of an earlier channel that the
	// message's channel must follow (see [Conn.After]).
	//
	// Unreal instead drops an unreliable RPC right at the call if the connection is saturated,
	// and a multicast if two of the same kind are already waiting for the actor's next update.
	maxUnreliableWait = 200 * time.Millisecond
)

// A backlog counts unreliable messages and their bytes. We need both counts, because a message may
// be empty.
type backlog struct{ messages, bytes int }

func (b *backlog) add(messages, bytes int) {
	b.messages += messages
	b.bytes += bytes
}

// An expiry decides which queued messages are too old to be sent: unreliable and tracked messages
// that waited through an outage, and unreliable messages that were passed over for too long.
//
// A message is passed over each time AppendPacket is free to send unreliable messages but leaves
// it in the queue, because of the rate, the room in the packet, or [Conn.After]. We call such a
// moment a chance, and remember the latest few. When maxUnreliableWait and a round trip have
// passed since a chance, the messages that were already queued then are overdue.
//
// A message's age alone isn't enough to decide, because its timestamp may be much older than the
// call to Send, to which no time is passed, and because nothing can be sent while a long tick is
// corked.
type expiry struct {
	outageBefore  time.Duration // earlier messages waited through an outage; set by leaveDark
	overdueBefore time.Duration // unreliable messages queued earlier are overdue

	// The latest chances, newest first. They're at least a quarter of the permitted wait apart, so
	// five of them cover the whole wait.
	chances [5]time.Duration
}

// noteChance records a chance at now. wait is how long a message may wait after a chance.
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
	payload  []byte // a pooled block, or allocated separately if it's longer than one
	delivery Delivery
	message  uint16        // number of a message in parts; set when its first part is sent
	part     uint8         // index of the next part to send
	after    uint64        // reliable entries below this sequence were queued earlier and go first
	at       time.Duration // when it was queued, by the connection's clock
}

// partCount returns the number of bunches that carry the message.
func (m *unreliableMessage) partCount() int { return max(1, (len(m.payload)+EntryBytes-1)/EntryBytes) }

// atLastPart reports whether all parts but the last were sent.
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

// sendUnreliable queues an unreliable message. If there's no room for it, it replaces the oldest
// ones of its channel, because newer messages are worth more.
//
// A message that has been sent in part stays, though, because none would ever arrive whole if the
// next message always replaced it. If the channel has nothing else to drop, the new message is
// dropped.
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

// dropUnreliable drops the i-th queued message of ch, where 0 is the oldest. Parts of it may have
// been sent.
func (c *Conn) dropUnreliable(ch *channel, i int) {
	m := ch.unreliable.take(i)
	unsent := len(m.payload) - int(m.part)*EntryBytes
	c.unreliables.add(-1, -unsent)
	c.addQueued(ch, -unsent)
	if ch.predecessor != nil {
		c.saturation.deferred--
	}
	c.blocks.put(m.payload)
	c.stats.DroppedUnreliable++
	if c.traced() {
		c.trace(Event{Kind: "dropped", Channel: ch.number, Bytes: unsent, Delivery: m.delivery})
	}
}

// dropStale drops the unreliable messages of ch that are no longer worth sending, because they
// waited through an outage or are overdue. An overdue message that has been sent in part is
// completed, though. The queue is ordered by age, so all stale messages are at its front.
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
// A lost part isn't retransmitted. We forget it as soon as its packet can no longer be taken
// back (see commitLast).
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
