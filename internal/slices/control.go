package slices

import (
	"time"

	"github.com/quivernet/quiver/chunk"
	"github.com/quivernet/quiver/internal/recovery"
)

const (
	// probePackets is the number of slices that may be sent after a probe timeout regardless
	// of the window (RFC 9002, section 6.2.4).
	probePackets = 2
	// outageTimeouts is the number of probe timeouts in a row that count as an outage. During
	// an outage only probes are sent, because quic-go's window does not shrink on timeouts.
	outageTimeouts = 2
	// mostHeld limits the round trip measured through an outage on a short path. Slices are
	// sent again at each timeout, and only a slice sent once can show that the path has
	// become longer.
	mostHeld = time.Second
)

// control decides, on a path that does not report fates, when slices may be sent and which
// are lost. Besides the path's window it has a gate, the loss thresholds of RFC 9002, section
// 6.1, and probes. Its round trips include the delay of the peer's acks, at most ackDelay.
type control struct {
	gate   recovery.Gate
	losses recovery.Losses

	foreign  uint64        // lower-numbered sendings used another path and say nothing about this one
	reached  uint64        // number of the newest sending that has arrived, plus one
	lastSent time.Duration // when the last slice was sent; like all times here, on the outbox's clock
	heard    time.Duration // when an ack last acknowledged something new
	timeouts int           // probe timeouts in a row
	// An ack arrived after a timeout, but it may be for an earlier sending. Nothing else has
	// shown that the path works again.
	answered bool
	probes   int    // slices that may be sent as probes
	lost     uint64 // slices declared lost by a threshold
}

// begin starts on another path. Sendings numbered below foreign used the old path.
func (c *control) begin(foreign uint64) {
	c.foreign = foreign
	c.timeouts = 0
	c.answered = false
	c.probes = 0
	c.losses.Next = 0
}

// mayLeave reports whether one more slice may be sent. If none is in flight, one may always
// be sent, because no probe timer runs then.
func (c *control) mayLeave(f *flight) bool {
	if c.probes > 0 || f.count == 0 {
		return true
	}
	return c.timeouts < outageTimeouts && f.bytes+Datagram <= c.gate.Window(Datagram)
}

// limited is called when the path could take more than the machine sends. inFlight is the
// number of bytes in flight.
func (c *control) limited(inFlight int) { c.gate.Limited(inFlight) }

// spent is called when there is nothing more to send. inFlight is the number of bytes in
// flight.
func (c *control) spent(inFlight int) {
	c.limited(inFlight)
	c.probes = 0
}

// sent is called when a slice is sent. others is the number of bytes other slices have in
// flight.
func (c *control) sent(s *sending, others int) {
	c.gate.Bulk(s.at)
	s.mark = c.gate.Sent(s.at, others)
	c.lastSent = s.at
	c.probes = max(c.probes-1, 0)
}

// acked is what an ack shows: which of the undecided sendings arrived.
type acked struct {
	first bool // it acks a sending on this path for the first time
	// Number, plus one, of the newest sending that certainly arrived; 0 if none did.
	high uint64
	// The same for slices that were sent only once, whose round trip is known; 0 if none.
	timed uint64
	// A lower bound of the round trip, from a slice that was sent twice. It holds whichever
	// sending arrived; 0 = unknown.
	least time.Duration
}

// hear handles an ack of the chunk of. fresh holds the slices acked for the first time. The
// caller marks their sendings as arrived afterwards.
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
			if s.again { // an earlier sending may have arrived, after an unknown time
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

// learn measures the path with the result of an ack for chunk id. It declares lost the slices
// that the ack shows to be lost.
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
		// Nothing else would measure a queue that has built up, because all slices in it are
		// sent again before they are acked.
		c.gate.Update(t, a.least, 0)
	}
	c.reached = max(c.reached, a.high)
	c.detect(t, o, id, a.high)
}

// detect declares lost the slices that are overdue or overtaken. high is for an ack of chunk
// id: the number of the chunk's newest sending that arrived, plus one. It is 0 if there was
// no ack.
//
// The packet threshold applies only within that chunk. An ack covers all slices of one chunk,
// and the ack of another chunk may have been lost.
//
// If a sending is not lost by time, none sent after it is. So after the first such sending,
// only sendings of chunk id are examined.
func (c *control) detect(t time.Duration, o *outbox, id uint16, high uint64) {
	c.losses.Largest = high
	c.losses.Begin(t, max(c.gate.Current(), c.gate.Latest)+ackDelay)
	n, ok := o.flight.firstFlying()
	for ; ok && n < c.reached; n++ {
		place := high // no ack of the sending's chunk was received, so only time counts
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
		return // the chunk is acked completely
	}
	for _, newest := range of.newest {
		if number := newest - 1; newest > n && number < c.reached {
			c.settles(t, o, number, number)
		}
	}
}

// settles declares a sending lost if a threshold says so. It reports whether the sending is
// no longer in flight. The packet threshold uses place instead of the sending's number.
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

// timeoutAt returns the time at which the next probe is due.
func (c *control) timeoutAt(f *flight) (at time.Duration, ok bool) {
	return c.lastSent + c.gate.Backoff(c.timeouts, ackDelay), f.count > 0 && c.probes == 0
}

// stopped reports whether the process seems to have been stopped. If it had run, it would
// have sent the probes of outageTimeouts timeouts by now.
func (c *control) stopped(t time.Duration) bool {
	return t-max(c.lastSent, c.heard) >= outageTimeouts*c.gate.PTO(ackDelay)
}

// advance runs the timers. It declares slices lost by the time threshold. After a probe
// timeout, it declares the oldest slices lost, so they are sent again as probes.
//
// If the last probes were answered, it declares all slices lost, because earlier sendings
// would have arrived with the probes.
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
	c.timeouts++
	if c.stopped(t) {
		c.timeouts = max(c.timeouts, outageTimeouts)
	}
	c.probes = probePackets
	for range lost {
		if n, ok := o.flight.firstFlying(); ok {
			c.lose(o, n)
		}
	}
}
