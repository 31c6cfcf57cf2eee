package bunch

import "time"

// flow bounds what reliable bunches hold at the receiver, like MAX_DATA of RFC 9000, 4.1: the receiver advertises an absolute
// limit. What an entry costs is its price. Channel 0 is exempt, so that control passes a stopped world; it has a bound of
// its own, maxControl.
type flow struct {
	entries int // in all reliable buffers of this side

	// Sending.
	sent      uint64 // cost of all that ever left
	limit     uint64 // what the peer allows
	blocked   bool   // something waits for a higher limit
	probe     bool   // ask for the limit now
	probes    int    // since the limit rose
	blockedAt time.Duration

	// Receiving.
	received   uint64
	consumed   uint64
	window     uint64
	advertised uint64
	update     bool   // tell the peer a higher limit
	toldBy     uint64 // newest packet that told one: only its loss matters
	mark       uint64
	markAt     time.Duration // when consumed was mark
	tight      bool          // the window holds the peer up
}

func (f *flow) init(window int) {
	f.limit, f.advertised = minReceiveLimit, minReceiveLimit // what both assume before anything was said
	f.grow(window)
}

func (f *flow) grow(window int) {
	f.window, f.tight = max(f.window, uint64(window)), false
	f.offer()
}

// kib is the limit to tell, at most what the wire holds.
func (f *flow) kib() uint64 { return min((f.consumed+f.window)>>10, maxLimitKiB) }

// offer tells the peer a higher limit once it is worth a packet.
func (f *flow) offer() {
	if f.kib()<<10 >= f.advertised+f.window/4 {
		f.update = true
	}
}

// told notes that the limit left in a packet with this number.
func (f *flow) told(packet uint64) { f.update, f.advertised, f.toldBy = false, f.kib()<<10, packet }

// consume notes that messages of this cost were handed out. A window of which a quarter goes through in a round trip is
// tight: a peer whose rate doubles every round trip needs it all before the next limit reaches him.
func (f *flow) consume(now, roundTrip time.Duration, cost uint64) {
	if now-f.markAt > roundTrip {
		f.mark, f.markAt = f.consumed, now
	}
	f.consumed += cost
	if f.consumed-f.mark >= f.window/4 {
		f.tight = true
		f.mark, f.markAt = f.consumed, now
	}
	f.offer()
}

// playLimit of the peer's limit is left to play by bulk.
const playLimit = 64 << 10

// block notes that something waits for a higher limit. Since when matters: one that begins to wait must not find its probe
// long due.
func (f *flow) block(now time.Duration) {
	if !f.blocked {
		f.blocked, f.blockedAt = true, now
	}
}

// allows reports whether what costs so much may leave; what costs nothing is paid for.
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

// take charges what arrived, and reports whether the peer kept the limit.
func (f *flow) take(cost int) bool {
	f.received += uint64(cost)
	return f.received <= f.advertised
}

// tickTime is added to the round trip in which a quarter of a window goes through: owners take messages once in a tick.
const tickTime = 50 * time.Millisecond

// ReceiveLimited reports, once, that a higher SetReceiveLimit would let the peer send faster.
func (c *Conn) ReceiveLimited() bool {
	tight := c.flow.tight
	c.flow.tight = false
	return tight
}

// SetReceiveLimit raises how many reliable bytes may wait here, told to the peer with the next packet. It never shrinks.
func (c *Conn) SetReceiveLimit(bytes int) {
	c.flow.grow(bytes)
	c.changed = true
}

// consume counts messages as fetched by the owner.
func (c *Conn) consume(cost uint64) {
	c.flow.consume(c.now, c.gate.Smoothed+tickTime, cost)
	c.changed = c.changed || c.flow.update
}
