package bunch

import "time"

// flow implements flow control, which limits how much memory reliable bunches take at the
// receiver. As with QUIC's MAX_DATA (RFC 9000, section 4.1), the receiver announces an absolute
// limit, and the sender charges the cost of each entry to it.
//
// Channel 0 is exempt, so that control messages get through while a world is stopped. It has a
// limit of its own, maxControl.
type flow struct {
	// Our reliable buffers.
	entries int    // in all of them
	held    int    // memory of the entries of play, in bytes; at most SendLimit and one message more
	freed   uint64 // memory of the entries of play that were acknowledged so far, in bytes

	// Sending.
	sent      uint64 // cost of all entries ever sent
	limit     uint64 // the maximum of sent that the peer allows
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

	// Whether the capacity holds the peer back.
	tight     bool   // cleared by ReceiveLimited
	sampled   uint64 // consumed at sampledAt, to measure how fast the owner takes messages
	sampledAt time.Duration
}

func (f *flow) init(capacity int) {
	// Both ends go by this limit until they receive another.
	f.limit = minReceiveLimit
	f.advertised = minReceiveLimit
	f.grow(capacity)
}

// grow raises the capacity.
func (f *flow) grow(capacity int) {
	f.capacity = max(f.capacity, uint64(capacity))
	f.tight = false
	f.scheduleUpdate()
}

// kib returns the limit to announce, in KiB.
func (f *flow) limitKiB() uint64 { return min((f.consumed+f.capacity)>>10, maxLimitKiB) }

// offer schedules an announcement of the limit, unless the limit has grown by less than a
// quarter of the capacity. Such an increase isn't worth a packet.
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
// If the owner takes a quarter of the capacity within a round trip, the capacity is tight: a
// peer whose rate doubles each round trip would use up all of the capacity before it
// receives the next limit.
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

// playLimit is the part of the peer's limit that bulk leaves to play.
const playLimit = 64 << 10

// block is called when something has to wait for a higher limit. If the wait gets long, we ask
// for one.
func (f *flow) block(now time.Duration) {
	if !f.blocked {
		f.blocked = true
		f.blockedAt = now
	}
}

// allows reports whether the limit has room for an entry. It always has room for an entry that
// costs 0, which is either free or charged already.
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

// raise applies a limit from the peer. A limit that is lower than the last one is from a packet
// that arrived late, and is ignored.
func (f *flow) raise(kib uint64) {
	if limit := kib << 10; limit > f.limit {
		f.limit = limit
		f.blocked = false
		f.askCount = 0
	}
}

// take charges an arrival, and reports whether the peer has kept to the limit.
func (f *flow) charge(cost int) bool {
	f.received += uint64(cost)
	return f.received <= f.advertised
}

// tickTime is added to the round trip, because an owner takes messages only once per tick.
const tickTime = 50 * time.Millisecond

// ReceiveLimited reports whether a higher SetReceiveLimit would let the peer send faster. Each
// such finding is reported once.
func (c *Conn) ReceiveLimited() bool { return testAndClear(&c.flow.tight) }

// SetReceiveLimit raises the number of bytes that reliable messages may hold here. The next
// packet announces it to the peer. A lower number has no effect.
func (c *Conn) SetReceiveLimit(bytes int) {
	c.flow.grow(bytes)
	c.changed = true
}

// consume is called when the owner has taken messages. It gives their cost back to the peer's
// limit.
func (c *Conn) consume(cost uint64) {
	c.flow.consume(c.now, c.congestion.Smoothed+tickTime, cost)
	c.changed = c.changed || c.flow.updateDue
}
