package bunch

import (
	"encoding/binary"
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

const (
	// seenWindow is how many packet numbers the receiver remembers. Any older one is taken for
	// a duplicate. It's twice the maximum history, so the sender has long declared such a
	// packet lost and retransmitted what was in it.
	seenWindow = recovery.WindowSize

	// ackEvery is how many packets that ask for an ack it takes for one to be sent at once.
	// There is at most one ack-only packet for every 8 received. RFC 9000, section 13.2.2,
	// recommends an ack for every second packet, but a sender of bulk asks for more acks
	// whenever it needs them (see wantsAck).
	ackEvery = 8

	// gapAckInterval is the least time between two acks that report gaps. RFC 9000, section
	// 13.2.1, wants each packet that's out of order to be acknowledged at once. If a path
	// reorders everything, that would be an ack for every packet.
	gapAckInterval = time.Millisecond

	// pingEvery is how many packets with nothing but acks we send until one of them asks for
	// an ack itself. That one tells us which acks have arrived, and we can leave out what they
	// contained (RFC 9000, section 13.2.4).
	pingEvery = 16

	ackHeaderBytes = 7 // largest, delay, number of runs
)

// received remembers which packets have arrived, and decides when to acknowledge them.
type received struct {
	recovery.Window
	largestAt time.Duration // when the largest number arrived
	missing   uint64        // numbers below Next that haven't arrived

	// Contents of the next ack. Numbers below the floor are left out, since the peer knows
	// about them from an ack that it has acknowledged, or they're too old.
	floor uint64
	unreported

	// Time of the next ack.
	asking   int           // packets that asked for an ack since we sent the last one
	deadline time.Duration // when the ack must be sent, if asking > 0
	urgent   bool          // a gap is to be reported, or the peer asked for an ack at once
	lastGap  time.Duration // when the last urgent ack was sent
	acksOnly int           // packets with nothing but acks since one of ours asked for an ack
}

// unreported remembers which numbers no ack has contained yet.
//
// An ack lists the newest runs first and may have no room for the others. While many packets
// are late, every ack would list the same runs and never get to the rest, so we remember what
// was left out and come back to it.
type unreported struct {
	inOrder  span // numbers that were the largest when they arrived
	late     span // numbers that arrived after a larger one
	omitted  span // numbers that didn't fit into an ack; every second ack resumes here
	resuming bool // the last ack did that
}

// A span is the range of numbers from low to high-1.
type span struct{ low, high uint64 }

func (s span) empty() bool { return s.low >= s.high }

// join extends s so that it contains o.
func (s *span) join(o span) {
	switch {
	case o.empty():
	case s.empty():
		*s = o
	default:
		s.low, s.high = min(s.low, o.low), max(s.high, o.high)
	}
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

// ask is called when a packet arrives that asks for an ack, and decides when to send one.
//
// That's at once if the peer asked for that (ackNow), or if enough packets have asked. If the
// packet leaves or fills a gap, it's as soon as gapAckInterval allows. Otherwise we may take
// as long as delay.
func (r *received) ask(now, delay time.Duration, gap, ackNow bool) {
	r.asking++
	due := now + delay
	switch {
	case ackNow || r.asking >= ackEvery:
		due = now
	case gap:
		due = max(now, r.lastGap+gapAckInterval)
	}
	if gap || ackNow {
		r.urgent = true
	}
	if r.asking == 1 || due < r.deadline {
		r.deadline = due
	}
}

func (r *received) due(now time.Duration) bool { return r.asking > 0 && now >= r.deadline }

// ackSent is called when an ack is being sent.
func (r *received) ackSent(now time.Duration) {
	if r.urgent {
		r.lastGap = now
	}
	r.asking = 0
	r.urgent = false
}

// appendAcks appends acks in at most room bytes: the header, and as many runs as fit, newest
// first. covered is false if some had to be left out.
//
// When there isn't enough room, every second ack resumes with the runs left out before. The
// gap after its first run then includes packets that did arrive, which does no harm, because
// the peer draws no conclusions from a gap.
func (r *received) appendAcks(b []byte, now time.Duration, room int) (out []byte, covered bool) {
	delay := min((now-r.largestAt).Microseconds()/ackDelayUnit, 1<<16-1)
	b = binary.BigEndian.AppendUint32(b, uint32(r.Next-1))
	b = binary.BigEndian.AppendUint16(b, uint16(delay))
	nrunsAt := len(b)
	b = append(b, 0) // set below
	limit := len(b) + room - ackHeaderBytes

	// The first run always contains the largest number, which the peer needs to measure its
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
			// The peer knows about everything below, so there's no need to go on.
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

// reportedDownTo is called when an ack contains all numbers down to low. If it's one that
// resumed, those between its first run and where it resumed are left out.
func (r *received) reportedDownTo(low uint64) {
	r.omitted.cut(low)
	if r.resuming {
		return
	}
	r.inOrder.cut(low)
	r.late.cut(low)
	if r.omitted.empty() {
		// What this ack has left out is where the next one resumes.
		r.omitted.join(r.inOrder)
		r.omitted.join(r.late)
		r.inOrder = span{}
		r.late = span{}
	}
}

// runStart returns the number n for which the packets from n to high-1 are a run of packets
// that have arrived, or, if arrived is false, a gap. n is high if there's no such run or gap,
// and it's never below the floor.
func (r *received) runStart(high uint64, arrived bool) uint64 {
	if high <= r.floor || r.Has(high-1) != arrived {
		return high
	}
	return high - r.Run(high-1, r.floor)
}
