package bunch

import (
	"encoding/binary"
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

const (
	// seenWindow is the number of packet numbers that the receiver remembers. A packet with an
	// older number is treated as a duplicate. That does no harm, because the window is twice the
	// maximum history, so the sender has long since declared the packet lost.
	seenWindow = recovery.WindowSize

	// ackEvery is the number of ack-eliciting packets after which an ack is sent immediately. RFC
	// 9000, section 13.2.2, recommends an ack for every second packet. Fewer are enough here,
	// because a sender of bulk asks for more acks whenever it needs them (see bulkWantsAck).
	ackEvery = 8

	// gapAckInterval is the minimum time between two acks that report gaps. RFC 9000, section
	// 13.2.1, recommends acknowledging each out-of-order packet immediately, but that would mean
	// an ack for every packet on a path that reorders everything.
	gapAckInterval = time.Millisecond

	// Every pingEvery-th consecutive ack-only packet requests an ack, which tells us which of our
	// acks have arrived, so that later acks can leave out the numbers in them (RFC 9000, section
	// 13.2.4).
	pingEvery = 16

	ackHeaderBytes = 7 // largest, delay, number of runs
)

// received remembers which packets have arrived, and decides when to acknowledge them.
type received struct {
	recovery.Window
	largestAt time.Duration // when the largest number arrived
	missing   uint64        // numbers below Next that haven't arrived

	// Contents of the next ack. Numbers below the floor are left out: either the peer has
	// acknowledged an ack that contained them, or they're too old.
	floor uint64
	unreported

	// Time of the next ack.
	unacked  int           // ack-eliciting packets received since our last ack
	deadline time.Duration // when the next ack must be sent, if unacked > 0
	urgent   bool          // there's a gap to report, or the peer asked for an immediate ack
	lastGap  time.Duration // when the last urgent ack was sent
	acksOnly int           // ack-only packets since one of our packets asked for an ack
}

// unreported remembers the numbers that no ack has contained yet.
//
// An ack lists the newest runs first and may have no room for the older ones. If many packets
// arrive late, every ack might list the same runs and never reach the rest. We therefore remember
// which numbers were left out, and report them in later acks.
type unreported struct {
	inOrder  span // numbers that were the largest when they arrived
	late     span // numbers that arrived after a larger one
	omitted  span // numbers that didn't fit into an ack; every second ack resumes with them
	resuming bool // the last ack did
}

// A span is the range of numbers from low to high-1.
type span struct{ low, high uint64 }

func (s span) empty() bool { return s.low >= s.high }

// join extends s so that it contains o.
func (s *span) join(o span) {
	if o.empty() {
		return
	}
	if s.empty() {
		*s = o
		return
	}
	s.low, s.high = min(s.low, o.low), max(s.high, o.high)
}

// cut removes n and everything above it.
func (s *span) cut(n uint64) {
	s.high = min(s.high, n)
	s.low = min(s.low, s.high)
}

// add records the arrival of packet n, and reports whether it's new.
func (r *received) add(now time.Duration, n uint64) bool {
	if r.Below(n) || r.Has(n) {
		return false
	}
	if n < r.Next {
		r.missing--
		r.late.join(span{n, n + 1})
	} else {
		r.missing += n - r.Next
		r.largestAt = now
		r.inOrder.join(span{n, n + 1})
	}
	r.Mark(n)

	// The next ack must contain n even if it's below the floor.
	r.floor = min(r.floor, n)
	r.floor = max(r.floor, r.Floor())
	return true
}

// scheduleAck is called when an ack-eliciting packet arrives, and decides when to acknowledge it.
//
// The ack is sent immediately if the peer asked for that (ackNow), or if there have been ackEvery
// such packets. If the packet leaves or fills a gap, the ack is sent as soon as gapAckInterval
// allows. Otherwise it may be delayed by up to delay.
func (r *received) scheduleAck(now, delay time.Duration, gap, ackNow bool) {
	r.unacked++
	due := now + delay
	switch {
	case ackNow || r.unacked >= ackEvery:
		due = now
	case gap:
		due = max(now, r.lastGap+gapAckInterval)
	}
	if gap || ackNow {
		r.urgent = true
	}
	if r.unacked == 1 || due < r.deadline {
		r.deadline = due
	}
}

// ackAt returns when the next ack is due.
func (r *received) ackAt() time.Duration {
	if r.unacked == 0 {
		return never
	}
	return r.deadline
}

// raiseFloor is called when the peer has acknowledged an ack that reported all packets below n.
func (r *received) raiseFloor(n uint64) { r.floor = max(r.floor, n) }

// ackUnsent is called when the last ack couldn't be sent. Another one is due at once.
func (r *received) ackUnsent(now time.Duration) {
	r.unacked = max(r.unacked, 1)
	r.deadline = now
}

// ackSent is called when an ack is being sent.
func (r *received) ackSent(now time.Duration) {
	if r.urgent {
		r.lastGap = now
	}
	r.unacked = 0
	r.urgent = false
}

// appendAcks appends acks in at most room bytes: the header, and as many runs as fit, newest
// first. covered is false if some runs had to be left out.
//
// If there isn't enough room, every second ack resumes with the runs that were left out before. The
// gap after its first run then includes packets that did arrive, which does no harm, because the
// peer draws no conclusions from a gap.
func (r *received) appendAcks(b []byte, now time.Duration, room int) (out []byte, covered bool) {
	delay := min((now-r.largestAt).Microseconds()/ackDelayUnit, 1<<16-1)
	b = binary.BigEndian.AppendUint32(b, uint32(r.Next-1))
	b = binary.BigEndian.AppendUint16(b, uint16(delay))
	nrunsAt := len(b)
	b = append(b, 0) // set below
	limit := len(b) + room - ackHeaderBytes

	// The first run always contains the largest number, which the peer needs to measure the
	// round trip.
	low := r.runStart(r.Next, true)
	b = appendVarint(b, r.Next-low)
	nruns := 1

	below := low // the runs to follow are below this
	r.omitted.cut(low)
	r.resuming = !r.resuming && !r.omitted.empty()
	if r.resuming {
		below = r.omitted.high
	}

	// Go down to the floor, a gap and a run at a time, while there's room.
	for {
		gapLow := r.runStart(below, false)
		if gapLow <= r.floor {
			// The peer knows about all numbers below this, so there's no need to go on.
			covered = !r.resuming
			low = 0
			break
		}
		ackLow := r.runStart(gapLow, true)
		if nruns+2 > maxAckRuns || len(b)+varintLen(low-gapLow)+varintLen(gapLow-ackLow) > limit {
			break
		}
		b = appendVarint(b, low-gapLow)
		b = appendVarint(b, gapLow-ackLow)
		nruns += 2
		low = ackLow
		below = ackLow
	}

	r.reportedDownTo(low)
	b[nrunsAt] = byte(nruns)
	return b, covered
}

// reportedDownTo is called when an ack reports all numbers down to low. If the ack resumed, the
// numbers between its first run and the point where it resumed are left out.
func (r *received) reportedDownTo(low uint64) {
	r.omitted.cut(low)
	if r.resuming {
		return
	}
	r.inOrder.cut(low)
	r.late.cut(low)
	if r.omitted.empty() {
		// The next ack resumes with what this one has left out.
		r.omitted.join(r.inOrder)
		r.omitted.join(r.late)
		r.inOrder = span{}
		r.late = span{}
	}
}

// runStart returns the start of the run of arrived packets (or of the gap, if arrived is
// false) that ends at high-1. It returns high if there's no such run or gap, and never
// goes below the floor.
func (r *received) runStart(high uint64, arrived bool) uint64 {
	if high <= r.floor || r.Has(high-1) != arrived {
		return high
	}
	return high - r.Run(high-1, r.floor)
}
