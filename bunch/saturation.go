package bunch

import "time"

const (
	// saturatedAfter is how long messages must have been left over from tick to tick before
	// the path counts as saturated. UE: two ticks of credit (QueuedBits), at 30 Hz.
	saturatedAfter = 66 * time.Millisecond

	// maxBacklog limits the bytes of unreliable messages that we queue on a saturated path.
	// Beyond it, a new message pushes out the oldest ones of its channel. At 50 kB/s this much
	// takes 0.6 s to drain, whereas the 256 KiB of maxUnreliable would take 5 s.
	maxBacklog = 32 << 10
)

// A saturation tells when unreliable messages are queued faster than they can be sent, either
// because the path is too slow or because the owner holds them back to keep to its rate.
//
// It goes by ticks, which the owner encloses in Cork(true) and Cork(false). After each tick
// there's time to send what the tick queued. If some of it is still there when the next tick
// begins, we're behind, and if that goes on for saturatedAfter, we're saturated.
type saturation struct {
	// What the owner holds back; set by Hold.
	holdUnreliable bool // unreliable and tracked messages
	holdBulk       bool

	// Set when a tick begins.
	behind      bool          // unreliable messages of earlier ticks were still queued
	behindSince time.Duration // when behind last became true

	// New and deferred messages are expected to wait, so they don't make us behind. A message
	// is deferred while another channel's messages must be acknowledged first (see Conn.After).
	newUnreliable int    // unreliable messages queued since the last tick ended, not deferred
	newBytes      volume // bytes queued on channels since then, not deferred
	deferred      int    // unreliable messages that are deferred

	// Messages too old to be worth sending.
	staleBefore time.Duration // those queued earlier sat out an outage; set by leaveDark
	chances     sendChances   // finds unreliable messages that were passed over for too long
}

// A volume is a number of bytes of play (the game's own traffic) and of bulk (transfers, which
// can wait).
type volume struct{ play, bulk int }

// Hold makes the connection hold back unreliable and tracked messages, bulk, or both, until the
// next call. Owners use it when they have used up their rate.
//
// Acks, control messages, probes and reliable messages with a priority above bulk are always
// sent, and so are their resends. Resends of bulk are held back with the rest of the bulk,
// except that a probe may carry some.
func (c *Conn) Hold(unreliable, bulk bool) {
	c.saturation.holdUnreliable = unreliable
	c.saturation.holdBulk = bulk
}

// Waiting reports whether unreliable or tracked messages could be sent now, and whether bulk
// could, if the owner didn't hold them back.
func (c *Conn) Waiting() (unreliable, bulk bool) {
	fresh := c.newAllowed()
	unreliable = fresh.play && c.unreliables.messages+c.tracked.waiting.len() > 0

	// freshAllowed is only about new messages. Lost ones may be resent in any case.
	lv := &c.levels[bulkLevel]
	hasBulk := lv.resend.len() > 0 || fresh.bulk && lv.unsent.len() > 0
	return unreliable, hasBulk && c.windowOpen()
}

// Unreliable returns the number of bytes of unreliable messages in the queue, and whether they
// saturate the path or the owner's rate. They do once every Cork(true) of the last 66 ms has
// found some left over from an earlier tick.
func (c *Conn) Unreliable() (bytes int, saturated bool) {
	s := &c.saturation
	return c.unreliables.bytes, s.behind && c.now-s.behindSince >= saturatedAfter
}

// beginTick is called when a tick begins. waiting is the number of unreliable messages in the
// queue, not counting deferred ones.
func (s *saturation) beginTick(now time.Duration, waiting int) {
	wasBehind := s.behind
	s.behind = waiting > s.newUnreliable
	if s.behind && !wasBehind {
		s.behindSince = now
	}
}

// countTick updates Stats when a tick begins.
func (c *Conn) countTick() {
	c.stats.Ticks++
	if play, _ := c.leftOver(); play {
		c.stats.TicksSaturated++
	}
}

// leftOver reports whether any play, and whether any bulk, was queued before the last tick
// ended and still hasn't been sent. Deferred messages don't count.
func (c *Conn) leftOver() (play, bulk bool) {
	playBytes := c.tracked.bytes
	for i := range bulkLevel {
		playBytes += c.levels[i].queued - c.levels[i].deferred
	}
	bulkBytes := c.levels[bulkLevel].queued - c.levels[bulkLevel].deferred
	return playBytes > c.saturation.newBytes.play, bulkBytes > c.saturation.newBytes.bulk
}

// unreliableFull reports whether there's no room in the queue for another unreliable message of
// size bytes.
//
// There are two limits. maxUnreliable is about memory, so it applies to the price, which
// includes the overhead of each message. maxBacklog is about how long the path needs to drain
// the queue, so only the bytes matter.
func (c *Conn) unreliableFull(size int) bool {
	after := c.unreliables
	after.add(1, size)
	if unreliablePrice(after.messages, after.bytes) > maxUnreliable {
		return true
	}
	_, saturated := c.Unreliable()
	return saturated && after.bytes > maxBacklog
}

// Results of [Conn.Gate].
const (
	gateBuffer  = "reliable buffer"
	gateEarlier = "earlier channel"
	gateFlow    = "flow control"
	gateRate    = "rate"
	gateWindow  = "window"
)

// Gate returns what the messages on a channel are waiting for. If that's several things, it
// returns the first of:
//
//	reliable buffer  no slot is free, so the next reliable Send would overflow
//	earlier channel  the channel before this one isn't fully acknowledged (see [Conn.After])
//	flow control     the peer allows no more reliable bytes until its owner has taken some
//	                 (its ReceiveLimit)
//	rate             the owner's rate is used up (see [Conn.Hold])
//	window           the path takes no more, because the congestion window is full, too many
//	                 packets are undecided, or there's an outage
//
// Gate returns "" if nothing is queued, or if the messages only wait for the end of a tick
// ([Conn.Cork]). It ignores tracked messages.
//
// The owner may hold back bulk because of its rate or because of the carrier's pace.
// rateLimited says whether it's the rate.
func (c *Conn) Gate(number uint64, rateLimited bool) string {
	ch := c.channels.find(number)
	switch {
	case ch == nil || c.err != nil:
		return ""
	case ch.outstanding()+1 >= slotsOf(number, c.limits.ReliableBuffer):
		return gateBuffer
	case !ch.hasUnsent() && ch.resend.len() == 0:
		return ""
	case ch.predecessor != nil:
		return gateEarlier
	case c.heldByFlow(ch):
		return gateFlow
	case c.heldByRate(ch, rateLimited):
		return gateRate
	case c.heldByWindow(ch):
		return gateWindow
	}
	return ""
}

// heldByFlow reports whether ch can't send its next entry until the peer raises its limit.
func (c *Conn) heldByFlow(ch *channel) bool {
	if ch.number == 0 || ch.firstUnsent == ch.next || ch.resend.len() > 0 {
		// Flow control doesn't apply to control messages, and it applies to an entry only
		// when it's first sent.
		return false
	}
	e := ch.out.at(ch.firstUnsent)
	return !e.started && !c.flow.allows(e.cost(), ch.priority)
}

// heldByRate reports whether the owner's rate holds back everything queued on ch.
func (c *Conn) heldByRate(ch *channel, rateLimited bool) bool {
	if ch.isBulk() {
		return c.saturation.holdBulk && rateLimited
	}
	onlyUnreliable := ch.firstUnsent == ch.next && ch.resend.len() == 0
	return c.saturation.holdUnreliable && onlyUnreliable
}

// heldByWindow reports whether the path holds back what is queued on ch.
//
// The carrier asks for packets as soon as it can send any, so a message from before this tick
// must be waiting for the path.
func (c *Conn) heldByWindow(ch *channel) bool {
	historyFull := c.sent.spread() >= c.limits.History-1
	if c.dark() || historyFull || ch.resend.len() > 0 {
		return true
	}
	if c.stats.Ticks == 0 {
		// The owner doesn't use Cork, so no message waits for the end of a tick.
		return true
	}
	play, bulk := c.leftOver()
	if ch.isBulk() {
		return bulk || !c.windowOpen()
	}
	return play
}
