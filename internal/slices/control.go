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
	// send only probes, because quic-go's window doesn't shrink on timeouts.
	outageTimeouts = 2

	// maxHeldRTT limits the round trip that we measure across an outage on a short path. (Only a
	// slice that was sent just once can show that the path has become longer, but during an outage
	// every slice is sent again.)
	maxHeldRTT = time.Second
)

// A control is the loss detector and congestion controller for a path that doesn't report fates. It
// decides when slices may be sent and which of them are lost. In addition to the path's own window,
// it has a gate. It also has the loss thresholds of RFC 9002, section 6.1, and a probe timer. Its
// round trips include the delay of the peer's acks, which is at most ackDelay.
type control struct {
	gate   recovery.Gate
	losses recovery.Losses

	firstNumber uint64        // of this path; older sendings took another path and don't count
	reached     uint64        // number of the newest sending that has arrived, plus one
	lastSent    time.Duration // when a slice was last sent; all times are on the outbox's clock
	heard       time.Duration // when an ack last acknowledged something new

	// Probing.
	timeouts int  // probe timeouts in a row
	answered bool // an ack has come since a timeout, but perhaps only for earlier sendings
	probes   int  // number of slices that may be sent as probes

	lost uint64 // number of slices that a threshold has declared lost
}

// begin starts over on another path, whose sendings are numbered from firstNumber.
func (c *control) begin(firstNumber uint64) {
	c.firstNumber = firstNumber
	c.timeouts = 0
	c.answered = false
	c.probes = 0
	c.losses.Next = 0
}

// maySend reports whether we may send another slice. If no slice is in flight, we always may. The
// probe timer doesn't run in that case, so nothing else would make us send.
func (c *control) maySend(f *flight) bool {
	if c.probes > 0 || f.count == 0 {
		return true
	}
	return c.timeouts < outageTimeouts && f.bytes+Datagram <= c.gate.Window(Datagram)
}

// limited is called when the path could take more than we send. inFlight is the number of
// bytes in flight.
func (c *control) limited(inFlight int) { c.gate.Limited(inFlight) }

// ranDry is called when there is nothing more to send, not even as a probe. inFlight is the number
// of bytes in flight.
func (c *control) ranDry(inFlight int) {
	c.limited(inFlight)
	c.probes = 0
}

// sent is called when a slice is sent. others is the number of bytes that other slices have in
// flight.
func (c *control) sent(s *sending, others int) {
	c.gate.BulkSent(s.at)
	s.mark = c.gate.Sent(s.at, others)
	c.lastSent = s.at
	c.probes = max(c.probes-1, 0)
}

// acked holds what an ack tells us about sendings whose fate we didn't know.
type acked struct {
	first bool          // it's the first ack for some sending on this path
	high  uint64        // number of the newest sending that surely arrived, plus one; 0 if none
	timed uint64        // the same for slices that were sent only once, whose round trip we know
	least time.Duration // minimum round trip that a slice sent twice has shown; 0 if unknown
}

// examine works out what an ack of a chunk shows. fresh has the slices that are acked for the first
// time. Afterward, the caller marks their sendings as arrived.
func (c *control) examine(t time.Duration, f *flight, of *sentChunk, fresh *chunk.Bits) (a acked) {
	for i, newest := range of.newest {
		number := newest - 1
		if !fresh.Has(i) || number < c.firstNumber {
			continue
		}
		s := f.get(number)
		if s != nil && s.fate == landed {
			continue
		}
		a.first = true
		if s == nil {
			// We declared it lost so long ago that the flight has forgotten it.
			continue
		}
		c.gate.Acked(t, &s.mark, int(s.size))
		since := t - s.at
		// The sending that we're looking at may be a resend that came too late for this ack.
		tooSoon := since < c.gate.Min/2
		if s.fate == lost || s.again && tooSoon && of.givenUp.Has(i) {
			took := since
			if s.again {
				// An earlier sending may have arrived, and we don't know how long that took.
				took = 0
			}
			c.losses.Spurious(t, took)
		}
		if s.again && since < c.gate.Min {
			// Too soon to be this sending, so an earlier one has arrived.
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

// learn updates the path's measurements after an ack of chunk id, and declares slices lost if
// the ack shows it.
func (c *control) learn(t time.Duration, o *outbox, id uint16, a acked) {
	if c.timeouts >= outageTimeouts || c.stopped(t) {
		c.gate.Held(t, maxHeldRTT)
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
		// If a queue has built up, all slices in it are sent again before they are acked. This is
		// the only way to measure such a queue.
		c.gate.Update(t, a.least, 0)
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
	// Go through the sendings, oldest first, until one isn't overdue yet. Later ones aren't either.
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
	of := o.chunk(uint64(id))
	if of.block == nil || of.id != id {
		// All of it is acked.
		return
	}
	for _, newest := range of.newest {
		if number := newest - 1; newest > n && number < c.reached {
			c.checkLost(t, o, number, number)
		}
	}
}

// checkLost declares a sending lost if it exceeds a threshold, and reports whether its fate is
// known now. The packet threshold goes by place rather than by the sending's own number.
func (c *control) checkLost(t time.Duration, o *outbox, number, place uint64) bool {
	s := o.flight.At(number)
	switch {
	case s.fate != flying:
		// We know its fate already.
	case !c.losses.Check(t, place, s.at):
		return false
	default:
		c.lost++
		o.chunk(uint64(s.id)).givenUp.Set(int(s.index))
		c.lose(o, number)
	}
	return true
}

// lose declares a sending lost.
func (c *control) lose(o *outbox, number uint64) {
	s := o.flight.At(number)
	c.gate.Lost(&s.mark, int(s.size))
	o.lose(number)
}

// timeoutAt returns when the next probe is due. ok is false if nothing is in flight or probes are
// still waiting to be sent.
func (c *control) timeoutAt(f *flight) (at time.Duration, ok bool) {
	return c.lastSent + c.gate.Backoff(c.timeouts, ackDelay), f.count > 0 && c.probes == 0
}

// stopped reports whether the process seems to have been stopped for a while. If it had been
// running, it would have sent the probes of outageTimeouts timeouts by now.
func (c *control) stopped(t time.Duration) bool {
	return t-max(c.lastSent, c.heard) >= outageTimeouts*c.gate.PTO(ackDelay)
}

// advance runs the timers. It declares overdue slices lost. At a probe timeout, it declares the
// oldest slices lost, so that they are sent again as probes.
func (c *control) advance(t time.Duration, o *outbox) {
	if c.losses.Next != 0 && t >= c.losses.Next {
		c.detect(t, o, 0, 0)
	}
	if at, ok := c.timeoutAt(&o.flight); !ok || t < at {
		return
	}
	lost := probePackets
	if c.answered {
		// The last probes got through. Slices sent before them would have arrived as well, so all
		// slices in flight are lost.
		lost = o.flight.count
	}
	c.timeouts++
	if c.stopped(t) {
		c.timeouts = max(c.timeouts, outageTimeouts)
	}
	c.probes = probePackets
	for range lost {
		if n, ok := o.flight.dropDecided(); ok {
			c.lose(o, n)
		}
	}
}
