package bunch

import (
	"slices"
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// Receive handles one datagram. The caller must not use the datagram again, because
// messages may alias it. An error means that the connection has ended, usually because the
// peer violated the protocol.
func (c *Conn) Receive(now time.Time, datagram []byte) error {
	t := c.advanceClock(now)
	if c.err != nil {
		return c.err
	}
	var h packetHeader
	rest, err := parsePacketHeader(datagram, &h)
	if err != nil {
		return c.fail(violation(ReadHeaderFail, "packet of %d bytes: %v", len(datagram), err))
	}

	number := recovery.Number(c.received.Next, uint64(h.number), 32) // RFC 9000, A.3
	gap := number != c.received.Next                                 // the packet makes a gap or fills one
	late := number < c.received.Next
	if !c.received.add(t, number) {
		c.stats.DroppedDuplicate++
		return nil
	}
	if late {
		c.stats.PacketsOutOfOrder++
	}
	c.stats.PacketsReceived++
	c.stats.BytesReceived += uint64(len(datagram))
	c.arriving = number
	if c.traced() {
		c.trace(Event{Kind: "received", Number: number, Bytes: len(datagram)})
	}

	if err := c.receivePacket(t, number, &h, rest, len(datagram)); err != nil {
		return c.fail(err.(*Error))
	}
	if len(rest) > 0 || h.flags&(flagPing|flagLimit) != 0 {
		c.received.ask(t, c.config.AckDelay, gap, h.flags&flagAckNow != 0)
	}
	c.changed = c.changed || c.must(t) || c.unsent(len(c.levels))
	return nil
}

// ReceiveLent is like Receive, but the caller may reuse the datagram. The connection copies
// the payloads that it keeps. Parts of a run go into reusable blocks, so a long message
// causes no garbage beyond its own bytes.
func (c *Conn) ReceiveLent(now time.Time, datagram []byte) error {
	c.payloads.lent = true
	defer func() { c.payloads.lent = false }()
	return c.Receive(now, datagram)
}

// receivePacket handles the content of a packet: acks, the limit, and the bunches in rest.
// size is the size of the datagram, which payloads may alias.
func (c *Conn) receivePacket(t time.Duration, number uint64, h *packetHeader, rest []byte, size int) error {
	if h.flags&flagAcks != 0 {
		if err := c.receiveAcks(t, h); err != nil {
			return err
		}
	}
	if h.flags&flagLimit != 0 {
		c.flow.raise(h.limit)
	}
	if h.flags&flagPing != 0 && h.flags&flagAckNow != 0 {
		c.flow.update = true // the peer may have lost our last limit
	}
	for n := 0; len(rest) > 0; n++ {
		if n == maxBunches {
			return violation(BunchDataOverflow, "more than %d bunches in a packet", maxBunches)
		}
		bh, payload, more, err := parseBunch(rest)
		if err != nil {
			return violation(BunchDataOverflow, "bunch %d of a packet of %d bytes: %v", n, size, err)
		}
		if err := c.receiveBunch(number, bh, payload, size); err != nil {
			return err
		}
		rest = more
	}
	return nil
}

// receiveBunch handles a bunch in packet number, whose datagram has size bytes.
func (c *Conn) receiveBunch(number uint64, h header, payload []byte, size int) error {
	c.stats.BunchesReceived++
	// Only the side that opened a channel sends state.
	if h.tracked() && !h.repairs() && (h.channel == 0 || c.channels.isOurs(h.channel)) {
		return violation(BunchBadChannelIndex, "a tracked bunch on channel %d, which the peer did not open", h.channel)
	}
	ch, err := c.incoming(h)
	if ch == nil || err != nil {
		return err
	}
	if ch.inClosed {
		c.stats.dropClosed(h)
		return nil
	}
	switch {
	case h.repairs():
		return c.receiveRepair(ch, h, payload)
	case h.reliable():
		whole, err := c.receiveReliable(ch, h, payload, size)
		if !whole || err != nil {
			return err
		}
		return c.receiveRestored(ch, c.restorer.entryReceived(ch, h.sequence))
	case h.tracked():
		return c.receiveTracked(ch, number, payload, size)
	}
	return c.receiveUnreliable(ch, number, h, payload, size)
}

// incoming returns the channel of an incoming bunch, or nil if the bunch must be dropped.
// Only a reliable bunch begins a channel, so an unreliable bunch that has overtaken it is
// dropped.
func (c *Conn) incoming(h header) (*channel, error) {
	if ch := c.channels.find(h.channel); ch != nil {
		return ch, nil
	}
	known, err := c.channels.known(h.channel)
	switch {
	case err != nil:
		return nil, err
	case known:
		c.stats.dropClosed(h)
		return nil, nil
	case !h.reliable() || h.repairs():
		c.stats.DroppedBeforeOpen++
		return nil, nil
	}
	ch, err := c.channels.begin(h.channel)
	if err != nil {
		return nil, err
	}
	return ch, c.charge(ch, channelCost)
}

// receiveReliable handles a reliable bunch, which is an entry or a piece of one, and
// reports whether that completed the entry.
//
// The next entry in order is processed at once. An early entry is parked until those before
// it have arrived. An unordered message may be delivered before then.
func (c *Conn) receiveReliable(ch *channel, h header, payload []byte, size int) (whole bool, err error) {
	n := recovery.Number(ch.expected, uint64(h.sequence), 16)
	if n < ch.expected {
		c.stats.DroppedDuplicate++
		return false, nil
	}
	slots := slotsOf(ch.number, c.config.ReliableBuffer)
	if ahead := n - ch.expected; ahead >= uint64(slots) {
		return false, violation(MaxReliableExceeded, "channel %d: sequence %d is %d ahead, the reliable buffer has %d entries",
			ch.number, n, ahead, slots)
	}
	if n == ch.expected && h.flags&flagPiece == 0 && (ch.in.len() == 0 || ch.in.at(0).number > n) {
		return true, c.receiveNext(ch, h.flags, payload, size)
	}

	s, i := ch.in.park(n, &c.payloads)
	if s.state >= full {
		c.stats.DroppedDuplicate++
		return false, nil
	}
	if err := c.store(ch, s, h, payload, size); err != nil || s.state != full {
		return false, err
	}
	if n == ch.expected {
		return true, c.advance(ch)
	}
	if h.delivery() == ReliableUnordered {
		return true, c.deliverUnordered(ch, i)
	}
	return true, nil
}

// receiveRepair handles a repair bunch and the entries that it restores.
func (c *Conn) receiveRepair(ch *channel, h header, payload []byte) error {
	r, err := parseRepair(h, payload)
	if err != nil {
		return violation(BunchDataOverflow, "channel %d: %v", ch.number, err)
	}
	r.first = recovery.Number(ch.expected, r.first, 16)
	last := r.first + uint64(r.count) - 1
	if slots := slotsOf(ch.number, c.config.ReliableBuffer); last >= ch.expected+uint64(slots) {
		return violation(MaxReliableExceeded, "channel %d: repair of sequence %d is %d ahead, the reliable buffer has %d entries",
			ch.number, last, last-ch.expected, slots)
	}
	return c.receiveRestored(ch, c.restorer.receive(ch, r))
}

// receiveRestored handles restored entries like received ones, the last one first. Entries
// after a close must already be there when the close is processed, or they would not be
// detected.
func (c *Conn) receiveRestored(ch *channel, restored []slot) error {
	for _, s := range slices.Backward(restored) {
		h := header{flags: s.flags, sequence: uint16(s.number)}
		if _, err := c.receiveReliable(ch, h, s.payload, EntryBytes); err != nil {
			return err
		}
	}
	return nil
}

// receiveNext processes a whole entry that is next in order, without parking it.
func (c *Conn) receiveNext(ch *channel, flags byte, payload []byte, size int) error {
	s := slot{number: ch.expected, flags: flags, state: full}
	if err := c.storeWhole(ch, &s, payload, size); err != nil {
		return err
	}
	ch.expected++
	if err := c.process(ch, s.number, &s); err != nil {
		return err
	}
	return c.advance(ch)
}

// store puts a piece or a whole entry into its slot.
func (c *Conn) store(ch *channel, s *slot, h header, payload []byte, size int) error {
	switch {
	case h.flags&flagPiece != 0:
		return c.storePiece(ch, s, h, payload)
	case s.state == partly:
		h.total = uint16(len(payload))
		return c.storePiece(ch, s, h, payload)
	}
	s.flags, s.state = h.flags, full
	return c.storeWhole(ch, s, payload, size)
}

// storeWhole puts an entry into its slot and charges it.
func (c *Conn) storeWhole(ch *channel, s *slot, payload []byte, size int) error {
	c.payloads.keep(s, payload, size)
	if err := c.chargeEntry(ch, s); err != nil {
		return err
	}
	return c.chargeMessages(ch, s)
}

// storePiece copies a piece to its place in the entry. The first piece allocates and
// charges memory for the whole entry. All pieces must have the same flags and total.
func (c *Conn) storePiece(ch *channel, s *slot, h header, payload []byte) error {
	flags := h.flags &^ flagPiece
	if s.state == empty {
		s.state, s.flags = partly, flags
		c.payloads.block(s, int(h.total))
		if err := c.chargeEntry(ch, s); err != nil {
			return err
		}
	}
	if s.flags != flags || len(s.payload) != int(h.total) {
		return violation(BunchDataOverflow, "channel %d: pieces of an entry with different flags or ends", ch.number)
	}
	end := h.offset + uint16(len(payload))
	if !s.add(h.offset, end) {
		return violation(BunchDataOverflow, "channel %d: an entry in more than %d pieces", ch.number, maxPieces)
	}
	copy(s.payload[h.offset:end], payload)
	if !s.complete() {
		return nil
	}
	s.state = full
	return c.chargeMessages(ch, s)
}

// advance processes the entries that are next in order.
func (c *Conn) advance(ch *channel) error {
	for ch.in.len() > 0 {
		if ch.inClosed {
			return violation(BunchDataOverflow, "channel %d: %d entries behind its close", ch.number, ch.in.len())
		}
		s := ch.in.at(0)
		if s.number != ch.expected || s.state < full {
			return nil
		}
		ch.expected++
		if s.state == delivered {
			c.release(ch.number, entryCost)
		} else if err := c.process(ch, s.number, s); err != nil {
			return err
		}
		c.payloads.free(ch.in.drop())
	}
	return nil
}

// process handles one entry that is next in order.
func (c *Conn) process(ch *channel, n uint64, s *slot) error {
	if err := checkOpen(ch, n, s.flags); err != nil {
		return err
	}
	if err := c.deliverEntry(ch, &ch.run, s); err != nil {
		return err
	}
	if s.flags&flagClose != 0 {
		ch.lingers = !answers(s.flags, len(s.payload))
		c.closed(ch)
	}
	return nil
}

// deliverEntry delivers the messages that an entry completes. If the entry is part of a
// run, r is that run.
func (c *Conn) deliverEntry(ch *channel, r *run, s *slot) error {
	if s.flags&flagWhole != flagWhole {
		return c.addToRun(ch, r, s)
	}
	if r.open {
		return violation(PartialInitialReliableDestroy, "channel %d: a whole bunch within a run", ch.number)
	}
	return c.deliverWhole(ch, s)
}

// checkOpen returns an error if entry n has a wrong open or close flag. Only the first
// entry of a channel that the peer opens has the open flag. Channel 0 has neither an open
// nor a close.
func checkOpen(ch *channel, n uint64, flags byte) error {
	opens := flags&flagOpen != 0
	switch {
	case opens && (n != 0 || ch.ours || ch.number == 0):
		return violation(AlreadyOpen, "channel %d", ch.number)
	case !opens && n == 0 && !ch.opened:
		return violation(ReliableBeforeOpen, "channel %d", ch.number)
	case flags&flagClose != 0 && ch.number == 0:
		return violation(BunchBadChannelIndex, "close of the control channel")
	}
	return nil
}

// closed processes the peer's close, and answers it unless this side has already closed the
// channel.
func (c *Conn) closed(ch *channel) {
	if ch.owesAnswer() {
		c.owed.count--
	}
	ch.inClosed = true
	for len(ch.assemblies) > 0 {
		c.assemblies.evict(ch.assemblies[0])
	}
	c.channels.peerClosed(ch)
	if !ch.outClosed {
		c.closeChannel(ch, flagAnswer, nil)
	}
	c.retire(ch)
}

// retire forgets a channel once nothing more can happen on it. If unreliable messages are
// still queued, Unsent has put them back.
func (c *Conn) retire(ch *channel) {
	if !c.channels.retire(ch) {
		return
	}
	if ch.lingers {
		c.release(ch.number, channelCost)
	}
	for ch.unreliable.len() > 0 {
		c.dropUnreliable(ch, 0)
	}
}
