package bunch

import "time"

// flow bounds the memory that reliable bunches hold at the receiver. As with MAX_DATA (RFC 9000, section 4.1) the receiver tells an absolute limit,
// and the sender charges the price of each entry to it. Channel 0 is exempt, so that control messages get through while a world stands still; it
// has a bound of its own, maxControl.
type flow struct {
	entries int // in all reliable buffers of this side

	// Sending.
	sent      uint64        // price of all entries that ever left
	limit     uint64        // the most that the peer lets sent grow to
	blocked   bool          // an entry waits for a higher limit
	probe     bool          // the next packet asks the peer for its limit
	probes    int           // how often this side has asked since the limit last rose
	blockedAt time.Duration // when blocked became true

	// Receiving.
	received   uint64        // price of all entries that have arrived
	consumed   uint64        // price of those whose messages the owner has taken
	capacity   uint64        // the most that messages which wait for the owner may cost
	advertised uint64        // the limit that the peer was told last
	update     bool          // the next packet tells the limit
	toldBy     uint64        // number of the newest packet that told a limit; if it is lost, the limit is told again
	mark       uint64        // consumed at markAt, to measure how fast the owner takes messages
	markAt     time.Duration // when mark was set
	tight      bool          // the capacity holds the peer back; ReceiveLimited clears it
	control    int           // price of what channel 0 holds; at most maxControl
}

func (f *flow) init(capacity int) {
	f.limit, f.advertised = minReceiveLimit, minReceiveLimit // both ends assume it until a packet tells a limit
	f.grow(capacity)
}

func (f *flow) grow(capacity int) {
	f.capacity, f.tight = max(f.capacity, uint64(capacity)), false
	f.offer()
}

// kib returns the limit to tell, in KiB.
func (f *flow) kib() uint64 { return min((f.consumed+f.capacity)>>10, maxLimitKiB) }

// offer makes the next packet tell the limit, if it has grown by a quarter of the capacity since it was told: less is not worth a packet.
func (f *flow) offer() {
	if f.kib()<<10 >= f.advertised+f.capacity/4 {
		f.update = true
	}
}

// limitSent notes that the limit left in a packet with this number.
func (f *flow) limitSent(packet uint64) {
	f.update, f.advertised, f.toldBy = false, f.kib()<<10, packet
}

// consume notes that the owner has taken messages of this cost. The capacity is tight when a quarter of it was consumed in a round trip: a peer
// whose rate doubles every round trip will need all of it before the next limit arrives there.
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

// playLimit is how many bytes of the peer's limit bulk leaves to play.
const playLimit = 64 << 10

// block notes that something waits for a higher limit, and since when: a probe is due a while after the waiting began.
func (f *flow) block(now time.Duration) {
	if !f.blocked {
		f.blocked, f.blockedAt = true, now
	}
}

// allows reports whether the limit lets an entry leave. One that costs 0 always may leave: it is free, or was charged already.
func (f *flow) allows(cost int, p Priority) bool {
	if p == Bulk && cost > 0 {
		cost += playLimit
	}
	return f.sent+uint64(cost) <= f.limit
}

// raise takes the peer's limit; late packets do not lower it.
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

// tickTime is added to the round trip of flow.consume, because an owner takes messages only once in a tick.
const tickTime = 50 * time.Millisecond

// ReceiveLimited reports, once, that a higher SetReceiveLimit would let the peer send faster.
func (c *Conn) ReceiveLimited() bool { return once(&c.flow.tight) }

// SetReceiveLimit raises how many bytes reliable messages may hold here; the next packet tells the peer. It never lowers it.
func (c *Conn) SetReceiveLimit(bytes int) {
	c.flow.grow(bytes)
	c.changed = true
}

// consume gives back what messages cost that the owner has taken.
func (c *Conn) consume(cost uint64) {
	c.flow.consume(c.now, c.gate.Smoothed+tickTime, cost)
	c.changed = c.changed || c.flow.update
}
