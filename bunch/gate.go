package bunch

// Hold makes the connection hold back unreliable and tracked messages, bulk, or both, until the
// next call. Owners call it when they have used up their rate.
//
// Acks, control messages, probes and reliable messages with a priority above bulk are always
// sent, and retransmitted if necessary. Lost bulk is held back with the rest of the bulk, except
// that a probe may carry some of it.
func (c *Conn) Hold(unreliable, bulk bool) {
	c.holdUnreliable = unreliable
	c.holdBulk = bulk
}

// Waiting reports what could be sent now if the owner did not hold it back: unreliable or tracked
// messages, and bulk.
func (c *Conn) Waiting() (unreliable, bulk bool) {
	allowed := c.allowed()
	unreliable = allowed.play && c.unreliables.messages+c.tracked.waiting.len() > 0

	// The allowance is only for new messages. Lost bulk may be retransmitted in any case.
	lv := &c.levels[bulkLevel]
	hasBulk := lv.resend.len() > 0 || allowed.bulk && lv.unsent.len() > 0
	return unreliable, hasBulk && c.windowOpen()
}

// Results of [Conn.Gate].
const (
	gateBuffer  = "reliable buffer"
	gateEarlier = "earlier channel"
	gateFlow    = "flow control"
	gateRate    = "rate"
	gateWindow  = "window"
)

// Gate returns what the messages on a channel are waiting for. If there are several reasons, it
// returns the first of:
//
//	reliable buffer  no slot is free, so the next reliable Send would overflow
//	earlier channel  the channel before this one is not fully acknowledged (see [Conn.After])
//	flow control     the peer allows no more reliable bytes until its owner has taken some
//	                 (its ReceiveLimit)
//	rate             the owner's rate is used up (see [Conn.Hold])
//	window           the path blocks sending, because the congestion window is full, too many
//	                 packets are undecided, or there is an outage
//
// Gate returns "" if nothing is queued, or if the messages only wait for the end of a tick
// ([Conn.Cork]). It ignores tracked messages.
//
// rateLimited says why the owner holds back bulk, if it does: true if its rate is used up, and
// false if it keeps to the carrier's pace.
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

// heldByFlow reports whether the next entry of ch can't be sent before the peer raises its
// limit.
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
		return c.holdBulk && rateLimited
	}
	onlyUnreliable := ch.firstUnsent == ch.next && ch.resend.len() == 0
	return c.holdUnreliable && onlyUnreliable
}

// heldByWindow reports whether the path holds back what is queued on ch.
//
// The carrier calls AppendPacket as soon as it can send a packet, so a message that was queued
// before this tick must be waiting for the path.
func (c *Conn) heldByWindow(ch *channel) bool {
	historyFull := c.sent.spread() >= c.limits.History-1
	if c.inOutage() || historyFull || ch.resend.len() > 0 {
		return true
	}
	if c.stats.Ticks == 0 {
		// The owner doesn't use Cork, so messages can't be waiting for the end of a tick.
		return true
	}
	play, bulk := c.leftOver()
	if ch.isBulk() {
		return bulk || !c.windowOpen()
	}
	return play
}
