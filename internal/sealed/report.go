package sealed

import (
	"encoding/binary"
	"math"
	"math/bits"
	"time"

	"github.com/quivernet/quiver/internal/recovery"
	"github.com/quivernet/quiver/internal/wire"
)

const (
	// maxRuns is the maximum number of runs in a report. 191 runs leave room for 95 gaps, which
	// is enough for up to 200 Mbit/s of full packets with 3 in 10 arriving 25 ms late.
	//
	// Packets below the oldest gap don't fit, but earlier reports listed them, unless they arrived
	// late. Late packets have to wait for a later report (see reporter.fill).
	maxRuns  = 191
	maxSpans = maxRuns/2 + 1 // even runs are of received packets, counting from 0

	// maxDeltas is the maximum number of deltas in a report. They need at most 200 bytes if the
	// packets arrived within a second. Any further packets are acked without a time.
	maxDeltas = 64

	// maxReportHeader is the maximum size of a report before its runs and deltas.
	maxReportHeader = 1 + 4 + binary.MaxVarintLen32 + clockBytes + 2

	// deltaRoom is the number of bytes in a report that the runs leave free for deltas, enough
	// for the second largest packet's delta even if it arrived two minutes earlier.
	deltaRoom = 4

	// minReport is the number of bytes that must be free in a packet before we add a report. It's
	// enough for two runs and deltaRoom bytes of deltas.
	minReport = maxReportHeader + 2*binary.MaxVarintLen16 + deltaRoom

	// Times are sent in units of clockUnit, and the clock is truncated to its low clockBytes
	// bytes (the bits of clockMask).
	clockUnit  = time.Microsecond
	clockBytes = 6
	clockMask  = 1<<(8*clockBytes) - 1

	// longestDelta is the longest time between two arrivals that a delta can express, in units
	// of clockUnit. At 12.7 days, it's short enough that the sum of maxDeltas deltas doesn't
	// overflow a time.Duration. If packets arrived further apart, the list of deltas ends
	// between them.
	longestDelta = 1 << 40
)

// A report is a feedback frame, which corresponds to QUIC's ACK frame. It tells the peer which of
// its packets arrived and when, so that the peer can detect losses and measure the path's delivery
// rate.
//
// Like an ACK frame (RFC 9000, section 19.3), it works down from the largest packet number
// received, alternating between runs of received and missing numbers. The arrival of the largest
// packet is sent as a time on the receiver's clock. The arrivals of other packets follow as
// deltas, each relative to the received packet just above it.
//
// If there are too many runs for one report, a later report continues below it. That report starts
// at an older packet and has no deltas, but its clock and delay still belong to the largest number
// received.
//
// A session uses one report over and over, for those it sends and those it receives. The lists are
// arrays, so that this allocates nothing.
type report struct {
	largest uint32        // low 32 bits of the largest number listed
	clock   uint64        // its arrival on the receiver's clock; low 48 bits, see unwrapClock
	delay   time.Duration // from that arrival until the receiver sent this report

	// The lengths of the runs, from largest down: received, missing, received, and so on.
	runs  [maxRuns]uint64
	nruns int // runs in use

	// How much earlier each packet arrived than the received packet above it, in units of
	// clockUnit, starting with the second largest. A delta is negative if the two were reordered.
	deltas  [maxDeltas]int64
	ndeltas int // deltas in use
}

// appendFrame appends the encoded report to b. There must be at least one run.
func (rp *report) appendFrame(b []byte) []byte {
	b = append(b, frameFeedback)
	b = binary.BigEndian.AppendUint32(b, rp.largest)
	b = binary.AppendUvarint(b, uint64(min(max(rp.delay/clockUnit, 0), math.MaxUint32)))
	var clock [8]byte
	binary.BigEndian.PutUint64(clock[:], rp.clock)
	b = append(b, clock[len(clock)-clockBytes:]...)
	b = append(b, byte(rp.nruns), byte(rp.ndeltas))
	for _, run := range rp.runs[:rp.nruns] {
		b = binary.AppendUvarint(b, run)
	}
	for _, delta := range rp.deltas[:rp.ndeltas] {
		b = binary.AppendVarint(b, delta)
	}
	return b
}

// consume decodes a report from r. The caller must have consumed the byte with the frame's kind.
// If r fails, rp is left in an undefined state.
//
// The caller must still check the numbers, which depend on the largest packet sent: appendSpans
// checks that the runs don't reach below packet 0.
func (rp *report) consume(r *wire.Reader) {
	rp.largest = uint32(r.Fixed(4))
	rp.delay = time.Duration(r.Uvarint(math.MaxUint32)) * clockUnit
	rp.clock = r.Fixed(clockBytes)
	rp.nruns = int(r.Byte())
	rp.ndeltas = int(r.Byte())
	if rp.nruns < 1 || rp.nruns > maxRuns || rp.ndeltas > maxDeltas {
		r.Fail(errMalformed)
		return
	}
	for i := range rp.nruns {
		rp.runs[i] = r.Uvarint(maxNumber)
		if rp.runs[i] == 0 {
			r.Fail(errMalformed)
		}
	}
	for i := range rp.ndeltas {
		rp.deltas[i] = r.Varint()
		if rp.deltas[i] < -longestDelta || rp.deltas[i] > longestDelta {
			r.Fail(errMalformed)
		}
	}
}

// setRuns sets as many runs as fit into room, taken from w between the numbers from and floor,
// downward. The rest of the room, which it returns, is for deltas: at least deltaRoom bytes. If all
// of the runs fit, unlistedEnd is 0. Otherwise it's one more than the largest number that isn't
// listed.
func (rp *report) setRuns(
	w *recovery.Window, room int, from, floor uint64,
) (roomLeft int, unlistedEnd uint64) {
	rp.largest = uint32(from)
	rp.nruns = 0
	n := from
	for rp.nruns < maxRuns {
		run := w.Run(n, floor)
		if room-uvarintLen(run) < deltaRoom {
			break
		}
		rp.runs[rp.nruns] = run
		rp.nruns++
		room -= uvarintLen(run)
		if n-floor < run {
			return room, 0
		}
		n -= run
	}
	return room, n + 1
}

// A span is a range of packet numbers that have all arrived: low <= n < high.
type span struct{ low, high uint64 }

// appendSpans appends the runs of received packets to spans, newest first. largest is rp.largest
// with its high bits restored. It returns an error if the runs reach below packet 0.
func (rp *report) appendSpans(spans []span, largest uint64) ([]span, error) {
	high := largest + 1
	for i, run := range rp.runs[:rp.nruns] {
		if run > high {
			return nil, violation("feedback has a run of %d packets, but only %d numbers are left", run, high)
		}
		if i%2 == 0 { // odd runs are missing packets
			spans = append(spans, span{high - run, high})
		}
		high -= run
	}
	return spans, nil
}

// largestArrival returns when the largest packet arrived, on the peer's clock.
func (rp *report) largestArrival() time.Duration { return time.Duration(rp.clock) * clockUnit }

// arrivals returns the packets in spans with their arrival times, largest number first. It stops at
// the first packet for which the report has no time. It overwrites list to reuse its memory.
//
// If a packet was overtaken by one sent after it, its arrival time is set to 0 (unknown). Queues
// don't reorder packets, so the packet was held up by something else, and its arrival would tell
// us nothing about the queue. Numbers below firstNew were overtaken by a packet that an earlier
// report acked.
func (rp *report) arrivals(list []arrival, spans []span, firstNew uint64) []arrival {
	list = list[:0]
	at := rp.largestArrival()
	earliest := at // of all packets so far
	for _, sp := range spans {
		for n := sp.high; n > sp.low && len(list) <= rp.ndeltas; {
			n--
			if i := len(list); i > 0 { // the largest packet has no delta
				at -= time.Duration(rp.deltas[i-1]) * clockUnit
			}
			a := arrival{number: n}
			if n >= firstNew && at <= earliest {
				earliest = at
				// A known time isn't 0, whatever the peer's clock and deltas add up to.
				a.at = max(at, 1)
			}
			list = append(list, a)
		}
	}
	return list
}

// unwrapClock restores the high bits of a reading of the peer's clock. The peer sends only the low
// 48 bits, which wrap around every 9 years, so unwrapClock returns the time closest to last, the
// previous reading.
//
// If last is 0, this is the first reading. It's placed one full cycle above zero, because a report
// that was delayed on the way may have an earlier reading.
func unwrapClock(last, low uint64) uint64 {
	const cycle = clockMask + 1
	if last == 0 {
		return cycle + low
	}
	ahead := (low - last + cycle/2) & clockMask // how far low is from last, plus half a cycle
	return last + ahead - cycle/2
}

// uvarintLen returns the encoded size of v, at 7 bits per byte.
func uvarintLen(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

// varintLen returns the encoded size of a signed (zigzag) varint.
func varintLen(v int64) int { return uvarintLen(uint64(v<<1) ^ uint64(v>>63)) }
