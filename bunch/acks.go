package bunch

import (
	"encoding/binary"
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

const (
	// seenWindow is the number of packet numbers that the receiver remembers. It treats an
	// older number as a duplicate. The window is twice the maximum history, so the sender
	// has long since declared such a packet lost and resent its bunches.
	seenWindow = recovery.WindowSize
	// ackEvery is the number of packets asking for an ack that cause one to be sent at
	// once. There is at most one ack-only packet for every 8 packets received. RFC 9000,
	// section 13.2.2, recommends an ack for every 2, but bulk asks for acks as often as it
	// needs them (see wantsAck).
	ackEvery = 8
	// gapAckInterval is the minimum time between two acks for gaps. RFC 9000, section
	// 13.2.1, asks for an immediate ack of each packet out of order. On a path that
	// reorders all packets, every packet would get one.
	gapAckInterval = time.Millisecond
	// pingEvery is how often an ack-only packet asks for an ack: once in 16 packets. The
	// answer shows which of our acks have arrived, so the next ones can omit the numbers in
	// them (RFC 9000, section 13.2.4).
	pingEvery      = 16
	ackHeaderBytes = 7 // largest, delay, number of runs
)

// received records which packets have arrived and decides when to acknowledge them.
type received struct {
	recovery.Window
	// Acks contain no numbers below floor: either the peer has acknowledged an ack that
	// contained them, or they are too old.
	floor   uint64
	at      time.Duration // when the largest number arrived
	missing uint64        // numbers below Next that have not arrived
	unreported

	// When to send the next ack.
	asking   int           // packets asking for an ack received since the last ack was sent
	deadline time.Duration // when the next ack must be sent, if asking > 0
	urgent   bool          // the next ack reports a gap, or the peer asked for it at once
	lastGap  time.Duration // when the last urgent ack was sent
	acksOnly int           // ack-only packets sent since the last packet asking for an ack
}

// unreported holds the received numbers that no ack has contained yet.
//
// An ack lists the newest runs first and may have no room for the rest. If many packets are
// late, every ack would list the same runs, so unreported remembers the ones left out.
type unreported struct {
	fresh span // numbers that were the largest when they arrived
	late  span // numbers that arrived after a larger one
	left  span // numbers for which an ack had no room; every second ack continues with these
	older bool // the last ack continued with left
}

// A span is the range of numbers from low to high-1.
// A span is a range of numbers, from low to high-1.
type span struct{ low, high uint64 }

func (s span) empty() bool { return s.low >= s.high }

// join extends s to contain o.
func (s *span) join(o span) {
	switch {
	case o.empty():
	case s.empty():
		*s = o
	default:
		s.low, s.high = min(s.low, o.low), max(s.high, o.high)
	}
}

// cut removes n and all higher numbers.
func (s *span) cut(n uint64) {
	s.high = min(s.high, n)
	s.low = min(s.low, s.high)
}

// add records packet n and reports whether it is new.
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

	r.floor = min(r.floor, n) // an ack must contain a late packet as well
	r.floor = max(r.floor, r.Floor())
	return true
}

// ask is called for a packet that asks for an ack, and decides when that ack is due.
//
// It is due at once if the peer asks for that (ackNow) or enough packets have asked. For a
// packet that makes or fills a gap, it is due as soon as gapAckInterval allows. Otherwise
// it is due after delay.
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

// ackSent records that an ack is being sent.
func (r *received) ackSent(now time.Duration) {
	if r.urgent {
		r.lastGap = now
	}
	r.asking = 0
	r.urgent = false
}

// appendAcks appends the header and as many runs as fit into room bytes, newest first.
// covered is false if it left some out.
//
// While an ack has no room for all runs, every second ack continues with those left out.
// The gap below its first run then includes received numbers as well, which is allowed
// because a gap means nothing to the peer.
func (r *received) appendAcks(b []byte, now time.Duration, room int) (out []byte, covered bool) {
	// The header; the number of runs follows once it is known.
	delay := min((now-r.at).Microseconds()/ackDelayUnit, 1<<16-1)
	b = binary.BigEndian.AppendUint32(b, uint32(r.Next-1))
	b = binary.BigEndian.AppendUint16(b, uint16(delay))
	count := len(b)
	b = append(b, 0)
	limit := len(b) + room - ackHeaderBytes

	// The first run always ends with the largest number, because the peer measures its
	// round trip with it.
	low := r.runDown(r.Next, true)
	b = appendVarint(b, r.Next-low)
	nruns := 1
	below := low
	if r.turnToOlder(low) {
		below = r.left.high
	}

	// Alternate gaps and runs down to the floor while there is room.
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
		nruns += 2
		low = ackLow
		below = ackLow
	}

	r.reportedDownTo(low)
	b[count] = byte(nruns)
	return b, covered
}

// turnToOlder reports whether an ack whose first run ends at low must continue with the
// numbers that an earlier ack left out.
func (r *received) turnToOlder(low uint64) bool {
	r.left.cut(low)
	r.older = !r.older && !r.left.empty()
	return r.older
}

// reportedDownTo records that an ack contains all numbers down to low.
func (r *received) reportedDownTo(low uint64) {
	r.left.cut(low)
	if r.older {
		return
	}
	r.fresh.cut(low)
	r.late.cut(low)
	if r.left.empty() {
		r.left.join(r.fresh)
		r.left.join(r.late)
		r.fresh = span{}
		r.late = span{}
	}
}

// runDown returns the lowest n >= floor such that all of [n, high) have the given state.
func (r *received) runDown(high uint64, state bool) uint64 {
	if high <= r.floor || r.Has(high-1) != state {
		return high
	}
	return high - r.Run(high-1, r.floor)
}
