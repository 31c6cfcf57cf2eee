package bunch

import (
	"slices"
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

const (
	// lostRecordPTOs is the number of probe timeouts for which we keep the record of a lost
	// packet, so that a late ack can still free its entries. RFC 9000, section 10.2, uses the
	// same time as the limit on how long a packet may stay in the network.
	lostRecordPTOs = 3

	// probePackets is the number of packets that may be sent for each probe timeout. See RFC
	// 9002, section 6.2.4.
	probePackets = 2

	// othersTime is how long after the arrival of another protocol's datagram we expect more of
	// them. It only has to exceed a round trip, so that a transfer in progress keeps renewing it.
	othersTime = time.Second
)

// loss detects lost packets, which are those that acknowledged packets have overtaken (RFC 9002,
// section 6.1), and decides when to probe because nothing is acknowledged (section 6.2).
//
// Other protocols, such as the one that moves the slices of a transfer, may send datagrams over
// the same path. The arrival of such a datagram tells us something about our own packets as well.
type loss struct {
	recovery.Losses

	// Probe timeouts. (RFC 9002, section 6.2)
	ptos        int           // number of timeouts since the last ack
	probes      int           // packets that may still be sent regardless of all limits
	nextRepeat  uint64        // the packet whose contents the next probe repeats
	silentSince time.Duration // last ack, or first packet sent since nothing was in flight

	// Datagrams of other protocols.
	overtaken   uint64        // packets below this number were overtaken by such a datagram
	othersUntil time.Duration // until when we expect more such datagrams
}

// nextAt returns when detectLosses must be called.
func (l *loss) nextAt() time.Duration {
	if l.Next == 0 {
		return never
	}
	return l.Next
}

// restart forgets what describes the previous path when the path changes. If there was an
// outage, the first probe on the new path mustn't wait for the backoff that has built up.
func (l *loss) restart() {
	l.Next = 0
	l.ptos = 0
}

const (
	// resendsPerAck is the number of bytes of play that may be retransmitted for each byte of
	// play that the peer acknowledges. It suffices for a path that loses seven of eight packets.
	resendsPerAck = 8

	// maxResendDebt is the number of bytes of play that may be retransmitted beyond that. It
	// covers what is in flight when a path fails for a second or two.
	maxResendDebt = 256 << 10

	// resendHeader is the approximate size of a bunch's header.
	resendHeader = 8
)

// A resendDebt limits how much play (the game's own traffic) is retransmitted. Play is
// retransmitted regardless of the window, as soon as an ack shows that it was overtaken. Without
// a limit, a peer that acknowledges one packet in a hundred could make us send everything a
// hundred times.
type resendDebt struct {
	bytes     int           // retransmitted play that acks haven't paid for; at most maxResendDebt
	exceeded  bool          // bytes has reached maxResendDebt, and acks haven't reduced it since
	exceedsAt time.Duration // if exceeded, when play was last retransmitted
}

// add counts play that is retransmitted. The debt never grows beyond maxResendDebt, so that it's
// soon paid off once the path no longer loses packets.
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

// resendAt returns when play may be retransmitted in spite of the debt. The timer isn't set if the
// debt holds nothing back. Neither is it set while packets are in flight, because their acks or
// their probe timeout come first.
func (c *Conn) resendAt() time.Duration {
	held := c.resends.exceeded && c.sent.packetsInFlight == 0 &&
		slices.ContainsFunc(c.levels[:bulkLevel], func(lv level) bool { return lv.resend.len() > 0 })
	if !held {
		return never
	}
	return c.resends.exceedsAt + c.pto()
}

// receiveAcks handles the acks in a packet. It settles the fates of the packets that they cover,
// samples the round trip, and detects lost packets.
func (c *Conn) receiveAcks(t time.Duration, h *packetHeader) error {
	largest := recovery.Number(c.sent.Next, uint64(h.largest), 32)
	if largest >= c.sent.Next {
		return violation(AckSequenceMismatch, "ack of packet %d, which was never sent; the next packet is %d",
			largest, c.sent.Next)
	}

	c.endOutage()
	silence := t - max(c.loss.silentSince, c.path.since)
	if c.sent.packetsInFlight > 0 && silence >= c.outageAfter() {
		// The outage is over. Packets that we sent during the outage may have been held up
		// somewhere, so don't mistake that time for a round trip.
		//
		// We check the time rather than the number of timeouts, because a suspended process
		// doesn't run any timers.
		c.congestion.OutageEnded(t, 0)
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
// largest. It returns the newest packet that is newly acknowledged, or nil if there's none.
func (c *Conn) ackRuns(t time.Duration, h *packetHeader, largest uint64) (newest *sentPacket, err error) {
	high := largest + 1
	for i, run := range h.runs[:h.nruns] {
		if run > high {
			return nil, violation(AckSequenceMismatch, "ack runs extend below packet 0")
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
			if i == 0 && isLargest && largest >= c.path.firstOwn {
				c.sampleRTT(t, p, h.delay)
			}
		}
		high = low
	}
	return newest, nil
}

// ackRange acknowledges the packets from low to high-1. It returns the newest packet that is
// newly acknowledged, or nil if there's none.
//
// If packets that were acknowledged in one range are acknowledged again, we skip them in one
// step. Otherwise, a peer could make us look at thousands of records by repeating an ack of
// fifteen bytes.
func (c *Conn) ackRange(t time.Duration, low, high uint64) (newest *sentPacket, err error) {
	low = max(low, c.sent.Oldest)
	for n := high; n > low; {
		n--
		p := c.sent.At(n)
		if p.fate == skipped {
			return nil, violation(AckSequenceMismatch, "ack of packet %d, which was deliberately skipped", n)
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

// sampleRTT measures the round trip of p, which is the largest packet in an ack and is newly
// acknowledged (RFC 9002, section 5.1). It subtracts the peer's ack delay, but no more than the
// agreed maximum (section 5.3).
func (c *Conn) sampleRTT(t time.Duration, p *sentPacket, delay uint16) {
	wait := time.Duration(delay) * ackDelayUnit * time.Microsecond
	c.congestion.RTT.Update(t, t-p.at, min(wait, c.peerAckDelay))
}

// ackPacket acknowledges packet n and reports whether it is newly acknowledged.
//
// That includes a packet that was declared lost, because after the round trip increases, there
// may be no other packets that show the increase.
func (c *Conn) ackPacket(t time.Duration, n uint64, p *sentPacket) bool {
	wasLost := p.fate == lost
	if p.fate != inFlight && !wasLost {
		return false
	}

	// The peer has received the packet's contents.
	for _, it := range p.items {
		c.ackItem(it)
	}
	if c.traced() {
		c.trace(Event{Kind: "acked", Number: n, Bytes: p.size, Again: wasLost})
	}
	if !wasLost {
		c.queueFates(p, true) // for a lost packet, we have already reported the loss
	}
	c.sent.decide(p, acked)
	c.received.raiseFloor(p.covers) // the peer has our acks too, so we needn't repeat them

	// The ack may also show something about the path.
	if wasLost {
		c.stats.SpuriousLosses++
	}
	if c.path.isEvidence(n) {
		c.congestion.Acked(t, &p.mark, p.size)
		c.blackHole.Acked(n, p.size > minDatagram)
		if wasLost {
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

// popAcked frees acknowledged entries, but only at the front of the buffer, so that as long as one
// entry is unacknowledged, all later ones keep their slots. Unreal does the same
// (UChannel::ReceivedAcks).
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
	ch.firstUnsent = max(ch.firstUnsent, ch.first) // resends of the freed entries didn't advance it
	if ch.first == ch.next {
		ch.returnRing(&c.rings)
	}
	if ch.awaitsAnswer() {
		c.unanswered.add(c.now)
	}
	c.releaseSuccessor(ch)
	c.retire(ch)
}

// detectLosses declares packets lost that later ones have overtaken (RFC 9002, section 6.1). It
// leaves that to the carrier if the carrier reports fates, and to loseForeign for packets that
// were sent on an earlier path.
func (c *Conn) detectLosses(t time.Duration) {
	c.loss.Begin(t, max(c.congestion.Current(), c.congestion.Latest))
	if c.path.Fates {
		return
	}
	n, ok := c.sent.firstInFlight()
	n = max(n, c.path.firstOwn)
	for ; ok && n < max(c.loss.Largest, c.loss.overtaken); n++ {
		p := c.sent.At(n)
		if p.fate != inFlight || !p.ackNow && n >= c.loss.Largest {
			// Either its fate is known, or only a datagram of another protocol has overtaken it
			// and the peer may be delaying its ack.
			continue
		}
		if !c.loss.Check(t, n+c.sent.skippedAfter(n), p.at) {
			return // later packets can't be lost either
		}
		c.losePacket(t, n, p)
	}
}

// Overtaken is called when a datagram of another protocol, which was sent over the same path at
// the time sent, has arrived.
//
// It is meant for isolated packets of play (the game's own traffic) that share the path with a
// transfer. If such a packet is lost, no ack shows the loss soon, because we have nothing to send
// after it. As long as datagrams of the transfer arrive, our packets therefore ask for an
// immediate ack, and a packet is declared lost if a datagram that was sent later has arrived and
// 9/8 of the round trip have passed (RFC 9002, section 6.1.2).
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

// BlackHole reports whether the path seems to drop large packets, which are those of more than
// 1,163 bytes. It does if three large packets in a row were lost, while a small packet that was
// sent after the first of them arrived. Each black hole is reported once.
func (c *Conn) BlackHole() bool { return c.blackHole.Detect(c.sent.Next) }

// losePacket declares packet n lost and queues what it carried for retransmission. We keep its
// record for a while, since a late ack can still free its entries.
func (c *Conn) losePacket(t time.Duration, n uint64, p *sentPacket) {
	c.sent.decide(p, lost)
	p.lostUntil = t + lostRecordPTOs*c.pto()
	c.stats.PacketsLost++
	if c.path.isEvidence(n) {
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
		c.flow.updateDue = true // no later packet has announced it, so announce it again
	}
}

// removeCopy is called when an item is no longer in flight. It queues those pieces for
// retransmission of which no other copy is in flight.
func (c *Conn) removeCopy(it item) {
	pieces := it.pieces()
	for i := range pieces {
		pieces[i].copies--
	}
	c.requeue(it, func(p *piece) bool { return p.copies == 0 })
}

// requeue queues the wanted pieces of an item for retransmission, except for those that have been
// acknowledged. It returns the number of bytes queued.
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

// ptoAt returns when the next probe timeout expires. The timer isn't set if nothing is in flight,
// or if a probe is about to be sent.
func (c *Conn) ptoAt() time.Duration {
	if c.sent.packetsInFlight == 0 || c.loss.probes > 0 {
		return never
	}
	if c.probesFrequently() {
		return c.sent.lastAckEliciting + c.pto()/2
	}
	return c.sent.lastAckEliciting + c.congestion.Backoff(c.loss.ptos, c.peerAckDelay)
}

// probe is called when the probe timeout expires. It allows two packets to be sent regardless of
// all limits (RFC 9002, section 6.2.4). To fill them, it queues second copies of bunches in
// flight, oldest first, as many as fit into two small packets.
//
// If there's another timeout before an ack arrives, probe continues where it left off, and
// starts over when it reaches the end. This gives all bunches the same chance on a path that
// loses nearly everything.
func (c *Conn) probe() {
	c.loss.ptos++
	if c.loss.ptos == 1 {
		c.loss.nextRepeat = 0
	}
	if c.probesFrequently() {
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
		if p := c.sent.At(c.loss.nextRepeat); p.fate == inFlight {
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
