package bunch

import "time"

// flow bounds the memory that reliable bunches hold at the receiver: as with MAX_DATA (RFC 9000, 4.1) the receiver advertises an
// absolute limit, to which the sender charges the price of each entry. Channel 0 is exempt, so that control passes a stopped
// world; it has a bound of its own, maxControl.
type flow struct {
	entries int // in all reliable buffers of this side

	// Sending.
	sent      uint64        // price of all entries that ever left
	limit     uint64        // the most that the peer lets sent be
	blocked   bool          // something waits for a higher limit
	probe     bool          // the next packet asks for the limit
	probes    int           // how often this side has asked since the limit rose
	blockedAt time.Duration // when blocked became true, or this side last asked since then

	// Receiving.
	received   uint64 // price of all entries that came
	consumed   uint64 // price of those whose messages the owner has taken
	capacity   uint64 // price of the messages that may wait for the owner
	advertised uint64 // the limit that the peer was told last
	update     bool   // the next packet tells the limit
	toldBy     uint64 // number of the newest packet that told a limit: only its loss matters
	mark       uint64 // consumed at markAt, from which the owner's pace is measured
	markAt     time.Duration
	tight      bool // the capacity holds the peer back
	control    int  // price of what channel 0 holds; at most maxControl
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

// offer makes the next packet tell a higher limit, once the limit has grown by a quarter of the capacity, which is worth a packet.
func (f *flow) offer() {
	if f.kib()<<10 >= f.advertised+f.capacity/4 {
		f.update = true
	}
}

// limitSent notes that the limit left in a packet with this number.
func (f *flow) limitSent(packet uint64) {
	f.update, f.advertised, f.toldBy = false, f.kib()<<10, packet
}

// consume notes that messages of this cost were handed out. The capacity is tight when a quarter of it was consumed in a round trip:
// a peer whose rate doubles every round trip will need all of it before the next limit reaches it.
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

// playLimit is the share of the peer's limit that bulk leaves to play.
const playLimit = 64 << 10

// block notes that something waits for a higher limit, and since when: a probe is due a while after the waiting began.
func (f *flow) block(now time.Duration) {
	if !f.blocked {
		f.blocked, f.blockedAt = true, now
	}
}

// allows reports whether an entry may leave. One that costs 0 always may: it is free, or its message was charged already.
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

// take charges an entry that came, and reports whether the peer kept the limit.
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

// consume counts messages as fetched by the owner.
func (c *Conn) consume(cost uint64) {
	c.flow.consume(c.now, c.gate.Smoothed+tickTime, cost)
	c.changed = c.changed || c.flow.update
}
