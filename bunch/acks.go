package bunch

import (
	"encoding/binary"
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

const (
	// seenWindow is how many packet numbers are remembered; an older one counts as a duplicate. At twice the history its sender has
	// declared it lost long ago, and sent its bunches again.
	seenWindow = recovery.WindowSize
	// ackEvery is the number of packets that ask for an ack after which one leaves at once, so that ack-only packets are at most 1 in 8 of
	// those received. RFC 9000, section 13.2.2, has 2; bulk asks for acks as often as it needs them (see wantsAck).
	ackEvery = 8
	// gapAckInterval is the least time between two acks for gaps. RFC 9000, section 13.2.1, acknowledges each packet out of order at once, which
	// on a path that reorders all packets is an ack for each.
	gapAckInterval = time.Millisecond
	// pingEvery: every 16th ack-only packet asks for an ack. It tells which of our acks have come, so that the next ones may leave out what
	// these named (RFC 9000, section 13.2.4).
	pingEvery      = 16
	ackHeaderBytes = 7 // largest, delay, number of runs
)

// received remembers which packets came and decides when they are acknowledged.
type received struct {
	recovery.Window
	floor   uint64        // acks name no numbers below it: the peer has acknowledged an ack that named them, or they are too old
	at      time.Duration // arrival of the largest number
	missing uint64        // numbers below Next that have not come
	toTell

	// When the next ack leaves.
	asking   int           // packets received since the last ack sent that ask for one
	deadline time.Duration // when the next ack leaves at the latest, if asking > 0
	urgent   bool          // the next ack tells of a gap, or the peer asked for it at once
	lastGap  time.Duration // when the last urgent ack left
	acksOnly int           // ack-only packets sent since the last packet that asked
}

// toTell holds the received numbers that no ack has named yet. An ack names the newest runs first and may have no room for the others: where
// many packets are late, each ack would name the same ones if it did not remember what it left out.
type toTell struct {
	fresh span // numbers that were the largest when they came
	late  span // numbers that came below a larger one
	left  span // numbers for which an ack had no room; every second ack continues with these
	older bool // the newest ack continues with left
}

// span is a range of numbers, from low to high-1.
type span struct{ low, high uint64 }

func (s span) empty() bool { return s.low >= s.high }

// join widens s so that it holds all of o.
func (s *span) join(o span) {
	switch {
	case o.empty():
	case s.empty():
		*s = o
	default:
		s.low, s.high = min(s.low, o.low), max(s.high, o.high)
	}
}

// cut removes n and all numbers above it.
func (s *span) cut(n uint64) {
	s.high = min(s.high, n)
	s.low = min(s.low, s.high)
}

// add notes packet n and reports whether it is new.
func (r *received) add(now time.Duration, n uint64) bool {
	if r.Below(n) || r.Has(n) {
		return false
	}
	if n < r.Next {
		r.missing--
		r.late.join(span{n, n + 1})
	} else {
		r.missing += n - r.Next
		r.at = now
		r.fresh.join(span{n, n + 1})
	}
	r.Mark(n)

	r.floor = min(r.floor, n) // an ack must name a late one, too
	r.floor = max(r.floor, r.Floor())
	return true
}

// ask notes that a packet which asks for an ack came, and when the ack is due: at once when the peer says so (ackNow) or enough packets have
// asked; for a gap, made or filled, as soon as gapAckInterval lets it; else after delay.
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

// ackSent notes that an ack has left.
func (r *received) ackSent(now time.Duration) {
	if r.urgent {
		r.lastGap = now
	}
	r.asking, r.urgent = 0, false
}

// appendAcks appends the runs newest first, at most room bytes with their header. covered is false when some were left out. While an ack
// had no room for all, every second one names those that it left out. The gap under its first run then reaches over received numbers, too:
// to the peer a gap means nothing.
func (r *received) appendAcks(b []byte, now time.Duration, room int) (out []byte, covered bool) {
	// The header; the number of runs follows once it is known.
	delay := min((now-r.at).Microseconds()/ackDelayUnit, 1<<16-1)
	b = binary.BigEndian.AppendUint32(b, uint32(r.Next-1))
	b = binary.BigEndian.AppendUint16(b, uint16(delay))
	count := len(b)
	b = append(b, 0)
	limit := len(b) + room - ackHeaderBytes

	// The first run ends with the largest number, whatever was left out before: the peer measures its round trip.
	low := r.runDown(r.Next, true)
	b = appendVarint(b, r.Next-low)
	nruns, below := 1, low
	if r.turnToOlder(low) {
		below = r.left.high
	}

	// A gap and a run in turn, while there is room, down to the floor.
	for {
		gapLow := r.runDown(below, false)
		if gapLow <= r.floor {
			covered = !r.older
			low = 0
			break
		}
		ackLow := r.runDown(gapLow, true)
		if nruns+2 > maxAckRuns || len(b)+varintLen(low-gapLow)+varintLen(gapLow-ackLow) > limit {
			break
		}
		b = appendVarint(b, low-gapLow)
		b = appendVarint(b, gapLow-ackLow)
		nruns, low, below = nruns+2, ackLow, ackLow
	}

	r.toldDownTo(low)
	b[count] = byte(nruns)
	return b, covered
}

// turnToOlder reports whether this ack, whose first run ends at low, is to name the numbers that another left out.
func (r *received) turnToOlder(low uint64) bool {
	r.left.cut(low)
	r.older = !r.older && !r.left.empty()
	return r.older
}

// toldDownTo notes that an ack has named all numbers down to low.
func (r *received) toldDownTo(low uint64) {
	r.left.cut(low)
	if r.older {
		return
	}
	r.fresh.cut(low)
	r.late.cut(low)
	if r.left.empty() {
		r.left.join(r.fresh)
		r.left.join(r.late)
		r.fresh, r.late = span{}, span{}
	}
}

// runDown returns the lowest n >= floor so that all of [n, high) have the given state.
func (r *received) runDown(high uint64, state bool) uint64 {
	if high <= r.floor || r.Has(high-1) != state {
		return high
	}
	return high - r.Run(high-1, r.floor)
}
