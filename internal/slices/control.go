package slices

import (
	"time"

	"github.com/quivernet/quiver/chunk"
	"github.com/quivernet/quiver/internal/recovery"
)

const (
	// probePackets is the number of slices that we may send after a probe timeout, whatever the
	// window (RFC 9002, section 6.2.4).
	probePackets = 2

	// After outageTimeouts consecutive probe timeouts, we assume an outage. Until it is over, we
	// send only probes, because quic-go's window doesn't shrink on timeouts. A single timeout
	// doesn't suffice, because losing the last slices in flight is enough to cause one.
	outageTimeouts = 2

	// maxHeldRTT limits the round trip that we measure across an outage on a short path. Only a
	// slice that was sent just once can show that the path has become longer, but during an outage
	// every slice is sent again. A second is longer than the round trip of nearly any path.
	maxHeldRTT = time.Second

	// An ack that arrives within soonShare of the minimum round trip after a resend is for an
	// earlier sending. A probe after an outage finds no queue, and on a path with jitter it may be
	// lucky, so its round trip may well be shorter than any before it. If its ack isn't recognized,
	// nothing counts as lost before the next probe timeout.
	soonShare = 3. / 4
)

// A control is the loss detector and congestion controller for a path that doesn't report fates. It
// decides when slices may be sent, within the path's own window and that of a gate. It decides
// which slices are lost by the thresholds of RFC 9002, section 6.1, and by a probe timer. Its round
// trips include the delay of the peer's acks, which is at most ackDelay.
type control struct {
	gate   recovery.Gate
	losses recovery.Losses

	firstNumber uint64        // of this path; older sendings took another path and don't count
	reached     uint64        // number of the newest sending that has arrived, plus one
	lastSent    time.Duration // when a slice was last sent; all times are on the outbox's clock
	silentSince time.Duration // latest ack of something new, or first slice since all were acked
	usualPTO    time.Duration // the probe timeout when the latest outage ended; 0 if there was none

	// Probing.
	timeouts int  // probe timeouts in a row
	answered bool // an ack arrived after a timeout, but perhaps only for earlier sendings
	probes   int  // number of slices that may be sent as probes

	lost uint64 // number of slices that a threshold has declared lost
}

// restart starts over on another path, whose sendings are numbered from firstNumber.
func (c *control) restart(t time.Duration, firstNumber uint64) {
	c.firstNumber = firstNumber
	c.lastSent = t
	c.silentSince = t
	c.timeouts = 0
	c.answered = false
	c.probes = 0
	c.losses.Next = 0
}

// maySend reports whether we may send another slice. If no slice is in flight, we always may,
// because the probe timer doesn't run in that case and nothing else would make us send.
func (c *control) maySend(f *flight) bool {
	if c.probes > 0 || f.count == 0 {
		return true
	}
	return c.timeouts < outageTimeouts && f.bytes+Datagram <= c.gate.Window(Datagram)
}

// underused is called when the path could take more than we send. bytes is the number of bytes in
// flight.
func (c *control) underused(bytes int) { c.gate.Limited(bytes) }

// ranDry is called when there is nothing more to send, not even as a probe. bytes is the number of
// bytes in flight.
func (c *control) ranDry(bytes int) {
	c.underused(bytes)
	c.probes = 0
}

// sent is called when a slice is sent. others is the number of bytes that other slices have in
// flight, and unacked is the number of slices that were sent but aren't acked.
func (c *control) sent(s *sending, others, unacked int) {
	if unacked == 1 && !s.again {
		c.silentSince = s.at
	}
	c.gate.BulkSent(s.at)
	s.mark = c.gate.Sent(s.at, others)
	c.lastSent = s.at
	c.probes = max(c.probes-1, 0)
}

// An ackInfo holds what an ack tells us about sendings whose fate we didn't know.
type ackInfo struct {
	first  bool          // it's the first ack for some sending on this path
	high   uint64        // number of the newest sending that certainly arrived, plus one; 0 if none
	timed  uint64        // the same for slices that were sent only once, whose round trip we know
	minRTT time.Duration // lower bound of the round trip, from a slice sent twice; 0 if unknown
}

// newestTimed returns the newest sending of a slice that was sent only once and certainly arrived.
func (a ackInfo) newestTimed() (number uint64, ok bool) { return a.timed - 1, a.timed > 0 }

// examine works out what an ack of a chunk shows. fresh has the slices that are acked for the first
// time. Afterward, the caller must mark their sendings as arrived.
//
// After an outage, the ack of a probe often covers slices that arrived before the outage, whose
// acks were lost. Those slices don't show a round trip.
func (c *control) examine(t time.Duration, f *flight, of *sentChunk, fresh *chunk.Bits) (a ackInfo) {
	var held time.Duration // lower bound of the round trip if the path has become longer
	for i := range of.newest {
		number, _ := of.newestSending(i) // a fresh slice was sent
		if !fresh.Has(i) || number < c.firstNumber {
			continue
		}
		s := f.get(number)
		if s != nil && s.fate == arrived {
			continue
		}
		if !a.first {
			a.first = true
			c.endOutage(t)
		}
		if s == nil {
			// We declared it lost so long ago that the flight no longer has it.
			continue
		}
		c.gate.Acked(t, &s.mark, int(s.size))
		since := t - s.at
		c.checkSpurious(t, s, since, of.everLost.Has(i))
		if s.again && float64(since) < soonShare*float64(c.gate.Min) {
			// This is too soon for the resend, so an earlier sending has arrived.
			continue
		}
		if s.again && since > c.usualPTO && c.gate.HeldUp(s.at) {
			// Any of the sendings before and during the outage may have arrived.
			held = max(held, since)
			continue
		}
		a.high = max(a.high, number+1)
		if !s.again {
			a.timed = max(a.timed, number+1)
		} else if since > c.gate.Current() {
			a.minRTT = max(a.minRTT, since)
		}
	}
	if a.high == 0 {
		a.minRTT = held
	}
	if number, ok := a.newestTimed(); ok && a.timed < a.high && c.gate.HeldUp(f.At(number).at) {
		a.timed = 0 // a probe has overtaken it
	}
	return a
}

// endOutage is called when an ack acknowledges something new. If there was an outage, it's over.
//
// We check the time as well as the number of timeouts, because no timer runs in a process that was
// stopped, or while probes are waiting to be sent.
func (c *control) endOutage(t time.Duration) {
	if c.timeouts >= outageTimeouts || c.silent(t, c.silentSince) {
		c.usualPTO = c.gate.PTO(ackDelay)
		c.gate.OutageEnded(t, maxHeldRTT)
	}
}

// checkSpurious tells the loss detector if a slice arrived that we had declared lost. s is the
// slice's newest sending, which left the time since ago. everLost is set if any was declared lost.
// A slice that was sent before an outage ended doesn't count, because the outage delayed its ack.
func (c *control) checkSpurious(t time.Duration, s *sending, since time.Duration, everLost bool) {
	// If the newest sending left too recently for this ack, an earlier one must have arrived.
	tooSoon := s.again && since < c.gate.Min/2
	spurious := s.fate == lost || tooSoon && everLost
	if !spurious || c.gate.HeldUp(s.at) {
		return
	}
	took := since
	if s.again {
		// An earlier sending may have arrived, and we don't know how long that took.
		took = 0
	}
	c.losses.Spurious(t, took)
}

// learn updates the path's measurements after an ack of chunk id, and declares slices lost if
// the ack shows that they were.
func (c *control) learn(t time.Duration, o *outbox, id uint16, a ackInfo) {
	c.silentSince = t
	c.answered = a.high == 0 && (c.answered || c.timeouts > 0)
	c.timeouts, c.probes = 0, 0
	if number, ok := a.newestTimed(); ok {
		s := o.flight.At(number)
		c.gate.Update(t, t-s.at, 0)
		c.gate.Measure(t, s.at, &s.mark)
	} else {
		if a.minRTT > 0 {
			// If a long queue has built up, all slices in it are sent again before they are acked,
			// so this is the only way to measure such a queue.
			c.gate.Update(t, a.minRTT, 0)
		}
		if a.high > 0 {
			// After a loss of many slices, all acks are for slices that were sent again.
			s := o.flight.At(a.high - 1)
			c.gate.MeasureRate(t, s.at, &s.mark)
		}
	}
	c.reached = max(c.reached, a.high)
	c.detect(t, o, id, a.high)
}

// detect declares a slice lost if it is overdue or has been overtaken. If detect is called for an
// ack of chunk id, high is the number of the chunk's newest sending that has arrived, plus one.
// Otherwise high is 0.
//
// An ack covers all slices of its chunk. If a later sending of the same chunk has arrived, an
// earlier one was overtaken, so the packet threshold applies. The threshold doesn't apply to other
// chunks, because their acks may have been lost.
func (c *control) detect(t time.Duration, o *outbox, id uint16, high uint64) {
	c.losses.Largest = high
	c.losses.Begin(t, max(c.gate.Current(), c.gate.Latest)+ackDelay)
	n, ok := o.flight.dropDecided()
	// Go through the sendings, oldest first, until one isn't overdue yet, because later ones aren't
	// either.
	for ; ok && n < c.reached; n++ {
		place := high // if it's of another chunk, look only at the time
		if o.flight.At(n).id == id {
			place = n
		}
		if !c.checkLost(t, o, n, place) {
			break
		}
	}
	if !ok || high == 0 {
		return
	}
	// Now check the acked chunk's remaining sendings, which may have been overtaken.
	of := o.find(id)
	if of == nil {
		return
	}
	for i := range of.newest {
		if number, ok := of.newestSending(i); ok && number >= n && number < c.reached {
			c.checkLost(t, o, number, number)
		}
	}
}

// checkLost declares a sending lost if it exceeds a threshold, and reports whether its fate is
// known now. The packet threshold uses place instead of the sending's own number.
func (c *control) checkLost(t time.Duration, o *outbox, number, place uint64) (known bool) {
	s := o.flight.At(number)
	if s.fate != inFlight {
		return true
	}
	if !c.losses.Check(t, place, s.at) {
		return false
	}
	if !o.isWithheld(number) {
		c.lost++
		o.find(s.id).everLost.Set(int(s.index))
	}
	c.lose(o, number)
	return true
}

// lose declares a sending lost.
func (c *control) lose(o *outbox, number uint64) {
	s := o.flight.At(number)
	c.gate.Lost(&s.mark, int(s.size))
	o.lose(number)
}

// probeAt returns when the next probe is due. ok is false if nothing is in flight or probes are
// still waiting to be sent.
func (c *control) probeAt(f *flight) (at time.Duration, ok bool) {
	return c.lastSent + c.gate.Backoff(c.timeouts, ackDelay), f.count > 0 && c.probes == 0
}

// nextTimeout returns when advance has something to do. ok is false if no timer is running.
func (c *control) nextTimeout(f *flight) (at time.Duration, ok bool) {
	at, ok = c.probeAt(f)
	if next := c.losses.Next; next != 0 && (!ok || next < at) {
		return next, true
	}
	return at, ok
}

// silent reports whether outageTimeouts probe timeouts have passed since then.
func (c *control) silent(t, since time.Duration) bool {
	return t-since >= outageTimeouts*c.gate.PTO(ackDelay)
}

// advance runs the timers. It declares overdue slices lost. At a probe timeout, it declares the
// oldest slices lost, so that they are sent again as probes.
func (c *control) advance(t time.Duration, o *outbox) {
	if c.losses.Next != 0 && t >= c.losses.Next {
		c.detect(t, o, 0, 0)
	}
	if at, ok := c.probeAt(&o.flight); !ok || t < at {
		return
	}
	lost := probePackets
	if c.answered {
		// The last probes got through. Slices sent before them would have arrived as well, so all
		// slices in flight are lost.
		lost = o.flight.count
	}
	c.timeouts++
	if c.silent(t, max(c.lastSent, c.silentSince)) {
		// The process seems to have been stopped, since a running one would have sent probes.
		c.timeouts = max(c.timeouts, outageTimeouts)
	}
	c.probes = probePackets
	for range lost {
		if n, ok := o.flight.dropDecided(); ok {
			c.lose(o, n)
		}
	}
}
