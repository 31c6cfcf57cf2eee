package bunch

import (
	"slices"
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

const (
	// lostRecordPTOs is the number of probe timeouts for which we keep the record of a lost
	// packet, so that a late ack can still free its entries. A packet may stay in the network
	// for that long. See RFC 9000, section 10.2.
	lostRecordPTOs = 3

	// probePackets is the number of packets that may be sent for each probe timeout. See RFC
	// 9002, section 6.2.4.
	probePackets = 2

	// othersTime is the time for which we expect more datagrams of other machines after one
	// of them has arrived.
	othersTime = time.Second
)

// loss decides which packets are lost: packets that were overtaken by acknowledged ones
// (RFC 9002, section 6.1) and, after a timeout, packets about which nothing has been
// heard (section 6.2).
//
// Other machines, such as the one that moves slices of a transfer, may send datagrams over the
// same path. The arrival of such a datagram tells us something about our own packets as well.
type loss struct {
	recovery.Losses

	// Probe timeouts. (RFC 9002, section 6.2)
	ptos        int           // number of timeouts since the last ack
	probes      int           // packets that may still be sent regardless of all limits
	nextRepeat  uint64        // the packet whose contents the next probe repeats
	silentSince time.Duration // last ack, or first packet sent since nothing was in flight

	// Datagrams of other machines.
	overtaken   uint64        // packets below this number were overtaken by such a datagram
	othersUntil time.Duration // until when we expect more such datagrams
}

const (
	// resendsPerAck is how many bytes of play may be retransmitted for each byte of play that
	// the peer acknowledges. That is enough for a path that loses seven of eight packets.
	resendsPerAck = 8

	// maxResendDebt is how many bytes of play may be retransmitted beyond that. It covers what
	// was in flight when a path failed for a second or two.
	maxResendDebt = 256 << 10

	// resendHeader is approximately what a bunch takes besides its payload.
	resendHeader = 8
)

// A resendDebt limits how much play (the game's own traffic) is retransmitted. Play is
// retransmitted without regard to the window, as soon as an ack shows that it was overtaken. A peer
// that acknowledges one packet in a hundred would otherwise make us send everything a hundred
// times.
type resendDebt struct {
	bytes     int           // retransmitted play that acks haven't paid for; at most maxResendDebt
	exceeded  bool          // bytes reached maxResendDebt with the last retransmission
	exceedsAt time.Duration // when that was
}

// add counts play that is retransmitted. There's no more debt than maxResendDebt, so that a path on
// which nothing is lost any more is soon used again.
func (d *resendDebt) add(t time.Duration, payload int) {
	d.bytes = min(d.bytes+payload+resendHeader, maxResendDebt)
	if d.bytes == maxResendDebt {
		d.exceeded = true
		d.exceedsAt = t
	}
}

// pay counts play that was acknowledged.
func (d *resendDebt) pay(payload int) {
	d.bytes = max(0, d.bytes-resendsPerAck*(payload+resendHeader))
	d.exceeded = d.exceeded && d.bytes == maxResendDebt
}

// resendAt returns when play may be retransmitted in spite of its debt. ok is false if there's no
// need for a timer: nothing is held back, or packets are in flight, whose acks or whose probe
// timeout comes first.
func (c *Conn) resendAt() (at time.Duration, ok bool) {
	waits := c.resends.exceeded && c.sent.flying == 0 &&
		slices.ContainsFunc(c.levels[:bulkLevel], func(lv level) bool { return lv.resend.len() > 0 })
	return c.resends.exceedsAt + c.pto(), waits
}

// receiveAcks handles the acks in a packet: it settles the fate of the packets that they cover,
// samples the round trip, and determines which packets must be lost.
func (c *Conn) receiveAcks(t time.Duration, h *packetHeader) error {
	largest := recovery.Number(c.sent.Next, uint64(h.largest), 32)
	if largest >= c.sent.Next {
		return violation(AckSequenceMismatch, "ack of packet %d, the next to be sent is %d", largest, c.sent.Next)
	}

	c.leaveDark()
	silence := t - max(c.loss.silentSince, c.path.since)
	if c.sent.flying > 0 && silence >= c.darkTime() {
		// The outage is over. Packets that we sent during the outage may have been held up
		// somewhere, so don't take that time for a round trip.
		//
		// We check the time and not the number of timeouts, because a process that was stopped
		// hasn't run any timers.
		c.congestion.Held(t, 0)
	}
	newest, err := c.ackRuns(t, h, largest)
	if err != nil {
		return err
	}
	c.loss.Largest = max(c.loss.Largest, largest+1)
	if newest != nil {
		if newest.at >= c.path.since {
			c.congestion.Measure(t, newest.at, &newest.mark)
		}
		c.loss.ptos = 0
		c.loss.silentSince = t
	}

	c.detectLosses(t)
	c.sent.dropExpired(t)
	if len(c.watched) > 0 {
		c.checkWatches()
	}
	return nil
}

// ackRuns acknowledges the packets in all runs of an ack, the first of which ends with packet
// largest. It returns the newest packet that wasn't acknowledged before, or nil if there's
// none.
func (c *Conn) ackRuns(t time.Duration, h *packetHeader, largest uint64) (newest *sentPacket, err error) {
	high := largest + 1
	for i, run := range h.runs[:h.nruns] {
		if run > high {
			return nil, violation(AckSequenceMismatch, "ack runs reach below packet 0")
		}
		low := high - run
		isAcked := i%2 == 0 // every other run is a gap
		if isAcked {
			p, err := c.ackRange(t, low, high)
			if err != nil {
				return nil, err
			}
			if newest == nil {
				newest = p
			}
			// The ack reports a delay only for the largest packet.
			isLargest := p != nil && p == c.sent.At(largest)
			if i == 0 && isLargest && largest >= c.path.foreign {
				c.sampleRTT(t, p, h.delay)
			}
		}
		high = low
	}
	return newest, nil
}

// ackRange acknowledges the packets from low to high-1. It returns the newest packet that
// wasn't acknowledged before, or nil if there's none.
//
// Packets that were acknowledged in one range are skipped in one step when they're
// acknowledged again. Otherwise, a peer could make us look at thousands of records by
// repeating an ack of fifteen bytes.
func (c *Conn) ackRange(t time.Duration, low, high uint64) (newest *sentPacket, err error) {
	low = max(low, c.sent.Oldest)
	for n := high; n > low; {
		n--
		p := c.sent.At(n)
		if p.fate == skipped {
			return nil, violation(AckSequenceMismatch, "ack of packet %d, which was left out", n)
		}
		if c.ackPacket(t, n, p) && newest == nil {
			newest = p
		}
		acked := min(p.ackedBelow, n-low)
		p.ackedBelow = max(p.ackedBelow, n-low)
		n -= acked
	}
	return newest, nil
}

// sampleRTT measures the round trip of p, which is the largest packet in an ack and wasn't
// acknowledged before (RFC 9002, section 5.1). It subtracts the peer's ack delay, but no more than
// the agreed maximum (section 5.3).
func (c *Conn) sampleRTT(t time.Duration, p *sentPacket, delay uint16) {
	wait := time.Duration(delay) * ackDelayUnit * time.Microsecond
	c.congestion.RTT.Update(t, t-p.at, min(wait, c.peerAckDelay))
}

// ackPacket acknowledges packet n and reports whether the ack tells us anything new.
//
// The ack of a packet that was declared lost is new as well. After an increase of the round
// trip, there may be no other packets that show the increase.
func (c *Conn) ackPacket(t time.Duration, n uint64, p *sentPacket) bool {
	was := p.fate
	if was != flying && was != lost {
		return false
	}

	// The peer has received the packet's contents.
	for _, it := range p.items {
		c.ackItem(it)
	}
	if c.traced() {
		c.trace(Event{Kind: "acked", Number: n, Bytes: p.size, Again: was == lost})
	}
	if was == flying {
		c.queueFates(p, true) // for a lost packet, we have already reported the loss
	}
	c.sent.decide(p, acked)
	// The peer has our acks too, so we needn't repeat them.
	c.received.floor = max(c.received.floor, p.covers)

	// What the ack shows about the path.
	if was == lost {
		c.stats.SpuriousLosses++
	}
	if c.path.judges(n) {
		c.congestion.Acked(t, &p.mark, p.size)
		c.blackHole.Acked(n, p.size > minDatagram)
		if was == lost {
			c.loss.Spurious(t, t-p.at)
		}
	}
	return true
}

// ackItem marks the pieces that an item covers as acknowledged.
func (c *Conn) ackItem(it item) {
	pieces := it.pieces()
	for i := range pieces {
		if p := &pieces[i]; !p.acked && it.channel.priority != Bulk {
			c.resends.pay(int(p.end - p.off))
		}
		pieces[i].acked = true
		pieces[i].queued = false
	}
	if it.sequence == it.channel.first {
		c.popAcked(it.channel)
	}
}

// popAcked frees acknowledged entries, but only at the front of the buffer: while one bunch is
// missing, all later entries keep their slots. UE: UChannel::ReceivedAcks does the same.
func (c *Conn) popAcked(ch *channel) {
	oldest := ch.first
	for ch.first < ch.next {
		e := ch.out.at(ch.first)
		if !e.isAcked() {
			break
		}
		if e.flags&flagWhole == flagBegin {
			// Held shows the beginning of a message until all of it is acknowledged.
			ch.ackedHead.n = copy(ch.ackedHead.bytes[:], e.payload)
		}
		if ch.isPlay() {
			c.flow.held -= e.memory()
			c.flow.freed += uint64(e.memory())
		}
		c.blocks.put(e.payload)
		ch.openAcked = ch.openAcked || e.flags&flagEnd != 0
		*e = entry{}
		ch.first++
		c.flow.entries--
	}

	if c.traced() && ch.first > oldest {
		c.trace(Event{Kind: "freed", Channel: ch.number, Sequence: ch.first})
	}
	ch.firstUnsent = max(ch.firstUnsent, ch.first) // entries may have been sent among the resends
	if ch.first == ch.next {
		ch.returnRing(&c.rings)
	}
	if ch.owesAnswer() {
		c.owed.add(c.now)
	}
	c.releaseSuccessor(ch)
	c.retire(ch)
}

// detectLosses declares packets lost if later ones have overtaken them, unless the carrier
// reports fates. giveUpForeign handles packets sent on an earlier path.
//
// See RFC 9002, section 6.1.
func (c *Conn) detectLosses(t time.Duration) {
	c.loss.Begin(t, max(c.congestion.Current(), c.congestion.Latest))
	if c.path.Fates {
		return
	}
	n, ok := c.sent.firstFlying()
	n = max(n, c.path.foreign)
	for ; ok && n < max(c.loss.Largest, c.loss.overtaken); n++ {
		p := c.sent.At(n)
		if p.fate != flying || !p.ackNow && n >= c.loss.Largest {
			// Either its fate is known, or only a datagram of another machine has overtaken it
			// and the peer may be delaying its ack.
			continue
		}
		if !c.loss.Check(t, n+c.sent.skippedAfter(n), p.at) {
			return // then no later packet is lost either
		}
		c.losePacket(t, n, p)
	}
}

// Overtaken is called when a datagram has arrived that another machine sent over the same path.
// sent is the time when the machine sent it.
//
// This is for isolated packets of play (the game's own traffic) that share the path with
// another machine's transfer. If such a packet is lost, no ack shows the loss soon, because we
// have nothing to send after it. While these datagrams arrive, our packets ask for an immediate
// ack. We can therefore declare a packet lost if it is older than a datagram that arrived and
// 9/8 of the round trip have passed.
//
// See RFC 9002, section 6.1.2.
func (c *Conn) Overtaken(now, sent time.Time) {
	t := c.advanceClock(now)
	at := sent.Sub(c.start)
	c.loss.othersUntil = t + othersTime
	n := max(c.loss.overtaken, c.sent.Oldest)
	for n < c.sent.Next && c.sent.At(n).at < at {
		n++
	}
	if n > c.loss.overtaken {
		c.loss.overtaken = n
		c.changed = true
		c.detectLosses(t)
	}
}

// BlackHole reports whether the path seems to drop large packets, those with more than 1,163
// bytes. This is the case if three large packets in a row were lost and none arrived, while a
// small packet that was sent after the first of them did arrive. Each finding is reported once.
func (c *Conn) BlackHole() bool { return c.blackHole.Detect(c.sent.Next) }

// losePacket declares packet n lost and queues what it carried for retransmission. We keep its
// record for a while, since a late ack can still free its entries.
func (c *Conn) losePacket(t time.Duration, n uint64, p *sentPacket) {
	c.sent.decide(p, lost)
	p.lostUntil = t + lostRecordPTOs*c.pto()
	c.stats.PacketsLost++
	if c.path.judges(n) {
		c.blackHole.Lost(n, p.size > minDatagram)
		c.congestion.Lost(&p.mark, p.size)
	}
	if c.traced() {
		c.trace(Event{Kind: "lost", Number: n, Bytes: p.size})
	}
	for _, it := range p.items {
		c.removeCopy(it)
	}
	c.queueFates(p, false)
	if p.limit && n == c.flow.limitPacket {
		c.flow.update = true // no later packet has announced it, so announce it again
	}
}

// removeCopy is called when an item is no longer in flight. It queues the pieces that aren't in
// any other packet in flight.
func (c *Conn) removeCopy(it item) {
	pieces := it.pieces()
	for i := range pieces {
		pieces[i].copies--
	}
	c.requeue(it, func(p *piece) bool { return p.copies == 0 })
}

// requeue queues the pieces of an item for retransmission, except for those that are
// acknowledged or not wanted. It returns the number of bytes that it has queued.
func (c *Conn) requeue(it item, wanted func(*piece) bool) (bytes int) {
	pieces := it.pieces()
	for i := range pieces {
		if p := &pieces[i]; !p.acked && wanted(p) {
			p.queued = true
			bytes += int(p.end - p.off)
			c.queueResend(it.channel, it.sequence, it.channel.out.at(it.sequence))
		}
	}
	return bytes
}

// pto returns the probe timeout without any backoff.
// See RFC 9002, section 6.2.1.
func (c *Conn) pto() time.Duration { return c.congestion.PTO(c.peerAckDelay) }

// ptoAt returns when the next probe timeout expires. ok is false if the timer isn't set, which
// is the case when nothing is in flight or a probe is about to be sent.
func (c *Conn) ptoAt() (at time.Duration, ok bool) {
	if c.sent.flying == 0 || c.loss.probes > 0 {
		return 0, false
	}
	if c.probesOften() {
		return c.sent.lastAsk + c.pto()/2, true
	}
	return c.sent.lastAsk + c.congestion.Backoff(c.loss.ptos, c.peerAckDelay), true
}

// probe is called when the probe timeout expires. It allows two packets to be sent regardless
// of all limits. To fill them, it queues second copies of bunches in flight, oldest first, as
// many as fit into two small packets.
//
// If there's another timeout before an ack arrives, probe continues where it left off, and
// starts over once it reaches the end. This gives all bunches the same chance on a path that
// loses nearly everything.
//
// See RFC 9002, section 6.2.4.
func (c *Conn) probe() {
	c.loss.ptos++
	if c.loss.ptos == 1 {
		c.loss.nextRepeat = 0
	}
	if c.probesOften() {
		// One packet that repeats nothing is enough to learn that the path is back.
		c.loss.probes = 1
		return
	}

	c.loss.probes = probePackets
	room := probePackets * EntryBytes
	for range c.sent.spread() {
		if c.loss.nextRepeat < c.sent.undecided || c.loss.nextRepeat >= c.sent.Next {
			c.loss.nextRepeat = c.sent.undecided
		}
		if p := c.sent.At(c.loss.nextRepeat); p.fate == flying {
			for _, it := range p.items {
				if room < int(it.end-it.off) {
					return
				}
				room -= c.requeue(it, func(p *piece) bool { return !p.queued })
			}
		}
		c.loss.nextRepeat++
	}
}
