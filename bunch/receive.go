package bunch

import (
	"slices"
	"time"

	"github.com/quivernet/quiver/internal/recovery"
	"github.com/quivernet/quiver/internal/words"
)

// Receive handles a datagram from the peer. The datagram must not be used afterwards, because
// messages may alias it.
//
// If Receive returns an error, the connection has ended, usually because the peer violated the
// protocol.
func (c *Conn) Receive(now time.Time, datagram []byte) error {
	t := c.advanceClock(now)
	if c.err != nil {
		return c.err
	}
	var h packetHeader
	rest, err := parsePacketHeader(datagram, &h)
	if err != nil {
		return c.fail(violation(ReadHeaderFail, "invalid header in a packet of %s: %v", words.Bytes(len(datagram)), err))
	}

	number := recovery.Number(c.received.Next, uint64(h.number), 32) // RFC 9000, A.3
	outOfOrder := number != c.received.Next                          // it leaves a gap or fills one
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
	c.currentPacket = number
	if c.traced() {
		c.trace(Event{Kind: "received", Number: number, Bytes: len(datagram)})
	}

	if err := c.receivePacket(t, number, &h, rest, len(datagram)); err != nil {
		return c.fail(err.(*Error))
	}
	if len(rest) > 0 || h.flags&(flagPing|flagLimit) != 0 {
		c.received.scheduleAck(t, c.config.AckDelay, outOfOrder, h.flags&flagAckNow != 0)
	}
	// The packet may have given us something to send: an ack, a higher limit, or bunches that
	// turned out to be lost.
	c.changed = c.changed || c.mustSend(t) || c.hasPending(len(c.levels))
	return nil
}

// ReceiveLent is like Receive, but the caller may reuse the datagram, because we copy whatever we
// keep of it.
//
// The entries of a long message are copied into pooled blocks, so that nothing is allocated for it
// beyond the message itself.
func (c *Conn) ReceiveLent(now time.Time, datagram []byte) error {
	c.payloads.lent = true
	defer func() { c.payloads.lent = false }()
	return c.Receive(now, datagram)
}

// receivePacket handles the contents of a packet: acks, a limit, and the bunches in rest. size is
// the size of the datagram, which payloads may alias. Any error is an *Error.
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
		// Either the packet is a probe, or the peer is blocked by our limit and asks for a
		// higher one. In both cases the peer may have missed our last limit, so announce it
		// again.
		c.flow.updateDue = true
	}
	for n := 0; len(rest) > 0; n++ {
		if n == maxBunches {
			return violation(BunchDataOverflow, "packet has more than %d bunches", maxBunches)
		}
		bh, payload, more, err := parseBunch(rest)
		if err != nil {
			return violation(BunchDataOverflow, "bunch %d in a packet of %d bytes: %v", n, size, err)
		}
		if err := c.receiveBunch(number, bh, payload, size); err != nil {
			return err
		}
		rest = more
	}
	return nil
}

// receiveBunch handles a bunch. number is the number of the packet that carried it, and size is the
// size of the datagram.
func (c *Conn) receiveBunch(number uint64, h header, payload []byte, size int) error {
	c.stats.BunchesReceived++
	// Only the side that opened a channel sends tracked messages on it.
	if h.tracked() && !h.isRepair() && (h.channel == 0 || c.channels.isOurs(h.channel)) {
		return violation(BunchBadChannelIndex, "tracked bunch on channel %d, which the peer did not open", h.channel)
	}
	ch, err := c.findOrAccept(h)
	if ch == nil || err != nil {
		return err
	}
	if ch.inClosed {
		// It's a late duplicate, or the close has overtaken it.
		c.stats.dropClosed(h)
		return nil
	}
	switch {
	case h.isRepair():
		return c.receiveRepair(ch, h, payload)
	case h.reliable():
		completed, err := c.receiveReliable(ch, h, payload, size)
		if !completed || err != nil {
			return err
		}
		// This entry may be all that was missing to restore other entries of its group.
		return c.receiveRestored(ch, c.restorer.entryReceived(ch, h.sequence))
	case h.tracked():
		return c.receiveTracked(ch, number, payload, size)
	}
	return c.receiveUnreliable(ch, number, h, payload, size)
}

// findOrAccept returns the channel that a bunch is for, and accepts it if the peer opens it
// with this bunch. It returns nil if the bunch must be dropped.
func (c *Conn) findOrAccept(h header) (*channel, error) {
	if ch := c.channels.find(h.channel); ch != nil {
		return ch, nil
	}
	closed, err := c.channels.wasClosed(h.channel)
	switch {
	case err != nil:
		return nil, err
	case closed:
		c.stats.dropClosed(h)
		return nil, nil
	case !h.reliable() || h.isRepair():
		// Only a reliable bunch opens a channel. This one must have overtaken it.
		c.stats.DroppedBeforeOpen++
		return nil, nil
	}
	ch, err := c.channels.accept(h.channel)
	if err != nil {
		return nil, err
	}
	return ch, c.charge(ch, channelCost)
}

// receiveReliable handles a reliable bunch, which holds an entry of the reliable buffer or a
// piece of one. It reports whether the bunch completed the entry.
//
// An entry is processed at once if it's the next one in sequence. Otherwise it's parked, which
// means that it waits for the entries before it. If it completes an unordered message, however,
// the message is delivered right away.
func (c *Conn) receiveReliable(
	ch *channel, h header, payload []byte, size int,
) (completed bool, err error) {
	n := recovery.Number(ch.expected, uint64(h.sequence), 16)
	if n < ch.expected {
		c.stats.DroppedDuplicate++
		return false, nil
	}
	slots := slotsOf(ch.number, c.config.ReliableBuffer)
	if ahead := n - ch.expected; ahead >= uint64(slots) {
		return false, violation(MaxReliableExceeded, "channel %d: sequence %d is %d ahead; the limit is %d entries (ReliableBuffer)",
			ch.number, n, ahead, slots)
	}

	// Usually there's no need to park the entry.
	isPiece := h.flags&flagPiece != 0
	hasSlot := ch.in.len() > 0 && ch.in.at(0).number <= n
	if n == ch.expected && !isPiece && !hasSlot {
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

// receiveRepair handles a repair bunch, and the entries that we can restore with its help.
func (c *Conn) receiveRepair(ch *channel, h header, payload []byte) error {
	r, err := parseRepair(h, payload)
	if err != nil {
		return violation(BunchDataOverflow, "channel %d: %v", ch.number, err)
	}
	r.first = recovery.Number(ch.expected, r.first, 16)
	last := r.first + uint64(r.count) - 1
	if slots := slotsOf(ch.number, c.config.ReliableBuffer); last >= ch.expected+uint64(slots) {
		return violation(MaxReliableExceeded,
			"channel %d: repair bunch up to sequence %d is %d ahead; the limit is %d entries (ReliableBuffer)",
			ch.number, last, last-ch.expected, slots)
	}
	return c.receiveRestored(ch, c.restorer.receive(ch, r))
}

// receiveRestored handles entries that were restored from repair bunches as if they had been
// received.
//
// It begins with the last entry. Entries after a close are a violation, which we only notice if
// these entries are parked before we process the close.
func (c *Conn) receiveRestored(ch *channel, restored []slot) error {
	for _, s := range slices.Backward(restored) {
		h := header{flags: s.flags, sequence: uint16(s.number)}
		if _, err := c.receiveReliable(ch, h, s.payload, EntryBytes); err != nil {
			return err
		}
	}
	return nil
}

// receiveNext processes an entry that is the next in sequence and arrived whole, so that it needs
// no slot from the pool.
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

// store puts an entry, or a piece of one, into its slot.
func (c *Conn) store(ch *channel, s *slot, h header, payload []byte, size int) error {
	switch {
	case h.flags&flagPiece != 0:
		return c.storePiece(ch, s, h, payload)
	case s.state == partly:
		// Some pieces of the entry have arrived, and now it was sent whole. Treat it as a piece
		// that covers everything.
		h.total = uint16(len(payload))
		return c.storePiece(ch, s, h, payload)
	}
	s.flags, s.state = h.flags, full
	return c.storeWhole(ch, s, payload, size)
}

// storeWhole puts an entry that arrived whole into its slot, and charges it to the limit.
func (c *Conn) storeWhole(ch *channel, s *slot, payload []byte, size int) error {
	c.payloads.keep(s, payload, size)
	if err := c.chargeEntry(ch, s); err != nil {
		return err
	}
	return c.chargeMessages(ch, s)
}

// storePiece copies a piece to where it belongs in its entry.
//
// The first piece to arrive allocates memory for the whole entry and is charged for it. All
// pieces of an entry must agree about its flags and size.
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
		return violation(BunchDataOverflow, "channel %d: pieces of an entry disagree about its flags or size", ch.number)
	}
	end := h.offset + uint16(len(payload))
	if !s.add(h.offset, end) {
		return violation(BunchDataOverflow, "channel %d: entry has more than %d separate ranges", ch.number, maxPieces)
	}
	copy(s.payload[h.offset:end], payload)
	if !s.complete() {
		return nil
	}
	s.state = full
	return c.chargeMessages(ch, s)
}

// advance processes the parked entries that are next in sequence.
func (c *Conn) advance(ch *channel) error {
	for ch.in.len() > 0 {
		if ch.inClosed {
			return violation(BunchDataOverflow, "channel %d: %s after its close", ch.number, words.Plural(ch.in.len(), "entry", "entries"))
		}
		s := ch.in.at(0)
		if s.number != ch.expected || s.state < full {
			return nil
		}
		ch.expected++
		if s.state == delivered {
			// The entry's message has overtaken others and was already delivered, so that only
			// its slot remains to be freed.
			c.release(ch.number, entryCost)
		} else if err := c.process(ch, s.number, s); err != nil {
			return err
		}
		c.payloads.free(ch.in.drop())
	}
	return nil
}

// process handles entry n, which is the next in sequence.
func (c *Conn) process(ch *channel, n uint64, s *slot) error {
	if err := checkOpen(ch, n, s.flags); err != nil {
		return err
	}
	if err := c.deliverEntry(ch, &ch.run, s); err != nil {
		return err
	}
	if s.flags&flagClose != 0 {
		// An answer to our close costs nothing, so there's nothing to give back for it later.
		ch.lingers = !isAnswer(s.flags, len(s.payload))
		c.receiveClose(ch)
	}
	return nil
}

// deliverEntry delivers the messages that this entry completes. r is the run (a message of
// several entries) that the entry belongs to if it isn't a whole bunch.
func (c *Conn) deliverEntry(ch *channel, r *run, s *slot) error {
	if s.flags&flagWhole != flagWhole {
		return c.addToRun(ch, r, s)
	}
	if r.open {
		return violation(PartialInitialReliableDestroy, "channel %d: whole bunch before the end of the previous message", ch.number)
	}
	return c.deliverWhole(ch, s)
}

// checkOpen returns an error if entry n opens or closes a channel that it may not, or fails to open
// one that it must. The first entry on a channel that the peer created must open it, and no other
// entry may open a channel. Channel 0 is neither opened nor closed.
func checkOpen(ch *channel, n uint64, flags byte) error {
	opens := flags&flagOpen != 0
	switch {
	case opens && (n != 0 || ch.ours || ch.number == 0):
		return violation(AlreadyOpen, "channel %d is open already, or the peer may not open it", ch.number)
	case !opens && n == 0 && !ch.opened:
		return violation(ReliableBeforeOpen, "channel %d: first message does not open the channel", ch.number)
	case flags&flagClose != 0 && ch.number == 0:
		return violation(BunchBadChannelIndex, "control channel cannot be closed")
	}
	return nil
}

// receiveClose processes the peer's close of a channel. If we haven't closed the channel
// ourselves, it answers with our own close.
func (c *Conn) receiveClose(ch *channel) {
	if ch.awaitsAnswer() {
		c.unanswered.remove()
	}
	ch.inClosed = true
	for len(ch.assemblies) > 0 {
		// Further parts would be dropped, because the channel is closed.
		c.assemblies.evict(ch.assemblies[0])
	}
	c.channels.peerClosed(ch)
	if !ch.outClosed {
		c.closeChannel(ch, answerFlags, nil)
	}
	c.retire(ch)
}

// retire removes a channel once both sides have closed it and everything on it is acknowledged.
func (c *Conn) retire(ch *channel) {
	if !c.channels.retire(ch) {
		return
	}
	if ch.lingers {
		c.release(ch.number, channelCost)
	}
	for ch.unreliable.len() > 0 {
		// Unsent put these back into the queue, but the channel was closed before they could be
		// sent again.
		c.dropUnreliable(ch, 0)
	}
}
