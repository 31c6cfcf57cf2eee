package bunch

import "time"

// flow implements flow control, which limits how much memory reliable bunches take at the
// receiver. As with QUIC's MAX_DATA (RFC 9000, section 4.1), the receiver announces an absolute
// limit, and the sender charges the cost of each entry to it (see cost.go).
//
// Channel 0 is exempt and has a limit of its own, maxControl, so that control messages get through
// while the owner takes no others.
type flow struct {
	// Our reliable buffers.
	entries int    // in all of them
	held    int    // memory of the entries of play, in bytes; exceeds SendLimit by one message at most
	freed   uint64 // memory of the entries of play that acks have freed so far, in bytes

	// Sending.
	sent      uint64 // cost of all entries ever sent
	limit     uint64 // maximum value of sent that the peer allows
	blocked   bool   // an entry can't be sent until the limit rises
	blockedAt time.Duration
	askDue    bool // the next packet asks for a higher limit
	askCount  int  // how often we have asked since the limit last rose

	// Receiving.
	received   uint64 // cost of all entries that ever arrived
	consumed   uint64 // cost of the entries whose messages the owner has taken
	capacity   uint64 // maximum cost of the messages that wait for the owner
	advertised uint64 // the limit last sent to the peer
	control    int    // cost of everything that channel 0 holds; at most maxControl

	// Announcing a higher limit.
	updateDue   bool   // the next packet contains the limit
	limitPacket uint64 // last packet with the limit; if it's lost, the limit is sent again

	// Whether the capacity slows the peer down.
	tight     bool   // it does; cleared by ReceiveLimited
	sampled   uint64 // consumed at sampledAt, to measure how fast the owner takes messages
	sampledAt time.Duration
}

func (f *flow) init(capacity int) {
	// Both ends assume this limit until they receive another.
	f.limit = minReceiveLimit
	f.advertised = minReceiveLimit
	f.grow(capacity)
}

// grow raises the capacity. It has no effect if the capacity is as large already.
func (f *flow) grow(capacity int) {
	f.capacity = max(f.capacity, uint64(max(0, capacity)))
	f.tight = false
	f.scheduleUpdate()
}

// limitKiB returns the limit to announce, in KiB.
func (f *flow) limitKiB() uint64 { return min((f.consumed+f.capacity)>>10, maxLimitKiB) }

// scheduleUpdate schedules an announcement of the limit if the limit has grown by at least a
// quarter of the capacity. A smaller increase isn't worth a packet.
func (f *flow) scheduleUpdate() {
	if f.limitKiB()<<10 >= f.advertised+f.capacity/4 {
		f.updateDue = true
	}
}

// limitSent is called when a packet is sent that contains the limit.
func (f *flow) limitSent(packet uint64) {
	f.updateDue = false
	f.advertised = f.limitKiB() << 10
	f.limitPacket = packet
}

// consume is called when the owner has taken messages of this cost.
//
// If the owner takes a quarter of the capacity within a round trip, the capacity is tight, because
// a peer whose rate doubles each round trip would use up all of it before the next limit arrives.
func (f *flow) consume(now, roundTrip time.Duration, cost uint64) {
	if now-f.sampledAt > roundTrip {
		f.sampled, f.sampledAt = f.consumed, now
	}
	f.consumed += cost
	if f.consumed-f.sampled >= f.capacity/4 {
		f.tight = true
		f.sampled = f.consumed
		f.sampledAt = now
	}
	f.scheduleUpdate()
}

// playLimit is the part of the peer's limit that bulk leaves to play. It's a quarter of the lowest
// limit, and enough for the calls of several ticks.
const playLimit = 64 << 10

// block is called when an entry has to wait for a higher limit. If it waits for long, we ask for
// one (see Conn.limitProbeAt).
func (f *flow) block(now time.Duration) {
	if !f.blocked {
		f.blocked = true
		f.blockedAt = now
	}
}

// allows reports whether the limit has room for an entry. There's always room for an entry of cost
// 0, which is either free or was charged already.
func (f *flow) allows(cost int, p Priority) bool {
	if p == Bulk && cost > 0 {
		cost += playLimit
	}
	return f.sent+uint64(cost) <= f.limit
}

// ask makes the next packet ask the peer for a higher limit.
func (f *flow) ask() {
	f.askDue = true
	f.askCount++
}

// raise applies a limit from the peer. It ignores a limit that is lower than the last one, which
// comes from a packet that arrived late.
func (f *flow) raise(kib uint64) {
	if limit := kib << 10; limit > f.limit {
		f.limit = limit
		f.blocked = false
		f.askCount = 0
	}
}

// charge charges the peer for what has arrived, and reports whether it has kept to the limit.
func (f *flow) charge(cost int) bool {
	f.received += uint64(cost)
	return f.received <= f.advertised
}

// entrySent is called when the first piece of an entry of this cost is sent.
func (f *flow) entrySent(cost int) { f.sent += uint64(cost) }

// chargeControl charges the limit of channel 0 for what has arrived, and reports whether the
// peer has kept to it.
func (f *flow) chargeControl(cost int) bool {
	f.control += cost
	return f.control <= maxControl
}

// releaseControl gives back a cost that chargeControl has charged.
func (f *flow) releaseControl(cost int) { f.control -= cost }

// tickTime is a generous estimate of the time between two ticks. It's added to the round trip,
// because an owner takes messages only once per tick.
const tickTime = 50 * time.Millisecond

// ReceiveLimited reports whether, since the last call, the receive limit may have slowed the peer
// down, so that a higher SetReceiveLimit would let it send faster.
func (c *Conn) ReceiveLimited() bool { return testAndClear(&c.flow.tight) }

// SetReceiveLimit raises the number of bytes that reliable messages may hold here, and announces
// the increase to the peer. A lower number has no effect.
func (c *Conn) SetReceiveLimit(bytes int) {
	c.flow.grow(bytes)
	c.changed = true
}

// consume is called when the owner has taken messages, and gives their cost back to the peer's
// limit.
func (c *Conn) consume(cost uint64) {
	c.flow.consume(c.now, c.congestion.Smoothed+tickTime, cost)
	c.changed = c.changed || c.flow.updateDue
}
