package slices

import (
	"time"

	"github.com/quivernet/quiver/chunk"
	"github.com/quivernet/quiver/internal/recovery"
)

const (
	// probePackets is how many slices may be sent after a probe timeout
	// whatever the window is (RFC 9002, section 6.2.4).
	probePackets = 2
	// outageTimeouts is how many probe timeouts in a row count as an outage, in
	// which only probes are sent: quic-go's window does not shrink on timeouts.
	outageTimeouts = 2
	// mostHeld limits the round trip that is measured through an outage, on a
	// short path. Slices are sent again at each timeout, and only those that
	// were not can show that the path has become longer.
	mostHeld = time.Second
)

// control decides when slices may be sent on a path that reports no fates, and which are
// lost. It has a gate besides the path's window, the loss thresholds of RFC 9002, section
// 6.1, and probes. Its round trips include the delay of the peer's acks, at most ackDelay.
type control struct {
	gate   recovery.Gate
	losses recovery.Losses

	foreign  uint64        // sendings with lower numbers used another path, and say nothing about this one
	reached  uint64        // one more than the number of the newest sending that has arrived
	lastSent time.Duration // when the last slice was sent; like all times here, by the outbox's clock
	heard    time.Duration // when an ack last acknowledged something new
	timeouts int           // probe timeouts in a row
	// An ack arrived after a timeout, perhaps of an earlier sending: nothing
	// else has shown that anything arrives.
	answered bool
	probes   int    // slices that may be sent as probes
	lost     uint64 // slices that a threshold has declared lost
}

// begin starts on another path. Sendings below foreign used the old one.
func (c *control) begin(foreign uint64) {
	c.foreign = foreign
	c.timeouts, c.answered, c.probes, c.losses.Next = 0, false, 0, 0
}

// mayLeave reports whether one more slice may be sent. One may always be sent
// if none is in flight, because no probe timer runs then.
func (c *control) mayLeave(f *flight) bool {
	if c.probes > 0 || f.count == 0 {
		return true
	}
	return c.timeouts < outageTimeouts && f.bytes+Datagram <= c.gate.Window(Datagram)
}

// limited is called when the path could take more than the machine sends, while
// inFlight bytes are in flight.
func (c *control) limited(inFlight int) { c.gate.Limited(inFlight) }

// spent is called when there is nothing more to send, while inFlight bytes are in flight.
func (c *control) spent(inFlight int) {
	c.limited(inFlight)
	c.probes = 0
}

// sent is called when a slice is sent. Other slices have others bytes in flight.
func (c *control) sent(s *sending, others int) {
	c.gate.Bulk(s.at)
	s.mark = c.gate.Sent(s.at, others)
	c.lastSent = s.at
	c.probes = max(c.probes-1, 0)
}

// acked is what an ack shows: which of the undecided sendings have arrived.
type acked struct {
	first bool   // it acks a sending on this path for the first time
	high  uint64 // one more than the number of the newest sending that certainly arrived; 0 = none did
	timed uint64 // the same for a slice that was sent only once, so that its round trip is known; 0 = none
	// A lower bound of the round trip, from a slice that was sent twice,
	// whichever sending arrived; 0 = unknown.
	least time.Duration
}

// hear handles an ack of chunk of. The slices in fresh are acked for the first
// time. The caller decides their sendings in the flight afterwards.
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
		if s == nil { // declared lost, and no longer in the flight
			continue
		}
		c.gate.Acked(t, &s.mark, int(s.size))
		since := t - s.at
		if s.fate == lost || s.again && since < c.gate.Min/2 && of.givenUp.Has(i) {
			took := since
			if s.again { // perhaps an earlier sending has arrived, after an unknown time
				took = 0
			}
			c.losses.Spurious(t, took)
		}
		if s.again && since < c.gate.Min { // an earlier sending has arrived
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

// learn measures the path with the result of an ack for chunk id, and declares
// slices lost that the ack shows to be lost.
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
		// Otherwise nothing would measure a queue that has built up, because
		// all slices in it are sent again before they are acked.
		c.gate.Update(t, a.least, 0)
	}
	c.reached = max(c.reached, a.high)
	c.detect(t, o, id, a.high)
}

// detect declares slices lost that are lost by now. high is for an ack of chunk id: one more
// than the number of its newest sending that has arrived; 0 = there was no ack. The packet
// threshold counts only within that chunk, because an ack covers all slices of one chunk, and
// the ack of another chunk may have been lost. If a sending is not lost by time, none that
// was sent after it is. So after the first such sending only those of chunk id are examined.
func (c *control) detect(t time.Duration, o *outbox, id uint16, high uint64) {
	c.losses.Largest = high
	c.losses.Begin(t, max(c.gate.Current(), c.gate.Latest)+ackDelay)
	n, ok := o.flight.firstFlying()
	for ; ok && n < c.reached; n++ {
		place := high // no ack of its chunk was received: only time counts
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
		return // it is acked completely
	}
	for _, newest := range of.newest {
		if number := newest - 1; newest > n && number < c.reached {
			c.settles(t, o, number, number)
		}
	}
}

// settles declares a sending lost if it is lost by now, and reports whether it
// is no longer in flight. The packet threshold uses place instead of its number.
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

// lose declares a sending lost.
func (c *control) lose(o *outbox, number uint64) {
	s := o.flight.At(number)
	c.gate.Lost(&s.mark, int(s.size))
	o.lose(number)
}

// timeoutAt returns when the next probe is due.
func (c *control) timeoutAt(f *flight) (at time.Duration, ok bool) {
	return c.lastSent + c.gate.Backoff(c.timeouts, ackDelay), f.count > 0 && c.probes == 0
}

// stopped reports whether the process seems to have been stopped: the probes of
// that many timeouts should have been sent meanwhile.
func (c *control) stopped(t time.Duration) bool {
	return t-max(c.lastSent, c.heard) >= outageTimeouts*c.gate.PTO(ackDelay)
}

// advance runs the timers. It declares slices lost by the time threshold and, after a probe
// timeout, the oldest ones, which are sent again as probes. If the last probes were answered,
// it declares all lost, because sendings before those would have arrived with them.
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
