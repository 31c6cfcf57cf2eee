package bunch

import "time"

const (
	// standingTime is how long unreliable messages of earlier ticks must have been queued
	// at every tick before the path counts as saturated. UE: two ticks of credit
	// (QueuedBits), at 30 Hz.
	standingTime = 66 * time.Millisecond
	// maxStanding is the maximum number of bytes of unreliable messages queued on a
	// saturated path. Beyond it, a new message replaces the oldest ones of its channel. At
	// 50 kB/s these bytes take 0.6 s, whereas the 256 KiB of maxUnreliable would take 5 s.
	maxStanding = 32 << 10
)

// saturation detects that more is queued than the path or the owner's rate can send. A tick
// begins with Cork(true) and ends with Cork(false).
type saturation struct {
	// Set by Hold.
	held     bool // the owner holds back unreliable and tracked messages
	bulkHeld bool // the owner holds back bulk

	// Whether unreliable messages stay queued; set by Cork(true).
	standing bool          // at the last Cork(true), unreliable messages of earlier ticks were queued
	since    time.Duration // when standing became true

	// Queued messages that are no sign of saturation.
	young    int    // unreliable messages queued since the last tick ended, except deferred ones
	deferred int    // unreliable messages that wait for the ack of another channel; see Conn.After
	added    volume // bytes queued since the last tick ended, except deferred ones

	// Messages that are too old to be sent.
	stale   time.Duration // older messages waited through an outage; set by leaveDark
	chances chances       // finds unreliable messages that could have been sent long ago
}

// A volume is a number of bytes of play and a number of bytes of bulk.
type volume struct{ play, bulk int }

// Hold holds back unreliable and tracked messages, bulk, or both until the next call. An
// owner calls it when its rate is used up. Acks, control messages, probes, resends and
// reliable messages with a priority above bulk are always sent.
func (c *Conn) Hold(unreliable, bulk bool) {
	c.saturation.held, c.saturation.bulkHeld = unreliable, bulk
}

// Waiting reports whether unreliable or tracked messages could be sent now, and whether
// bulk could, if the owner held nothing back.
func (c *Conn) Waiting() (unreliable, bulk bool) {
	fresh := c.freshAllowed()
	lv := &c.levels[bulkLevel]
	bulk = c.windowOpen() && (lv.resend.len() > 0 || fresh.bulk && lv.fresh.len() > 0)
	return fresh.play && c.unreliables.messages+c.tracked.waiting.len() > 0, bulk
}

// Unreliable returns the number of bytes of unreliable messages queued, and whether these
// messages saturate the path or the rate. They do if, for 66 ms, messages of earlier ticks
// were still queued at every Cork(true).
func (c *Conn) Unreliable() (bytes int, saturated bool) {
	s := &c.saturation
	return c.unreliables.bytes, s.standing && c.now-s.since >= standingTime
}

// beginTick records whether unreliable messages of earlier ticks are still queued when a
// tick begins. waiting is the number of queued unreliable messages that are not deferred.
func (s *saturation) beginTick(now time.Duration, waiting int) {
	old := waiting > s.young
	if old && !s.standing {
		s.since = now
	}
	s.standing = old
}

// countTick counts a tick that begins. It also counts it as saturated if play of an earlier
// tick is still queued.
func (c *Conn) countTick() {
	c.stats.Ticks++
	if play, _ := c.leftOver(); play {
		c.stats.TicksSaturated++
	}
}

// leftOver reports whether any play, and whether any bulk, queued before the last tick
// ended is still waiting for the path or the rate.
func (c *Conn) leftOver() (play, bulk bool) {
	waiting := c.tracked.bytes
	for i := range bulkLevel {
		waiting += c.levels[i].queued - c.levels[i].deferred
	}
	lv := &c.levels[bulkLevel]
	return waiting > c.saturation.added.play, lv.queued-lv.deferred > c.saturation.added.bulk
}

// crowded reports whether there is no room for an unreliable message of size bytes.
// maxUnreliable limits memory, so it is compared with the price. maxStanding limits the
// time that the path needs, so it is compared with the bytes.
func (c *Conn) crowded(size int) bool {
	after := c.unreliables
	after.add(1, size)
	_, saturated := c.Unreliable()
	return saturated && after.bytes > maxStanding ||
		unreliablePrice(after.messages, after.bytes) > maxUnreliable
}

// Results of [Conn.Gate].
const (
	gateBuffer  = "reliable buffer"
	gateEarlier = "earlier channel"
	gateFlow    = "flow control"
	gateRate    = "rate"
	gateWindow  = "window"
)

// Gate names what holds back the messages of a channel now. If several things do, it
// returns the first of:
//
//	reliable buffer  no slot is free: the next reliable Send overflows
//	earlier channel  the peer has not acknowledged all of the channel that must precede it, see [Conn.After]
//	flow control     the peer allows no more reliable bytes until its owner has taken some (its ReceiveLimit)
//	rate             the owner's rate is used up, see [Conn.Hold]
//	window           the path takes no more: its congestion window, or undecided packets, or an outage
//
// Gate returns "" if nothing is queued, or if the messages wait only for the end of a tick
// ([Conn.Cork]). Tracked messages do not count.
//
// If the owner holds bulk, rated is whether it does so because of its rate rather than the
// carrier's pace.
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

// heldByFlow reports whether the next entry of ch waits for a higher limit of the peer.
func (c *Conn) heldByFlow(ch *channel) bool {
	if ch.number == 0 || ch.fresh == ch.next || ch.resend.len() > 0 {
		return false
	}
	e := ch.out.at(ch.fresh)
	return !e.started && !c.flow.allows(e.cost(), ch.priority)
}

// heldByRate reports whether the owner holds back everything queued on ch. It can do so if
// ch is bulk or has only unreliable messages queued.
func (c *Conn) heldByRate(ch *channel, rated bool) bool {
	if ch.isBulk() {
		return c.saturation.bulkHeld && rated
	}
	return c.saturation.held && ch.fresh == ch.next && ch.resend.len() == 0
}

// heldByWindow reports whether the path holds back the messages queued on ch.
//
// The carrier asks for packets whenever it can send some. Messages queued before this tick
// must therefore be waiting for the path. If the owner never corks (Ticks is 0), that is
// true of all messages.
func (c *Conn) heldByWindow(ch *channel) bool {
	play, bulk := c.leftOver()
	historyFull := c.sent.spread() >= c.limits.History-1
	switch {
	case c.dark() || historyFull || ch.resend.len() > 0 || c.stats.Ticks == 0:
		return true
	case ch.isBulk():
		return bulk || !c.windowOpen()
	}
	return play
}
