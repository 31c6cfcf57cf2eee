package bunch

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

const (
	// lostMemory is for how many PTOs the record of a lost packet is kept, so that a late ack
	// frees its entries. RFC 9000, section 10.2, expects packets to be in flight for as long.
	lostMemory = 3
	// probePackets is the most that RFC 9002, section 6.2.4, allows for one timeout.
	probePackets = 2
	// besideTime is how long after the arrival of a datagram of another machine more are expected.
	besideTime = time.Second
)

// loss decides which packets are lost, by acks (RFC 9002, section 6.1) and timeouts (6.2).
type loss struct {
	recovery.Losses
	ptos       int           // probe timeouts since the last ack
	probes     int           // packets that may pass every gate
	repeat     uint64        // number of the packet whose bunches the next probe sends again
	unanswered time.Duration // when the last ack arrived, or a packet was sent while none was in flight
	overtaken  uint64        // one above the newest packet that a datagram of another machine has overtaken
	besideTill time.Duration // until when more datagrams of other machines are expected
}

// receiveAcks handles the acks in a packet: it decides the fates of the packets
// in them, measures the path, and detects lost packets.
func (c *Conn) receiveAcks(t time.Duration, h *packetHeader) error {
	largest := recovery.Number(c.sent.Next, uint64(h.largest), 32)
	if largest >= c.sent.Next {
		return violation(AckSequenceMismatch, "ack of packet %d, the next to be sent is %d", largest, c.sent.Next)
	}

	c.leaveDark()
	if unheard := t - max(c.loss.unanswered, c.path.since); c.sent.flying > 0 && unheard >= c.darkTime() {
		c.gate.Held(t, 0) // measured by time and not by timeouts, because a process that was stopped has run no timers
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

// ackRuns acknowledges the packets in all runs, and returns the newest that was
// not acknowledged before, or nil.
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

// ackRange acknowledges the packets from low to high-1, and returns the newest that was not
// acknowledged before, or nil. It skips ranges that are already acknowledged: a peer that repeats
// itself must not make this end look at thousands of records for an ack of fifteen bytes.
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

// sampleRTT measures the round trip of p, which is the largest packet in an ack
// and newly acknowledged (RFC 9002, section 5.1). The delay that the peer
// reports counts up to the agreed one (5.3).
func (c *Conn) sampleRTT(t time.Duration, p *packet, delay uint16) {
	wait := time.Duration(delay) * ackDelayUnit * time.Microsecond
	c.gate.RTT.Update(t, t-p.at, min(wait, c.peerAckDelay))
}

// ackPacket acknowledges packet n, and reports whether that is new. It is also new for a
// lost packet, because after the round trip has become longer, only such packets show it.
func (c *Conn) ackPacket(t time.Duration, n uint64, p *packet) bool {
	was := p.fate
	if was != flying && was != lost {
		return false
	}

	// The peer has received its content.
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

	// What that shows about the path.
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

// ackItem marks the pieces that an item covers as acked, and frees entries at
// the front of the buffer that are now acked completely.
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

// popAcked frees acked entries, but only from the front of the buffer, so one
// lost bunch keeps all entries after it in the count. UE: UChannel::ReceivedAcks.
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

// detectLosses declares packets lost that others have overtaken (RFC 9002,
// section 6.1). It declares none lost if the carrier reports fates, and none
// that was sent on another path; giveUpForeign handles those.
func (c *Conn) detectLosses(t time.Duration) {
	c.loss.Begin(t, max(c.gate.Current(), c.gate.Latest))
	n, ok := c.sent.firstFlying()
	if n = max(n, c.path.foreign); c.path.Fates {
		return
	}
	for ; ok && n < max(c.loss.Largest, c.loss.overtaken); n++ {
		p := c.sent.At(n)
		if p.fate != flying || !p.prompt && n >= c.loss.Largest {
			continue
		}
		if !c.loss.Lost(t, n+c.sent.skippedAfter(n), p.at) {
			return // nor is any that was sent after it
		}
		c.losePacket(t, n, p)
	}
}

// Overtaken is called when a datagram of others on the same path has arrived; sent is
// when it was sent. It serves single packets of play beside others' bulk, because no
// packet of ours whose ack would show their loss follows them soon. While such datagrams
// arrive, packets of play ask for an ack at once, and those that were sent before one of
// these datagrams are lost after 9/8 of the round trip (RFC 9002, section 6.1.2).
func (c *Conn) Overtaken(now, sent time.Time) {
	t, at := c.advanceClock(now), sent.Sub(c.start)
	c.loss.besideTill = t + besideTime
	n := max(c.loss.overtaken, c.sent.Oldest)
	for n < c.sent.Next && c.sent.At(n).at < at {
		n++
	}
	if n > c.loss.overtaken {
		c.loss.overtaken, c.changed = n, true
		c.detectLosses(t)
	}
}

// BlackHole reports, once, that 3 packets in a row above 1,163 bytes were lost, while
// smaller ones that were sent after the first of them arrived and no larger one did.
func (c *Conn) BlackHole() bool { return c.blackHole.Found(c.sent.Next) }

// losePacket declares p lost and queues its bunches again. Its record stays for
// a while, so that a late ack frees their entries.
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
	if p.limit && n == c.flow.toldBy {
		c.flow.update = true
	}
}

// giveBack removes one copy of an item from flight, and queues those of its
// pieces that have no other copy in flight.
func (c *Conn) giveBack(it item) {
	c.requeue(it, func(p *piece) bool {
		p.copies--
		return p.copies == 0
	})
}

// requeue queues the pieces of an item that are wanted and not acked, and
// returns how many bytes they have.
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

// ptoAt returns when the next probe is due. ok is false if none is.
func (c *Conn) ptoAt() (time.Duration, bool) {
	if c.sent.flying == 0 || c.loss.probes > 0 {
		return 0, false
	}
	if c.asksOften() {
		return c.sent.lastAsk + c.pto()/2, true
	}
	return c.sent.lastAsk + c.gate.Backoff(c.loss.ptos, c.peerAckDelay), true
}

// probe is called on a probe timeout. It allows two packets (RFC 9002, section
// 6.2.4), or one that repeats nothing if asksOften. The two repeat as many bunches
// as two small packets hold, whose copies in flight stay there. The oldest are
// repeated first. The next timeout in a row continues where this one ended, in
// turn, so that all have the same chance on a path that loses nearly everything.
func (c *Conn) probe() {
	if c.loss.ptos++; c.loss.ptos == 1 {
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
