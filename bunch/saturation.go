package bunch

import "time"

const (
	// standingTime is how long unreliable messages of earlier ticks must have waited, at every tick, before the path counts as saturated.
	// UE: two ticks of credit (QueuedBits), at 30 Hz.
	standingTime = 66 * time.Millisecond
	// maxStanding is how many bytes of unreliable messages may wait on a saturated path. Beyond it the oldest ones of a channel make room for
	// its new one. At 50 kB/s these bytes take 0.6 s; the 256 KiB of maxUnreliable would take 5 s.
	maxStanding = 32 << 10
)

// saturation finds out whether more is sent than the path, or the owner's rate, takes. A tick begins with Cork(true) and ends with Cork(false).
type saturation struct {
	// Set by Hold.
	held     bool // the owner holds unreliable and tracked messages
	bulkHeld bool // the owner holds bulk

	// Whether unreliable messages keep waiting; set by Cork(true).
	standing bool          // when the newest tick began, unreliable messages of earlier ticks still waited
	since    time.Duration // when standing became true

	// What waits, so far as it is not a sign of saturation.
	young  int    // unreliable messages queued since the last tick ended, without those that are behind
	behind int    // unreliable messages that wait for the ack of another channel, see After
	added  volume // bytes queued since the last tick ended, without those that are behind

	// Which messages are too old to leave; dropStale drops them.
	stale   time.Duration // unreliable and tracked messages queued before then have waited through an outage; set by leaveDark
	chances chances       // tells the unreliable messages that have waited for too long without one
}

// volume is how many bytes there are of play, and how many of bulk.
type volume struct{ play, bulk int }

// Hold keeps back unreliable and tracked messages, or bulk, until the next call; an owner calls it when its rate is used up. Acks, control
// messages, probes, and reliable messages of priorities above bulk always pass, resends as well.
func (c *Conn) Hold(unreliable, bulk bool) {
	c.saturation.held, c.saturation.bulkHeld = unreliable, bulk
}

// Waiting reports what would leave now if the owner held nothing: whether unreliable or tracked messages would, and whether bulk would.
func (c *Conn) Waiting() (unreliable, bulk bool) {
	fresh, lv := c.freshAllowed(), &c.levels[bulkLevel]
	bulk = c.windowOpen() && (lv.resend.len() > 0 || fresh.bulk && lv.fresh.len() > 0)
	return fresh.play && c.unreliables.messages+c.tracked.waiting.len() > 0, bulk
}

// Unreliable returns how many bytes of unreliable messages wait, and whether they saturate the path or the rate: for 66 ms, messages of
// earlier ticks have still waited at every Cork(true).
func (c *Conn) Unreliable() (bytes int, saturated bool) {
	s := &c.saturation
	return c.unreliables.bytes, s.standing && c.now-s.since >= standingTime
}

// beginTick notes whether unreliable messages of earlier ticks still wait when a tick begins; waiting counts all that wait but for those behind.
func (s *saturation) beginTick(now time.Duration, waiting int) {
	old := waiting > s.young
	if old && !s.standing {
		s.since = now
	}
	s.standing = old
}

// countTick counts a tick that begins, and whether play of an earlier tick still waits.
func (c *Conn) countTick() {
	c.stats.Ticks++
	if play, _ := c.leftOver(); play {
		c.stats.TicksSaturated++
	}
}

// leftOver reports whether bytes of play, and whether bytes of bulk, still wait for the path or the rate that were queued before the last tick
// ended.
func (c *Conn) leftOver() (play, bulk bool) {
	waiting := c.tracked.bytes
	for i := range bulkLevel {
		waiting += c.levels[i].queued - c.levels[i].behind
	}
	lv := &c.levels[bulkLevel]
	return waiting > c.saturation.added.play, lv.queued-lv.behind > c.saturation.added.bulk
}

// crowded reports whether there is no room for an unreliable message of size bytes. maxUnreliable bounds memory, so it counts
// prices; maxStanding bounds the time that the path needs, so it counts bytes.
func (c *Conn) crowded(size int) bool {
	after := c.unreliables
	after.add(1, size)
	_, saturated := c.Unreliable()
	return saturated && after.bytes > maxStanding || unreliablePrice(after.messages, after.bytes) > maxUnreliable
}

// Gates of [Conn.Gate].
const (
	gateBuffer  = "reliable buffer"
	gateEarlier = "earlier channel"
	gateFlow    = "flow control"
	gateRate    = "rate"
	gateWindow  = "window"
)

// Gate returns what keeps the messages of a channel back now, the nearest to the owner first:
//
//	reliable buffer  no slot is free: the next reliable Send overflows
//	earlier channel  the peer has not acknowledged all of the channel that it comes after, see [Conn.After]
//	flow control     the peer allows no more reliable bytes until it has taken some (its ReceiveLimit)
//	rate             the owner's rate is used up, see [Conn.Hold]
//	window           the path takes no more: its congestion window, or packets whose fate is open, or an outage
//
// It is empty when nothing waits, or only for the end of a tick ([Conn.Cork]). rated says why the owner holds bulk, if it does: because of its
// rate, and not of the carrier's pace. Tracked messages do not count.
func (c *Conn) Gate(number uint64, rated bool) string {
	ch := c.channels.find(number)
	switch {
	case ch == nil || c.err != nil:
		return ""
	case ch.outstanding()+1 >= slotsOf(number, c.limits.ReliableBuffer):
		return gateBuffer
	case !ch.hasFresh() && ch.resend.len() == 0:
		return ""
	case ch.earlier != nil:
		return gateEarlier
	case c.heldByFlow(ch):
		return gateFlow
	case c.heldByRate(ch, rated):
		return gateRate
	case c.heldByWindow(ch):
		return gateWindow
	}
	return ""
}

// heldByFlow reports whether the next entry of ch waits for a higher limit of the peer's.
func (c *Conn) heldByFlow(ch *channel) bool {
	if ch.number == 0 || ch.fresh == ch.next || ch.resend.len() > 0 {
		return false
	}
	e := ch.out.at(ch.fresh)
	return !e.started && !c.flow.allows(e.cost(), ch.priority)
}

// heldByRate reports whether the owner holds back all that ch has, which is something: bulk, or nothing but unreliable messages.
func (c *Conn) heldByRate(ch *channel, rated bool) bool {
	if ch.isBulk() {
		return c.saturation.bulkHeld && rated
	}
	return c.saturation.held && ch.fresh == ch.next && ch.resend.len() == 0
}

// heldByWindow reports whether the path keeps back what ch has. The carrier asks for packets whenever it takes some, so messages that are older
// than this tick wait for the path. So do all messages of an owner that never corks (Ticks is 0).
func (c *Conn) heldByWindow(ch *channel) bool {
	play, bulk := c.leftOver()
	switch {
	case c.dark() || c.sent.spread() >= c.limits.History-1 || ch.resend.len() > 0 || c.stats.Ticks == 0:
		return true
	case ch.isBulk():
		return bulk || !c.windowOpen()
	}
	return play
}
