package slices

import (
	"time"

	"github.com/quivernet/quiver/chunk"
	"github.com/quivernet/quiver/internal/recovery"
)

const (
	// probePackets is how many slices may leave after a probe timeout whatever the window is (RFC 9002, section 6.2.4).
	probePackets = 2
	// outageTimeouts is how many probe timeouts in a row make an outage, in which only probes leave: quic-go's window does not shrink
	// on timeouts.
	outageTimeouts = 2
	// mostHeld is what a round trip through an outage counts for at most on a short path. Slices leave again at each timeout, and only those that did
	// not can show that the path has become longer.
	mostHeld = time.Second
)

// control decides when slices may leave on a path that tells no fates, and which are lost. It has a gate in front of the path's window,
// the loss thresholds of RFC 9002, section 6.1, and probes. Its round trips include the delay of the peer's acks, at most ackDelay.
type control struct {
	gate   recovery.Gate
	losses recovery.Losses

	foreign  uint64        // sendings below it took another path, and say nothing about this one
	reached  uint64        // one above the newest sending that arrived
	lastSent time.Duration // when the last slice left; like all times here, by the outbox's clock
	heard    time.Duration // when an ack last had news
	timeouts int           // probe timeouts in a row
	answered bool          // an ack came after one, perhaps of what had left before it: nothing else has shown that anything arrives
	probes   int           // slices that may leave as probes
	lost     uint64        // slices that a threshold has given up
}

// begin starts on another path: sendings below foreign took the one that was left.
func (c *control) begin(foreign uint64) {
	c.foreign = foreign
	c.timeouts, c.answered, c.probes, c.losses.Next = 0, false, 0, 0
}

// mayLeave reports whether one more slice may leave. It may when none is in flight, since no probe timer runs then.
func (c *control) mayLeave(f *flight) bool {
	if c.probes > 0 || f.count == 0 {
		return true
	}
	return c.timeouts < outageTimeouts && f.bytes+Datagram <= c.gate.Window(Datagram)
}

// limited notes that the path would take more than the machine sends, while inFlight bytes fly.
func (c *control) limited(inFlight int) { c.gate.Limited(inFlight) }

// spent notes that there was nothing more to send, while inFlight bytes fly.
func (c *control) spent(inFlight int) {
	c.limited(inFlight)
	c.probes = 0
}

// sent marks a slice that leaves. Other slices have others bytes in flight.
func (c *control) sent(s *sending, others int) {
	c.gate.Bulk(s.at)
	s.mark = c.gate.Sent(s.at, others)
	c.lastSent = s.at
	c.probes = max(c.probes-1, 0)
}

// acked sums up the news of an ack: which sendings, of those whose fate was open, have arrived.
type acked struct {
	first bool          // it acks a sending on this path for the first time
	high  uint64        // one above the newest sending that surely arrived; 0 = none did
	timed uint64        // one above the newest sending of a slice that left only once, so that its round trip is known; 0 = none
	least time.Duration // a lower bound of the round trip, by a slice that left twice, whichever of its sendings arrived; 0 = unknown
}

// hear takes an ack of chunk of, in which the slices of fresh are acked for the first time. The caller settles their sendings in the
// flight afterwards.
func (c *control) hear(t time.Duration, f *flight, of *sentChunk, fresh *chunk.Bits) (a acked) {
	for i, newest := range of.newest {
		number := newest - 1
		if !fresh.Has(i) || number < c.foreign {
			continue
		}
		s := f.get(number)
		if s != nil && s.fate == landed {
			continue
		}
		a.first = true
		if s == nil { // given up, and no longer in the flight
			continue
		}
		c.gate.Acked(t, &s.mark, int(s.size))
		since := t - s.at
		if s.fate == lost || s.again && since < c.gate.Min/2 && of.givenUp.Has(i) {
			took := since
			if s.again { // perhaps an earlier sending arrived, after an unknown time
				took = 0
			}
			c.losses.Spurious(t, took)
		}
		if s.again && since < c.gate.Min { // an earlier sending arrived
			continue
		}
		a.high = max(a.high, newest)
		if !s.again {
			a.timed = max(a.timed, newest)
		} else if since > c.gate.Current() {
			a.least = max(a.least, since)
		}
	}
	return a
}

// learn measures the path by the news of an ack for chunk id, and gives up the slices that the ack shows to be lost.
func (c *control) learn(t time.Duration, o *outbox, id uint16, a acked) {
	if c.timeouts >= outageTimeouts || c.stopped(t) {
		c.gate.Held(t, mostHeld)
	}
	c.heard = t
	c.answered = a.high == 0 && (c.answered || c.timeouts > 0)
	c.timeouts, c.probes = 0, 0
	switch {
	case a.timed > 0:
		s := o.flight.At(a.timed - 1)
		c.gate.Update(t, t-s.at, 0)
		c.gate.Measure(t, s.at, &s.mark)
	case a.least > 0:
		// Without this nothing would measure a queue that has built up: all slices behind it leave again before they are acked.
		c.gate.Update(t, a.least, 0)
	}
	c.reached = max(c.reached, a.high)
	c.detect(t, o, id, a.high)
}

// detect gives up the slices that are lost by now. An ack of chunk id was heard, whose newest sending that arrived is below high; high
// 0 = no ack was heard. The packet threshold counts within that chunk only, because an ack covers all slices of one chunk: the ack of
// another chunk may have been lost. What left after a sending that is not lost by time is not lost by time either, so behind the first such
// sending only those of chunk id are looked at.
func (c *control) detect(t time.Duration, o *outbox, id uint16, high uint64) {
	c.losses.Largest = high
	c.losses.Begin(t, max(c.gate.Current(), c.gate.Latest)+ackDelay)
	n, ok := o.flight.firstFlying()
	for ; ok && n < c.reached; n++ {
		place := high // no ack of its chunk was heard: only time counts
		if o.flight.At(n).id == id {
			place = n
		}
		if !c.settles(t, o, n, place) {
			break
		}
	}
	if !ok || high == 0 {
		return
	}
	of := o.chunk(uint64(id))
	if of.block == nil || of.id != id {
		return // it is acked whole
	}
	for _, newest := range of.newest {
		if number := newest - 1; newest > n && number < c.reached {
			c.settles(t, o, number, number)
		}
	}
}

// settles gives a sending up if it is lost by now, and reports whether it flies no more. The packet threshold takes place for its number.
func (c *control) settles(t time.Duration, o *outbox, number, place uint64) bool {
	s := o.flight.At(number)
	switch {
	case s.fate != flying:
	case !c.losses.Lost(t, place, s.at):
		return false
	default:
		c.lost++
		o.chunk(uint64(s.id)).givenUp.Set(int(s.index))
		c.lose(o, number)
	}
	return true
}

// lose gives up a sending.
func (c *control) lose(o *outbox, number uint64) {
	s := o.flight.At(number)
	c.gate.Lost(&s.mark, int(s.size))
	o.lose(number)
}

// timeoutAt returns when the next probe is due.
func (c *control) timeoutAt(f *flight) (at time.Duration, ok bool) {
	return c.lastSent + c.gate.Backoff(c.timeouts, ackDelay), f.count > 0 && c.probes == 0
}

// stopped reports whether the process was: the probes of so many timeouts should have left meanwhile.
func (c *control) stopped(t time.Duration) bool {
	return t-max(c.lastSent, c.heard) >= outageTimeouts*c.gate.PTO(ackDelay)
}

// advance runs the timers: it gives up slices by the time threshold, and after a probe timeout the oldest ones, which leave again as probes. If the
// last probes were answered, all are lost: what had left before those would have arrived with them.
func (c *control) advance(t time.Duration, o *outbox) {
	if c.losses.Next != 0 && t >= c.losses.Next {
		c.detect(t, o, 0, 0)
	}
	if at, ok := c.timeoutAt(&o.flight); !ok || t < at {
		return
	}
	lost := probePackets
	if c.answered {
		lost = o.flight.count
	}
	if c.timeouts++; c.stopped(t) {
		c.timeouts = max(c.timeouts, outageTimeouts)
	}
	c.probes = probePackets
	for range lost {
		if n, ok := o.flight.firstFlying(); ok {
			c.lose(o, n)
		}
	}
}
