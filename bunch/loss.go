package bunch

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

const (
	// lostMemory is how long the record of a lost packet is kept, in PTOs. A late ack can
	// then still free its entries. RFC 9000, section 10.2, expects packets to be in flight
	// for as long.
	lostMemory = 3
	// probePackets is the maximum that RFC 9002, section 6.2.4, allows for one timeout.
	probePackets = 2
	// othersTime is how long more datagrams of other machines are expected after one has
	// arrived.
	othersTime = time.Second
)

// loss decides which packets are lost, by acks (RFC 9002, section 6.1) and timeouts
// (section 6.2).
type loss struct {
	recovery.Losses
	ptos        int           // probe timeouts since the last ack
	probes      int           // packets that may be sent whatever would hold them back
	repeat      uint64        // number of the packet whose bunches the next probe sends again
	unanswered  time.Duration // when the last ack arrived, or a packet was sent with none in flight
	overtaken   uint64        // packets below this number were overtaken by a datagram of another machine
	othersUntil time.Duration // more datagrams of other machines are expected until then
}

// receiveAcks handles the acks in a packet. It decides the fates of the packets that they
// name (whether each arrived or was lost), measures the path and detects lost packets.
func (c *Conn) receiveAcks(t time.Duration, h *packetHeader) error {
	largest := recovery.Number(c.sent.Next, uint64(h.largest), 32)
	if largest >= c.sent.Next {
		return violation(AckSequenceMismatch, "ack of packet %d, the next to be sent is %d", largest, c.sent.Next)
	}

	c.leaveDark()
	unheard := t - max(c.loss.unanswered, c.path.since)
	if c.sent.flying > 0 && unheard >= c.darkTime() {
		// The test is for time rather than timeouts, because a process that was stopped has
		// run no timers.
		c.gate.Held(t, 0)
	}
	newest, err := c.ackRuns(t, h, largest)
	if err != nil {
		return err
	}
	c.loss.Largest = max(c.loss.Largest, largest+1)
	if newest != nil {
		if newest.at >= c.path.since {
			c.gate.Measure(t, newest.at, &newest.mark)
		}
		c.loss.ptos = 0
		c.loss.unanswered = t
	}

	c.detectLosses(t)
	c.sent.forget(t)
	if len(c.watched) > 0 {
		c.checkWatches()
	}
	return nil
}

// ackRuns acknowledges the packets in all runs. It returns the newest packet that was not
// acknowledged before, or nil.
func (c *Conn) ackRuns(t time.Duration, h *packetHeader, largest uint64) (newest *packet, err error) {
	high := largest + 1
	for i, run := range h.runs[:h.nruns] {
		if run > high {
			return nil, violation(AckSequenceMismatch, "ack runs reach below packet 0")
		}
		low := high - run
		if i%2 == 0 {
			p, err := c.ackRange(t, low, high)
			if err != nil {
				return nil, err
			}
			if newest == nil {
				newest = p
			}
			if i == 0 && p != nil && p == c.sent.At(largest) && largest >= c.path.foreign {
				c.sampleRTT(t, p, h.delay)
			}
		}
		high = low
	}
	return newest, nil
}

// ackRange acknowledges the packets from low to high-1. It returns the newest packet that
// was not acknowledged before, or nil.
//
// It skips ranges that are already acknowledged. Otherwise a peer could make this end look
// at thousands of records by repeating an ack of fifteen bytes.
func (c *Conn) ackRange(t time.Duration, low, high uint64) (newest *packet, err error) {
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
		leap := min(p.below, n-low)
		p.below = max(p.below, n-low)
		n -= leap
	}
	return newest, nil
}

// sampleRTT measures the round trip of p, the largest packet in an ack and newly
// acknowledged (RFC 9002, section 5.1). It subtracts the delay that the peer reports, up to
// the agreed maximum (section 5.3).
func (c *Conn) sampleRTT(t time.Duration, p *packet, delay uint16) {
	wait := time.Duration(delay) * ackDelayUnit * time.Microsecond
	c.gate.RTT.Update(t, t-p.at, min(wait, c.peerAckDelay))
}

// ackPacket acknowledges packet n and reports whether that is new. The ack of a packet
// declared lost counts as new as well: once the round trip has grown, only such packets
// show it.
func (c *Conn) ackPacket(t time.Duration, n uint64, p *packet) bool {
	was := p.fate
	if was != flying && was != lost {
		return false
	}

	// The peer has received the packet's content.
	for _, it := range p.items {
		c.ackItem(it)
	}
	if c.traced() {
		c.trace(Event{Kind: "acked", Number: n, Bytes: p.size, Again: was == lost})
	}
	if was == flying {
		c.tellAll(p, true)
	}
	c.sent.decide(p, acked)
	c.received.floor = max(c.received.floor, p.covers)

	// What the ack shows about the path.
	if was == lost {
		c.stats.SpuriousLosses++
	}
	if c.path.judges(n) {
		c.gate.Acked(t, &p.mark, p.size)
		c.blackHole.Acked(n, p.size > minDatagram)
		if was == lost {
			c.loss.Spurious(t, t-p.at)
		}
	}
	return true
}

// ackItem marks the pieces covered by an item as acked. It then frees entries at the front
// of the buffer that are acked completely.
func (c *Conn) ackItem(it item) {
	ch := it.channel
	if it.sequence < ch.first {
		return
	}
	e := ch.out.at(it.sequence)
	for i := range e.all() {
		if p := &e.pieces[i]; p.off >= it.off && p.end <= it.end {
			p.acked, p.queued = true, false
		}
	}
	if it.sequence == ch.first {
		c.popAcked(ch)
	}
}

// popAcked frees acked entries, but only from the front of the buffer. One lost bunch
// therefore keeps all later entries in the count. UE: UChannel::ReceivedAcks.
func (c *Conn) popAcked(ch *channel) {
	oldest := ch.first
	for ch.first < ch.next {
		e := ch.out.at(ch.first)
		if !e.acked() {
			break
		}
		if e.flags&flagWhole == flagBegin {
			ch.popped.n = copy(ch.popped.bytes[:], e.payload)
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
	ch.fresh = max(ch.fresh, ch.first)
	if ch.first == ch.next {
		ch.returnRing(&c.rings)
	}
	if ch.owesAnswer() {
		c.owed.add(c.now)
	}
	c.releaseLater(ch)
	c.retire(ch)
}

// detectLosses declares lost the packets that others have overtaken (RFC 9002, section
// 6.1). It does nothing if the carrier reports fates. It ignores packets sent on another
// path, which giveUpForeign handles.
func (c *Conn) detectLosses(t time.Duration) {
	c.loss.Begin(t, max(c.gate.Current(), c.gate.Latest))
	if c.path.Fates {
		return
	}
	n, ok := c.sent.firstFlying()
	n = max(n, c.path.foreign)
	for ; ok && n < max(c.loss.Largest, c.loss.overtaken); n++ {
		p := c.sent.At(n)
		if p.fate != flying || !p.prompt && n >= c.loss.Largest {
			continue
		}
		if !c.loss.Lost(t, n+c.sent.skippedAfter(n), p.at) {
			return // no packet sent later is lost either
		}
		c.losePacket(t, n, p)
	}
}

// Overtaken is called when a datagram that another machine sent at the time sent has
// arrived on the same path.
//
// It helps single packets of play that share the path with others' bulk. No further packet
// of ours follows soon, so no ack would show their loss. While such datagrams arrive,
// packets of play ask for an ack at once. A packet of play sent before one of these
// datagrams is lost after 9/8 of the round trip (RFC 9002, section 6.1.2).
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

// BlackHole reports whether the path seems to drop large packets: 3 consecutive packets
// above 1,163 bytes were lost, while smaller ones sent after the first of them arrived and
// no larger one did. It reports each finding once.
func (c *Conn) BlackHole() bool { return c.blackHole.Found(c.sent.Next) }

// losePacket declares p lost and queues its bunches again. Its record is kept for a while,
// so that a late ack frees their entries.
func (c *Conn) losePacket(t time.Duration, n uint64, p *packet) {
	c.sent.decide(p, lost)
	p.lostUntil = t + lostMemory*c.pto()
	c.stats.PacketsLost++
	if c.path.judges(n) {
		c.blackHole.Lost(n, p.size > minDatagram)
		c.gate.Lost(&p.mark, p.size)
	}
	if c.traced() {
		c.trace(Event{Kind: "lost", Number: n, Bytes: p.size})
	}
	for _, it := range p.items {
		c.giveBack(it)
	}
	c.tellAll(p, false)
	if p.limit && n == c.flow.limitPacket {
		c.flow.update = true
	}
}

// giveBack removes one copy of an item from flight and queues those of its pieces that have
// no other copy in flight.
func (c *Conn) giveBack(it item) {
	c.requeue(it, func(p *piece) bool {
		p.copies--
		return p.copies == 0
	})
}

// requeue queues the pieces of an item that are wanted and not acked, and returns their
// size in bytes.
func (c *Conn) requeue(it item, wanted func(*piece) bool) (bytes int) {
	ch := it.channel
	if it.sequence < ch.first {
		return 0
	}
	e := ch.out.at(it.sequence)
	for i := range e.all() {
		if p := &e.pieces[i]; p.off >= it.off && p.end <= it.end && wanted(p) && !p.acked {
			p.queued = true
			bytes += int(p.end - p.off)
			c.queueResend(ch, it.sequence, e)
		}
	}
	return bytes
}

// pto returns the probe timeout, without backoff (RFC 9002, section 6.2.1).
func (c *Conn) pto() time.Duration { return c.gate.PTO(c.peerAckDelay) }

// ptoAt returns the time of the next probe. ok is false if there is none.
func (c *Conn) ptoAt() (time.Duration, bool) {
	if c.sent.flying == 0 || c.loss.probes > 0 {
		return 0, false
	}
	if c.asksOften() {
		return c.sent.lastAsk + c.pto()/2, true
	}
	return c.sent.lastAsk + c.gate.Backoff(c.loss.ptos, c.peerAckDelay), true
}

// probe is called on a probe timeout. It allows two packets (RFC 9002, section 6.2.4), or a
// single packet that repeats nothing if asksOften.
//
// The two packets repeat as many bunches as two small packets hold, the oldest first. The
// original copies stay in flight. The next consecutive timeout continues where this one
// ended and wraps around, so that all bunches have the same chance on a path that loses
// nearly everything.
func (c *Conn) probe() {
	c.loss.ptos++
	if c.loss.ptos == 1 {
		c.loss.repeat = 0
	}
	if c.asksOften() {
		c.loss.probes = 1
		return
	}

	c.loss.probes = probePackets
	room := probePackets * EntryBytes
	for range c.sent.spread() {
		if c.loss.repeat < c.sent.undecided || c.loss.repeat >= c.sent.Next {
			c.loss.repeat = c.sent.undecided
		}
		if p := c.sent.At(c.loss.repeat); p.fate == flying {
			for _, it := range p.items {
				if room < int(it.end-it.off) {
					return
				}
				room -= c.requeue(it, func(p *piece) bool { return !p.queued })
			}
		}
		c.loss.repeat++
	}
}
