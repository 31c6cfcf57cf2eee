package bunch

// An allowance says what a packet may carry. Whenever new play (the game's own traffic) may be
// sent, new bulk may be sent too.
//
// A cork only holds back play. Bulk fills packets anyway, and its path mustn't idle while the
// owner simulates a tick.
type allowance struct {
	play, bulk bool // messages that are sent for the first time
	resends    bool // retransmissions of play; those of bulk need no allowance but the window
}

// includes reports whether new messages of level i may be sent.
func (a allowance) includes(i int) bool { return a.play || a.bulk && i == bulkLevel }

// includesResends reports whether level i may retransmit.
func (a allowance) includesResends(i int) bool { return a.resends || i == bulkLevel }

// canSendBunch reports whether there seems to be a bunch to send now, and prepares a repair
// bunch if there's nothing else. It may turn out that everything queued is held back. The packet
// then stays empty, and AppendPacket drops it.
func (c *Conn) canSendBunch(allowed allowance) bool {
	if allowed.play && c.trackedReady() {
		return true
	}
	for i := range c.levels {
		lv := &c.levels[i]
		queued := allowed.includesResends(i) && lv.resend.len() > 0 || allowed.includes(i) && lv.unsent.len() > 0
		if queued && (i < bulkLevel || c.bulkOpen()) {
			return true
		}
	}
	return allowed.bulk && c.hasBulk() && c.bulkOpen() && c.repairs.due(&c.path, &c.levels[bulkLevel])
}

// hasPending reports whether anything is queued on the given number of levels, starting with
// that of channel 0, even if it's held back. Pass bulkLevel to ask about play, and
// len(c.levels) to ask about everything.
func (c *Conn) hasPending(levels int) bool {
	for i := range levels {
		if c.levels[i].resend.len()+c.levels[i].unsent.len() > 0 {
			return true
		}
	}
	return c.tracked.waiting.len() > 0
}

// allowed returns what the next packet may carry. No message may be sent for the first time during
// an outage, or if the oldest undecided packet would become too old for the peer to remember.
// New play also has to wait for the end of the tick. Once the resendDebt has reached its limit,
// only probes and one packet per probe timeout may retransmit play.
func (c *Conn) allowed() allowance {
	allowNew := c.sent.spread() < c.limits.History-1 && !c.inOutage()
	return allowance{
		play:    allowNew && c.cork.open(),
		bulk:    allowNew,
		resends: !c.resends.exceeded || c.loss.probes > 0 || c.now >= c.resends.exceedsAt+c.pto(),
	}
}

// bulkOpen reports whether bulk may be sent, which is the case if neither the window nor the
// owner holds it back. A probe may carry bulk even if the owner holds it back.
func (c *Conn) bulkOpen() bool {
	return c.windowOpen() && (!c.holdBulk || c.loss.probes > 0)
}

// windowOpen reports whether the window has room for another packet of bulk.
func (c *Conn) windowOpen() bool {
	if c.loss.probes > 0 || c.path.Fates {
		// Probes disregard the window, and a carrier that reports fates has a window of its
		// own.
		return true
	}
	// After two consecutive timeouts, only probes may be sent. We can't rely on the window for
	// that, because quic-go doesn't reduce it on timeouts.
	return c.loss.ptos < 2 && c.sent.bytesInFlight+minDatagram <= c.congestion.Window(fullDatagram)
}

// fill fills the packet, one level after the other. Within a level, retransmissions go first.
// Tracked messages go right before bulk.
func (c *Conn) fill() {
	for i := range c.levels {
		if i == bulkLevel {
			c.fillTrackedAndRepeats()
			c.build.widen()
			if !c.hasBulk() || !c.bulkOpen() {
				return
			}
		}
		before := c.build.bunches
		if c.build.allowed.includesResends(i) {
			c.fillResends(&c.levels[i])
		}
		if c.build.allowed.includes(i) {
			c.fillUnsent(&c.levels[i])
		}
		if c.build.allowed.bulk && i == bulkLevel {
			c.repairs.place(&c.build, &c.path, &c.levels[i])
		}
		if c.build.bunches > before {
			c.build.content.Play = c.build.content.Play || i > 0 && i < bulkLevel
			c.build.content.Bulk = i == bulkLevel
		}
	}
}

// fillTrackedAndRepeats adds the messages that go before bulk but have no level of their own:
// tracked messages, and second copies of small calls.
func (c *Conn) fillTrackedAndRepeats() {
	before := c.build.bunches
	if c.build.allowed.play {
		c.fillTracked()
	}
	if c.repeats.n > 0 {
		c.fillRepeats()
	}
	c.build.content.Play = c.build.content.Play || c.build.bunches > before
}

// fillResends retransmits lost pieces of the channels on lv until one doesn't fit.
func (c *Conn) fillResends(lv *level) {
	for lv.resend.len() > 0 && !c.build.full() {
		ch := *lv.resend.peek()
		if !c.placeResends(ch) {
			return
		}
		lv.resend.pop()
		ch.inResendQueue = false
	}
}

// placeResends retransmits the lost pieces of ch, and reports whether all of them fit.
func (c *Conn) placeResends(ch *channel) bool {
	for ch.resend.len() > 0 {
		n := *ch.resend.peek()
		if n >= ch.first { // otherwise a late ack has freed the entry
			e := ch.out.at(n)
			for i := e.nextQueued(); i >= 0; i = e.nextQueued() {
				again := e.pieces[i].sent
				if c.build.bunches == maxBunches || !c.place(ch, n, e, i) {
					return false
				}
				if p := &e.pieces[i]; again && ch.priority != Bulk {
					c.resends.add(c.now, int(p.end-p.off))
				}
			}
			e.inResend = false
		}
		ch.resend.pop()
	}
	return true
}

// fillUnsent sends new messages of the channels on lv, which take turns. It stops when a bunch
// doesn't fit, or when all of the channels are blocked.
//
// A turn is one entry, so that a long message doesn't delay other channels. For bulk, a turn is
// a whole message, unless the rest of it is held back, because the size of the whole message is
// charged to the peer's limit as soon as it begins.
func (c *Conn) fillUnsent(lv *level) {
	blocked := 0 // consecutive blocked channels
	for lv.unsent.len() > blocked && !c.build.full() {
		ch := *lv.unsent.peek()
		switch c.placeUnsent(ch) {
		case turnNoRoom:
			return
		case turnBlocked:
			blocked++
		case turnDone:
			blocked = 0
		}
		if ch.priority == Bulk && ch.midMessage(c.holdUnreliable) {
			continue // its turn goes on
		}
		lv.unsent.pop()
		ch.inUnsentQueue = ch.hasUnsent()
		if ch.inUnsentQueue {
			lv.unsent.push(ch)
		}
	}
}

// A turnResult is how a channel's turn in fillUnsent ended.
type turnResult uint8

const (
	turnDone    turnResult = iota // it sent a bunch, or had nothing left to send
	turnNoRoom                    // its next bunch doesn't fit into the packet
	turnBlocked                   // the peer's limit or the owner holds it back
)

// placeUnsent sends the next entry of ch that hasn't been sent before. If an unreliable message
// was queued before that entry, placeUnsent sends the next part of that message instead, unless
// the owner holds it back.
func (c *Conn) placeUnsent(ch *channel) turnResult {
	c.dropStale(ch)
	unreliable := ch.unreliable.len() > 0 && !c.holdUnreliable
	switch {
	case unreliable && ch.firstUnsent >= ch.unreliable.peek().after:
		return c.placeUnreliable(ch)
	case ch.firstUnsent == ch.next && ch.unreliable.len() > 0:
		// The owner holds back everything that's left.
		return turnBlocked
	case ch.firstUnsent == ch.next:
		return turnDone
	}

	e := ch.out.at(ch.firstUnsent)
	i := e.nextQueued()
	if i < 0 {
		// All of the entry was already sent as retransmissions.
		ch.firstUnsent++
		return turnDone
	}
	if ch.number != 0 && !e.started && !c.flow.allows(e.cost(), ch.priority) {
		c.flow.block(c.now)
		// Flow control doesn't apply to unreliable messages, so they may overtake the entry,
		// unless the entry opens the channel.
		opens := ch.firstUnsent == 0 && ch.ours
		if unreliable && !opens {
			return c.placeUnreliable(ch)
		}
		return turnBlocked
	}

	if !c.place(ch, ch.firstUnsent, e, i) {
		return turnNoRoom
	}
	if e.nextQueued() >= 0 {
		if c.build.room() < minFill {
			return turnNoRoom // leave the rest for the next packet
		}
		// The piece was cut so that the next entry fills this packet. The rest of the piece
		// follows in another packet.
		c.queueResend(ch, ch.firstUnsent, e)
	}
	ch.firstUnsent++
	return turnDone
}

// queueResend makes sure that the queued pieces of entry n will be sent, before any new
// messages of the same level.
func (c *Conn) queueResend(ch *channel, n uint64, e *entry) {
	if e.inResend {
		return
	}
	e.inResend = true
	ch.resend.push(n)
	c.schedule(ch)
}

// place adds piece i of entry n to the packet and reports whether it fit. The piece may be cut
// in two, so that it fills the packet.
func (c *Conn) place(ch *channel, n uint64, e *entry, i int) bool {
	h := header{flags: e.flags, channel: ch.number, sequence: uint16(n)}
	if e.npieces > 1 {
		h.flags |= flagPiece
	}
	p := &e.pieces[i]
	size, room := int(p.end-p.off), c.build.room()-h.size()
	cut := c.cutAt(ch, n, size, room, e.npieces == 1)
	fits := size <= room
	if cut >= minPiece && cut < size && e.cut(i, cut) {
		h.flags |= flagPiece
		fits = true
	}
	if !fits {
		return false
	}
	c.putPiece(ch, n, e, &e.pieces[i], h)
	return true
}

// cutAt returns the number of bytes of a piece to send, given its size and the room in the
// packet. Usually that's all of the piece, or as much as fits. It may also be a little less
// than all, so that a piece of the next entry fills the packet. uncut is true if the entry
// hasn't been cut before.
func (c *Conn) cutAt(ch *channel, n uint64, size, room int, uncut bool) int {
	extra := 0 // the header grows if the entry is cut for the first time
	if uncut {
		extra = pieceBytes
	}
	unused := room - size
	tooSmall := unused > 0 && unused < minFill // for a piece of the next entry, with its header
	switch {
	case unused < 0:
		return room - extra
	case tooSmall && size > 4*minFill && n == ch.firstUnsent && c.moreFollows(ch):
		return size - minFill - extra
	}
	return size
}

// moreFollows reports whether the level of ch has something to send after the next entry of ch.
func (c *Conn) moreFollows(ch *channel) bool {
	return ch.firstUnsent+1 < ch.next || c.level(ch).unsent.len() > 1
}

// putPiece adds piece p of entry n to the packet and to the packet's record. The entry is
// charged to the peer's limit when its first piece is sent.
func (c *Conn) putPiece(ch *channel, n uint64, e *entry, p *piece, h header) {
	if h.flags&flagPiece != 0 {
		h.offset, h.total = p.off, uint16(len(e.payload))
	}
	c.addBunch(h, e.payload[p.off:p.end], n, p.sent)
	c.build.record.items = append(c.build.record.items, item{
		channel:  ch,
		sequence: n,
		off:      p.off,
		end:      p.end,
		first:    !p.sent,
	})
	if !e.started && ch.number != 0 {
		c.flow.entrySent(e.cost())
	}
	if p.sent {
		c.stats.BunchesResent++
	} else {
		c.addQueued(ch, -int(p.end-p.off))
	}

	endsRun := e.flags&flagWhole == flagEnd
	if endsRun && !e.started && ch.isBulk() && c.path.Fates {
		c.repairs.noteSent(ch, n)
	}
	p.queued = false
	p.sent = true
	e.started = true
	p.copies++
}

// addBunch appends a bunch to the packet. sequence and again are for the trace, as in Event.
func (c *Conn) addBunch(h header, payload []byte, sequence uint64, again bool) {
	c.build.buf = appendBunch(c.build.buf, h, payload)
	c.build.bunches++
	c.stats.BunchesSent++
	c.stats.PayloadSent += uint64(len(payload))
	if c.traced() {
		ev := Event{
			Kind:     "bunch",
			Channel:  h.channel,
			Sequence: sequence,
			Bytes:    len(payload),
			Delivery: h.delivery(),
			Again:    again,
		}
		if h.tracked() {
			ev.Delivery = Tracked
		}
		c.trace(ev)
	}
}
