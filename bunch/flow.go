package bunch

import "time"

// flow limits the memory that reliable bunches hold at the receiver. As with MAX_DATA
// (RFC 9000, section 4.1), the receiver sends an absolute limit, and the sender
// charges the price of each entry to it. Channel 0 is exempt, so that control messages
// get through while a world is stopped; it has a limit of its own, maxControl.
type flow struct {
	entries int // in all reliable buffers of this side

	// Sending.
	sent      uint64        // price of all entries that were ever sent
	limit     uint64        // the peer's limit of sent
	blocked   bool          // an entry waits for a higher limit
	probe     bool          // the next packet asks the peer for its limit
	probes    int           // how often this side has asked since the limit last rose
	blockedAt time.Duration // when blocked became true

	// Receiving.
	received   uint64        // price of all entries that have arrived
	consumed   uint64        // price of those whose messages the owner has taken
	capacity   uint64        // limit of the cost of messages that wait for the owner
	advertised uint64        // the limit that was last sent to the peer
	update     bool          // the next packet contains the limit
	toldBy     uint64        // number of the newest packet with a limit; if it is lost, the limit is sent again
	mark       uint64        // consumed at markAt, to measure how fast the owner takes messages
	markAt     time.Duration // when mark was set
	tight      bool          // the capacity holds the peer back; ReceiveLimited clears it
	control    int           // price of what channel 0 holds; at most maxControl
}

func (f *flow) init(capacity int) {
	f.limit, f.advertised = minReceiveLimit, minReceiveLimit // both ends assume it until a packet contains a limit
	f.grow(capacity)
}

// grow raises the capacity.
func (f *flow) grow(capacity int) {
	f.capacity, f.tight = max(f.capacity, uint64(capacity)), false
	f.offer()
}

// kib returns the limit to send, in KiB.
func (f *flow) kib() uint64 { return min((f.consumed+f.capacity)>>10, maxLimitKiB) }

// offer makes the next packet contain the limit, if that has grown by a quarter
// of the capacity since it was sent: less is not worth a packet.
func (f *flow) offer() {
	if f.kib()<<10 >= f.advertised+f.capacity/4 {
		f.update = true
	}
}

// limitSent is called when the limit is sent in the packet with this number.
func (f *flow) limitSent(packet uint64) {
	f.update, f.advertised, f.toldBy = false, f.kib()<<10, packet
}

// consume is called when the owner has taken messages of this cost. The capacity is
// tight if a quarter of it was consumed in a round trip: a peer whose rate doubles
// every round trip will need all of it before the next limit arrives there.
func (f *flow) consume(now, roundTrip time.Duration, cost uint64) {
	if now-f.markAt > roundTrip {
		f.mark, f.markAt = f.consumed, now
	}
	f.consumed += cost
	if f.consumed-f.mark >= f.capacity/4 {
		f.tight = true
		f.mark, f.markAt = f.consumed, now
	}
	f.offer()
}

// playLimit is how many bytes of the peer's limit bulk leaves for play.
const playLimit = 64 << 10

// block is called when something must wait for a higher limit. It records since
// when, because a probe is due some time later.
func (f *flow) block(now time.Duration) {
	if !f.blocked {
		f.blocked, f.blockedAt = true, now
	}
}

// allows reports whether the limit lets an entry be sent. An entry that costs 0
// always may be sent: it is free, or was already charged.
func (f *flow) allows(cost int, p Priority) bool {
	if p == Bulk && cost > 0 {
		cost += playLimit
	}
	return f.sent+uint64(cost) <= f.limit
}

// raise applies the peer's limit; late packets do not lower it.
func (f *flow) raise(kib uint64) {
	if limit := kib << 10; limit > f.limit {
		f.limit, f.blocked, f.probes = limit, false, 0
	}
}

// take charges something that has arrived, and reports whether the peer has kept to the limit.
func (f *flow) take(cost int) bool {
	f.received += uint64(cost)
	return f.received <= f.advertised
}

// tickTime is added to the round trip in Conn.consume, because an owner takes
// messages only once in a tick.
const tickTime = 50 * time.Millisecond

// ReceiveLimited reports, once, that a higher SetReceiveLimit would let the peer send faster.
func (c *Conn) ReceiveLimited() bool { return once(&c.flow.tight) }

// SetReceiveLimit raises the number of bytes that reliable messages may hold
// here; the next packet tells the peer. A lower number has no effect.
func (c *Conn) SetReceiveLimit(bytes int) {
	c.flow.grow(bytes)
	c.changed = true
}

// consume frees the cost of messages that the owner has taken.
func (c *Conn) consume(cost uint64) {
	c.flow.consume(c.now, c.gate.Smoothed+tickTime, cost)
	c.changed = c.changed || c.flow.update
}
