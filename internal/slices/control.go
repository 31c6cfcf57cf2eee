package slices

import (
	"time"

	"github.com/quivernet/quiver/chunk"
	"github.com/quivernet/quiver/internal/recovery"
)

const (
	// probePackets may pass every gate after a probe timeout (RFC 9002, 6.2.4).
	probePackets = 2
	// outage is how many probe timeouts in a row are one: from then on only probes leave. quic-go's window does not shrink
	// on timeouts.
	outage = 2
)

// control says what may leave, and finds what is lost, on a path that tells no fates: a gate in front of the path's window,
// RFC 9002's thresholds, and probes. Its round trips include what the peer waits with its acks, 2 ms at most.
type control struct {
	gate   recovery.Gate
	losses recovery.Losses

	foreign  uint64        // sendings below it took another path, and tell nothing of this one
	reached  uint64        // one above the newest sending that arrived
	lastSent time.Duration // of the outbox's clock, as all times here
	timeouts int           // in a row
	probes   int           // that may leave now
	lost     uint64        // slices
}

// begin starts on another path: sendings below foreign took the one before.
func (c *control) begin(foreign uint64) {
	c.foreign = foreign
	c.timeouts, c.probes, c.losses.Next = 0, 0, 0
}

// mayLeave reports whether there is room for one more slice. With none in flight there always is: no timer would bring a probe.
func (c *control) mayLeave(f *flight) bool {
	if c.probes > 0 || f.count == 0 {
		return true
	}
	return c.timeouts < outage && f.bytes+Datagram <= c.gate.Window(Datagram)
}

// limited notes that the path would take more than is given to it, with so many bytes in flight.
func (c *control) limited(inFlight int) { c.gate.Limited(inFlight) }

// spent notes that there was nothing more to send, with so many bytes in flight.
func (c *control) spent(inFlight int) {
	c.limited(inFlight)
	c.probes = 0
}

// sent marks a slice that leaves while others have so many bytes in flight.
func (c *control) sent(s *sending, others int) {
	c.gate.Bulk(s.at)
	s.mark = c.gate.Sent(s.at, others)
	c.lastSent = s.at
	c.probes = max(c.probes-1, 0)
}

// acked is what an ack says of sendings whose fate was open.
type acked struct {
	news  bool
	high  uint64        // one above the newest that is known to have arrived; 0 = none is
	timed uint64        // the same of those that left only once, and so tell when
	least time.Duration // since one that had left before did so again: its round trip was no less, whichever sending arrived; 0 = no news
}

// hear takes the news of a chunk, before they are noted in the flight.
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
		a.news = true
		if s == nil { // given up, and forgotten
			continue
		}
		c.gate.Acked(t, &s.mark, int(s.size))
		since := t - s.at
		if s.fate == lost || s.again && since < c.gate.Min/2 && of.givenUp.Has(i) {
			took := since
			if s.again { // of an earlier sending
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

// learn measures the path by what an ack said, and gives up what it shows to be lost.
func (c *control) learn(t time.Duration, o *outbox, id uint16, a acked) {
	c.timeouts, c.probes = 0, 0
	switch {
	case a.timed > 0:
		s := o.flight.At(a.timed - 1)
		c.gate.Update(t, t-s.at, 0)
		c.gate.Measure(t, s.at, &s.mark)
	case a.least > 0:
		// Else all that leaves after a queue has come up leaves again before it is acked, and nothing ever measures that queue.
		c.gate.Update(t, a.least, 0)
	}
	c.reached = max(c.reached, a.high)
	c.detect(t, o, id, a.high)
}

// detectByTime gives up what left so long ago that it must be lost, though no ack was heard.
func (c *control) detectByTime(t time.Duration, o *outbox) { c.detect(t, o, 0, 0) }

// detect gives up the slices that are lost by now. ID and high name the chunk of the ack that was heard and its newest
// sending that arrived; high 0 = none was. How many later ones arrived counts within that chunk only, for an ack tells of all
// slices of a chunk; others may tell of theirs in an ack that was lost.
func (c *control) detect(t time.Duration, o *outbox, id uint16, high uint64) {
	c.losses.Largest = high
	c.losses.Begin(t, max(c.gate.Current(), c.gate.Latest)+ackDelay)
	n, ok := o.flight.firstFlying()
	for ; ok && n < c.reached; n++ {
		s := o.flight.At(n)
		if s.fate != flying {
			continue
		}
		place := n
		if s.id != id {
			place = high // nothing of its chunk was heard
		}
		if c.losses.Lost(t, place, s.at) {
			c.lost++
			o.chunk(uint64(s.id)).givenUp.Set(int(s.index))
			c.lose(o, n)
		}
	}
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

// advance finds what time shows to be lost. When nothing is heard the oldest slices leave once more.
func (c *control) advance(t time.Duration, o *outbox) {
	if c.losses.Next != 0 && t >= c.losses.Next {
		c.detectByTime(t, o)
	}
	if at, ok := c.timeoutAt(&o.flight); !ok || t < at {
		return
	}
	c.timeouts++
	c.probes = probePackets
	for range probePackets {
		if n, ok := o.flight.firstFlying(); ok {
			c.lose(o, n)
		}
	}
}
