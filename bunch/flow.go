package bunch

import "time"

// flow limits the memory that reliable bunches hold at the receiver. As with MAX_DATA (RFC
// 9000, section 4.1), the receiver sends an absolute limit, and the sender charges the
// price of each entry to it.
//
// Channel 0 is exempt, so control messages get through while a world is stopped. It has its
// own limit, maxControl.
type flow struct {
	entries int // in all reliable buffers of this side

	// Sending.
	sent      uint64        // price of all entries that were ever sent
	limit     uint64        // the peer's limit for sent
	blocked   bool          // an entry waits for a higher limit
	probe     bool          // the next packet asks the peer for its limit
	probes    int           // times that this side has asked since the limit last rose
	blockedAt time.Duration // when blocked became true

	// Receiving.
	received    uint64        // price of all entries that have arrived
	consumed    uint64        // price of the entries whose messages the owner has taken
	capacity    uint64        // maximum price of messages that wait for the owner
	advertised  uint64        // the limit last sent to the peer
	update      bool          // the next packet contains the limit
	limitPacket uint64        // newest packet with a limit; if it is lost, the limit is resent
	mark        uint64        // consumed at markAt, to measure how fast the owner takes messages
	markAt      time.Duration // when mark was set
	tight       bool          // the capacity holds the peer back; ReceiveLimited clears it
	control     int           // price of what channel 0 holds; at most maxControl
}

func (f *flow) init(capacity int) {
	// Both ends assume this limit until a packet contains another one.
	f.limit = minReceiveLimit
	f.advertised = minReceiveLimit
	f.grow(capacity)
}

// grow raises the capacity.
func (f *flow) grow(capacity int) {
	f.capacity = max(f.capacity, uint64(capacity))
	f.tight = false
	f.offer()
}

// kib returns the limit to send, in KiB.
func (f *flow) kib() uint64 { return min((f.consumed+f.capacity)>>10, maxLimitKiB) }

// offer adds the limit to the next packet if it has grown by a quarter of the capacity
// since it was last sent. A smaller increase is not worth a packet.
func (f *flow) offer() {
	if f.kib()<<10 >= f.advertised+f.capacity/4 {
		f.update = true
	}
}

// limitSent records that the packet with this number contains the limit.
func (f *flow) limitSent(packet uint64) {
	f.update = false
	f.advertised = f.kib() << 10
	f.limitPacket = packet
}

// consume is called when the owner has taken messages of this cost. The capacity is tight
// if a quarter of it was consumed in one round trip. A peer whose rate doubles every round
// trip would then need all of it before it receives the next limit.
func (f *flow) consume(now, roundTrip time.Duration, cost uint64) {
	if now-f.markAt > roundTrip {
		f.mark, f.markAt = f.consumed, now
	}
	f.consumed += cost
	if f.consumed-f.mark >= f.capacity/4 {
		f.tight = true
		f.mark = f.consumed
		f.markAt = now
	}
	f.offer()
}

// playLimit is the number of bytes of the peer's limit that bulk leaves for play.
const playLimit = 64 << 10

// block records that something waits for a higher limit, and since when. A probe is due
// some time later.
func (f *flow) block(now time.Duration) {
	if !f.blocked {
		f.blocked = true
		f.blockedAt = now
	}
}

// allows reports whether the limit lets an entry be sent. An entry that costs 0 may always
// be sent, because it is free or was already charged.
func (f *flow) allows(cost int, p Priority) bool {
	if p == Bulk && cost > 0 {
		cost += playLimit
	}
	return f.sent+uint64(cost) <= f.limit
}

// raise applies a limit from the peer. A lower limit comes from a late packet and is
// ignored.
func (f *flow) raise(kib uint64) {
	if limit := kib << 10; limit > f.limit {
		f.limit = limit
		f.blocked = false
		f.probes = 0
	}
}

// take charges an arrival and reports whether the peer has kept to the limit.
func (f *flow) take(cost int) bool {
	f.received += uint64(cost)
	return f.received <= f.advertised
}

// tickTime is added to the round trip in Conn.consume, because an owner takes messages only
// once per tick.
const tickTime = 50 * time.Millisecond

// ReceiveLimited reports whether a higher SetReceiveLimit would let the peer send faster.
// It reports each such need once.
func (c *Conn) ReceiveLimited() bool { return once(&c.flow.tight) }

// SetReceiveLimit raises the number of bytes that reliable messages may hold here. The next
// packet announces it to the peer. A lower number has no effect.
func (c *Conn) SetReceiveLimit(bytes int) {
	c.flow.grow(bytes)
	c.changed = true
}

// consume frees the cost of messages that the owner has taken.
func (c *Conn) consume(cost uint64) {
	c.flow.consume(c.now, c.gate.Smoothed+tickTime, cost)
	c.changed = c.changed || c.flow.update
}
