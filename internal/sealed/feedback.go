package sealed

import (
	"encoding/binary"
	"math"
	"math/bits"
	"time"

	"github.com/quivernet/quiver/internal/wire"
)

const (
	// maxRuns is the maximum number of runs in a feedback: 95 gaps. A packet that arrived
	// late can be acked only while it lies above the oldest of them. If 3 packets in 10 are
	// late by 25 ms, 95 gaps are enough up to 200 Mbit/s. Earlier feedbacks have listed
	// older packets.
	maxRuns = 191
	// maxTimes is the maximum number of arrival times in a feedback. Further packets are
	// acked without one.
	maxTimes = 64
	// feedbackFixed is the maximum size of a feedback without its runs and times.
	feedbackFixed = 1 + 4 + binary.MaxVarintLen32 + clockBytes + 2
	// minFeedback is the minimum room for which a feedback is built. It is enough for two
	// runs, and for the bytes that fillRuns reserves for times.
	minFeedback = feedbackFixed + 2*binary.MaxVarintLen16 + 4
	// clockUnit is the unit of the times in a feedback. The low clockBytes bytes of the
	// clock are sent; clockMask selects them.
	clockUnit  = time.Microsecond
	clockBytes = 6
	clockMask  = 1<<(8*clockBytes) - 1
	// maxEarlier is the longest time between two arrivals in a feedback, in units of
	// clockUnit: 12.7 days. The sum of maxTimes of them cannot overflow a time.Duration. A
	// list of times ends before a longer distance.
	maxEarlier = 1 << 40
)

// feedback lists the packets that arrived and their times of arrival.
type feedback struct {
	largest uint32        // low bits of the largest number received
	nruns   int           // number of runs in use
	ntimes  int           // number of elements of earlier in use
	delay   time.Duration // time from the arrival of the largest number to the building of this feedback
	// When the largest number arrived, by the receiver's clock. It has 48 bits, which wrap
	// after 9 years (see unwrap).
	clock uint64

	// Lengths of runs, from largest down: received numbers, then missing ones, and so on.
	runs [maxRuns]uint64

	// Time by which each packet arrived earlier than the received packet above it, from the
	// second largest received number down. The unit is clockUnit. A time is negative if the
	// packet arrived later.
	earlier [maxTimes]int64
}

// append encodes a feedback of at least one run.
func (f *feedback) append(b []byte) []byte {
	b = append(b, frameFeedback)
	b = binary.BigEndian.AppendUint32(b, f.largest)
	b = binary.AppendUvarint(b, uint64(min(max(f.delay/clockUnit, 0), 1<<32-1)))
	b = binary.BigEndian.AppendUint16(b, uint16(f.clock>>32))
	b = binary.BigEndian.AppendUint32(b, uint32(f.clock))
	b = append(b, byte(f.nruns), byte(f.ntimes))
	for _, run := range f.runs[:f.nruns] {
		b = binary.AppendUvarint(b, run)
	}
	for _, d := range f.earlier[:f.ntimes] {
		b = binary.AppendVarint(b, d)
	}
	return b
}

// consume decodes a feedback from r, which must be positioned after the frame's kind.
func (f *feedback) consume(r *wire.Reader) {
	f.largest = uint32(r.Fixed(4))
	f.delay = time.Duration(r.Uvarint(math.MaxUint32)) * clockUnit
	f.clock = r.Fixed(clockBytes)
	f.nruns = int(r.Byte())
	f.ntimes = int(r.Byte())
	if f.nruns < 1 || f.nruns > maxRuns || f.ntimes > maxTimes {
		r.Fail(errMalformed)
		return
	}
	for i := range f.nruns {
		f.runs[i] = r.Uvarint(maxNumber)
		if f.runs[i] == 0 {
			r.Fail(errMalformed)
		}
	}
	for i := range f.ntimes {
		d := r.Varint()
		if d > maxEarlier || d < -maxEarlier {
			r.Fail(errMalformed)
		}
		f.earlier[i] = d
	}
}

// span is a range of packet numbers that arrived: low <= n < high.
type span struct{ low, high uint64 }

// spans fills in the ranges of numbers that were received, newest first. It returns their
// number, or a violation.
func (f *feedback) spans(largest uint64, spans *[maxRuns/2 + 1]span) (n int, err error) {
	high := largest + 1
	for i, run := range f.runs[:f.nruns] {
		if run > high {
			return 0, violation("ack runs reach below packet 0")
		}
		if i%2 == 0 {
			spans[n] = span{high - run, high}
			n++
		}
		high -= run
	}
	return n, nil
}

// arrived returns when the largest number arrived, by the peer's clock. It is never 0.
func (f *feedback) arrived() time.Duration { return time.Duration(f.clock)*clockUnit + 1 }

// times appends the arrivals in f of packets in spans, largest number first.
//
// If a packet was overtaken by a later one, its arrival is 0, for unknown. A queue keeps
// packets in order, so the packet was delayed elsewhere. Packets below fresh were overtaken
// by a packet of an earlier feedback.
func (f *feedback) times(spans []span, fresh uint64, list []arrival) []arrival {
	at := f.arrived()
	earliest := at // arrival of the earliest packet so far
	for _, sp := range spans {
		for number := sp.high; number > sp.low && len(list) <= f.ntimes; {
			number--
			if n := len(list); n > 0 {
				at -= time.Duration(f.earlier[n-1]) * clockUnit
			}
			list = append(list, arrival{number: number})
			if number >= fresh && at <= earliest {
				earliest = at
				list[len(list)-1].at = max(at, 1)
			}
		}
	}
	return list
}

// unwrap returns the clock nearest to last that has these low 48 bits, which wrap after 9
// years. If last is 0, none was received yet. The result is then far above 0, so that a
// feedback that arrives late may have an earlier clock.
func unwrap(last, low uint64) uint64 {
	if last == 0 {
		return clockMask + 1 + low
	}
	const half = (clockMask + 1) / 2
	ahead := (low - last + half) & clockMask
	return last + ahead - half
}

// uvarintLen returns the number of bytes of a varint, each of which has 7 bits.
func uvarintLen(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

// varintLen returns the number of bytes of a signed varint.
func varintLen(v int64) int { return uvarintLen(uint64(v<<1) ^ uint64(v>>63)) }
