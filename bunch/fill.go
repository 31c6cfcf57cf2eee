package bunch

// fresh selects the bunches that may be sent for the first time now. If play may be sent,
// bulk may be sent as well. A cork holds back only play: a transfer's queued messages fill
// packets anyway, and its path must not idle while a tick is simulated.
type fresh struct{ play, bulk bool }

// of reports whether new bunches of level i may be sent.
func (f fresh) of(i int) bool { return f.play || f.bulk && i == bulkLevel }

// hasContent reports whether a bunch may be sent now.
func (c *Conn) hasContent(f fresh) bool {
	if f.play && c.trackedReady() {
		return true
	}
	for i := range c.levels {
		lv := &c.levels[i]
		if i == bulkLevel && !c.bulkOpen() {
			continue
		}
		if lv.resend.len() > 0 || f.of(i) && lv.fresh.len() > 0 {
			// Perhaps all of it is held back. The packet then stays empty, and AppendPacket
			// drops it.
			return true
		}
	}
	return f.bulk && c.bulkOpen() && c.repairs.due(&c.path, &c.levels[bulkLevel])
}

// unsent reports whether a bunch of the first levels is waiting, for any reason. levels is
// bulkLevel for play and len(c.levels) for everything.
func (c *Conn) unsent(levels int) bool {
	for i := range levels {
		if c.levels[i].resend.len()+c.levels[i].fresh.len() > 0 {
			return true
		}
	}
	return c.tracked.waiting.len() > 0
}

// freshAllowed returns which bunches may be sent for the first time now. Play is not
// allowed while corked. Nothing is allowed in the dark, or if it would push the oldest
// undecided packet out of the peer's history.
func (c *Conn) freshAllowed() fresh {
	may := c.sent.spread() < c.limits.History-1 && !c.dark()
	return fresh{play: may && c.cork.open(), bulk: may}
}

// bulkOpen reports whether bulk may be sent, because neither the owner nor the window holds
// it back or because a probe is due.
func (c *Conn) bulkOpen() bool {
	return c.windowOpen() && (!c.saturation.holdBulk || c.loss.probes > 0)
}

// windowOpen reports whether bulk may add a packet to those in flight.
//
// After two consecutive probe timeouts only a probe may, because the path is out and
// quic-go's window does not shrink on timeouts. A carrier that reports fates has its own
// gate.
func (c *Conn) windowOpen() bool {
	if c.loss.probes > 0 || c.path.Fates {
		return true
	}
	return c.loss.ptos < 2 && c.sent.inFlight+minDatagram <= c.gate.Window(fullDatagram)
}

// fill places bunches level by level, and resends first within a level. Tracked messages
// precede bulk.
func (c *Conn) fill() {
	for i := range c.levels {
		if i == bulkLevel {
			c.fillBesideBulk()
			c.build.widen()
			if !c.bulkOpen() {
				return
			}
		}
		before := c.build.bunches
		c.fillResends(&c.levels[i])
		if c.build.fresh.of(i) {
			c.fillFresh(&c.levels[i])
		}
		if c.build.fresh.bulk && i == bulkLevel {
			c.repairs.place(&c.build, &c.path, &c.levels[i])
		}
		if c.build.bunches > before {
			c.build.content.Play = c.build.content.Play || i > 0 && i < bulkLevel
			c.build.content.Bulk = i == bulkLevel
		}
	}
}

// fillBesideBulk places the bunches that precede bulk and have no level of their own:
// tracked messages and repeats.
func (c *Conn) fillBesideBulk() {
	before := c.build.bunches
	if c.build.fresh.play {
		c.fillTracked()
	}
	if c.repeats.n > 0 {
		c.fillRepeats()
	}
	c.build.content.Play = c.build.content.Play || c.build.bunches > before
}

// fillResends places the lost pieces of lv, channel by channel, until one does not fit.
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

// placeResends places the lost pieces of ch and reports whether all of them fit.
func (c *Conn) placeResends(ch *channel) bool {
	for ch.resend.len() > 0 {
		n := *ch.resend.peek()
		if n >= ch.first {
			e := ch.out.at(n)
			for i := e.queued(); i >= 0; i = e.queued() {
				if c.build.bunches == maxBunches || !c.place(ch, n, e, i) {
					return false
				}
			}
			e.resend = false
		}
		ch.resend.pop()
	}
	return true
}

// fillFresh serves the channels of lv in turn. It stops when a bunch does not fit, or when
// every channel is held back or waiting for a higher limit.
//
// A channel's turn is one entry, so a long message does not delay other channels. On bulk
// channels a turn is a whole message, unless the rest of it is held back, because a message
// that has begun is charged to the limit in full.
func (c *Conn) fillFresh(lv *level) {
	waiting := 0 // consecutive channels that placed nothing
	for lv.fresh.len() > waiting && !c.build.full() {
		ch := *lv.fresh.peek()
		result := c.placeFresh(ch)
		if result == noRoom {
			return
		}
		waiting++
		if result == done {
			waiting = 0
		}
		if ch.priority == Bulk && ch.begun(c.saturation.holdUnreliable) {
			continue
		}
		lv.fresh.pop()
		ch.inFreshQueue = ch.hasFresh()
		if ch.inFreshQueue {
			lv.fresh.push(ch)
		}
	}
}

// placed is the result of a channel's turn in fillFresh.
type placed uint8

const (
	done    placed = iota // something was placed, or there was nothing
	noRoom                // the next bunch does not fit into the packet
	blocked               // the peer's limit or the owner holds it back
)

// placeFresh places the next entry of ch that was never sent. If the next part of an
// unreliable message was queued earlier and is not held back, it places that part instead.
func (c *Conn) placeFresh(ch *channel) placed {
	c.dropStale(ch)
	unreliable := ch.unreliable.len() > 0 && !c.saturation.holdUnreliable
	switch {
	case unreliable && ch.fresh >= ch.unreliable.peek().after:
		return c.placeUnreliable(ch)
	case ch.fresh == ch.next && ch.unreliable.len() > 0:
		return blocked
	case ch.fresh == ch.next:
		return done
	}

	e := ch.out.at(ch.fresh)
	i := e.queued()
	if i < 0 { // already sent among the resends
		ch.fresh++
		return done
	}
	if ch.number != 0 && !e.started && !c.flow.allows(e.cost(), ch.priority) {
		c.flow.block(c.now)
		if unreliable && (ch.fresh > 0 || !ch.ours) {
			return c.placeUnreliable(ch)
		}
		return blocked
	}

	if !c.place(ch, ch.fresh, e, i) {
		return noRoom
	}
	if e.queued() >= 0 {
		if c.build.room() < minFill {
			return noRoom // the rest begins the next packet
		}
		c.queueResend(ch, ch.fresh, e) // the rest follows while the next entry fills this packet
	}
	ch.fresh++
	return done
}

// queueResend queues the waiting pieces of entry n, which are sent before anything new of
// their level.
func (c *Conn) queueResend(ch *channel, n uint64, e *entry) {
	if e.resend {
		return
	}
	e.resend = true
	ch.resend.push(n)
	c.schedule(ch)
}

// place puts piece i of e into the packet and reports whether it fit. It cuts the piece if
// that fills the packet exactly.
func (c *Conn) place(ch *channel, n uint64, e *entry, i int) bool {
	h := header{flags: e.flags, channel: ch.number, sequence: uint16(n)}
	if e.n > 1 {
		h.flags |= flagPiece
	}
	p := &e.pieces[i]
	size, room := int(p.end-p.off), c.build.room()-h.size()
	cut := c.cutAt(ch, n, size, room, e.n == 1)
	switch {
	case cut >= minPiece && e.cut(i, cut):
		h.flags |= flagPiece
	case size > room:
		return false
	}
	c.put(ch, n, e, &e.pieces[i], h)
	return true
}

// cutAt returns how many of size bytes to place: all of them, as many as fit, or slightly
// fewer than all so that another piece fills the packet.
func (c *Conn) cutAt(ch *channel, n uint64, size, room int, whole bool) int {
	field := 0
	if whole {
		field = pieceBytes
	}
	left := room - size
	switch {
	case left < 0:
		return room - field
	case left > 0 && left < minFill && size > 4*minFill && n == ch.fresh && c.moreFollows(ch):
		return size - minFill - field
	}
	return size
}

// moreFollows reports whether something follows the next entry of ch in its level.
func (c *Conn) moreFollows(ch *channel) bool {
	return ch.fresh+1 < ch.next || c.level(ch).fresh.len() > 1
}

// put adds piece p of entry n to the packet and to its record. If it is the first piece,
// put charges the entry to the peer's limit.
func (c *Conn) put(ch *channel, n uint64, e *entry, p *piece, h header) {
	if h.flags&flagPiece != 0 {
		h.offset, h.total = p.off, uint16(len(e.payload))
	}
	c.add(h, e.payload[p.off:p.end], n, p.sent)
	c.build.packet.items = append(c.build.packet.items, item{
		channel:  ch,
		sequence: n,
		off:      p.off,
		end:      p.end,
		first:    !p.sent,
	})
	if !e.started && ch.number != 0 {
		c.flow.sent += uint64(e.cost())
	}

	if p.sent {
		c.stats.BunchesResent++
	} else {
		c.addQueued(ch, -int(p.end-p.off))
	}

	ends := e.flags&flagWhole == flagEnd
	if ends && !e.started && ch.isBulk() && c.path.Fates {
		c.repairs.note(ch, n)
	}
	p.queued = false
	p.sent = true
	e.started = true
	p.copies++
}

// add appends a bunch to the packet. sequence and again are those of Event.
func (c *Conn) add(h header, payload []byte, sequence uint64, again bool) {
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
