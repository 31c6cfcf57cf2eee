package sealed

import (
	"slices"
	"time"

	"github.com/quivernet/quiver/internal/pace"
)

const (
	// trainPackets is how many packets we send back to back when a carrier opens. The
	// bottleneck spreads them out, so their spacing at the receiver shows its rate.
	trainPackets = 16
	// minTrain is how many of them must arrive for a measurement.
	minTrain = trainPackets / 2
	// unevenTrain is the widest gap among packets that count as evenly spaced, as a multiple of
	// the mean gap. Two consecutive losses make a gap of three. With four, one in three hundred
	// thin trains that jitter had spread counted as even and slow, and its transfer took 10 s
	// and more.
	unevenTrain = 3

	// nearRTT is the longest round trip of a path that is certainly fast enough for full
	// packets: QUIC measured it with at least one and a half such packets of its handshake, so
	// the path carries 230 kbit/s. If the round trip is longer, the path may be far or slow,
	// and we send a thin train first. We also do that for later carriers of a connection,
	// because by then QUIC's measurement is of small packets.
	nearRTT = 64 * time.Millisecond
	// thinPacket is the size in bytes of a thin train's packets. Play right after the join
	// waits for them.
	thinPacket = 100
	// thinSpan is the longest span of a thin train that arrived evenly and is followed by a
	// full one, which takes 24 ms at that rate. Interrupts alone may cause so short a span.
	thinSpan = 2 * time.Millisecond
	// thinJitter is used instead of thinSpan if the train arrived unevenly, because then jitter
	// has spread it rather than a slow path.
	thinJitter = 50 * time.Millisecond
	// blindSpan is the longest span of a train that shows nothing, because it's too short to be
	// measured.
	blindSpan = 100 * time.Microsecond
)

// A train measures the rate of a path with packets that are sent back to back (a packet train).
//
// A full train has packets of full size. On a path that may be slow, they would keep play
// waiting, so a thin train of small packets goes first. It shows whether the path is slow, and
// if it isn't, a full train follows and shows how fast it is.
type train struct {
	thin    bool   // its packets have thinPacket bytes
	final   bool   // it was sent before or has been measured, so it won't be repeated
	first   uint64 // smaller numbers belong to an earlier train or another path and don't count
	started bool   // a packet has been sent
	// An earlier train has shown some rate, so payloads needn't wait for this one.
	rateKnown bool

	unsent   int // packets still to send
	inFlight int // packets that are neither acked nor lost

	// Packets that arrived in time.
	arrived      int
	arrivals     [trainPackets]time.Duration // on the peer's clock, in the order of the acks
	arrivedBytes int                         // without the first packet acked
	minOffset    time.Duration               // minimum of a packet's round trip minus its arrival

	result pace.Train // the last measurement, not counting late packets; no bytes if there is none
}

// running reports whether we don't know the fates of all packets yet.
func (tr *train) running() bool { return tr.unsent > 0 || tr.inFlight > 0 }

// holdsPayloads reports whether payloads must wait for the train.
func (tr *train) holdsPayloads() bool { return tr.running() && !tr.rateKnown }

// packetSent is called when a packet of the train is sent.
func (tr *train) packetSent() {
	tr.unsent--
	tr.inFlight++
	tr.started = true
}

// acked is called when packet n is acked. It arrived at the time at on the peer's clock, which
// is 0 if unknown. rtt is its round trip.
func (tr *train) acked(r *record, n uint64, at, rtt time.Duration) {
	tr.inFlight--
	if at == 0 || n < tr.first {
		return
	}
	if offset := rtt - at; tr.arrived == 0 || offset < tr.minOffset {
		tr.minOffset = offset
	}
	if tr.arrived > 0 {
		tr.arrivedBytes += int(r.size)
	}
	tr.arrivals[tr.arrived] = at
	tr.arrived++
}

// lost is called when a packet is declared lost.
func (tr *train) lost() { tr.inFlight-- }

// repeat sends the train once more if none of it counts: the peer wasn't ready, the packets
// were too large, or the path has changed. next is the number of the new train's first packet.
func (tr *train) repeat(next uint64) {
	if tr.started && !tr.final && tr.arrived == 0 && !tr.running() {
		*tr = train{unsent: trainPackets, final: true, thin: tr.thin, first: next}
	}
}

// takeResult returns what the train has measured, once. ok is false as long as the train is
// running, and if too few packets arrived.
func (tr *train) takeResult() (result pace.Train, ok bool) {
	if tr.running() || tr.arrived < minTrain {
		return result, false
	}
	at := tr.arrivals[:tr.arrived]
	slices.Sort(at)
	result = pace.Train{
		Bytes: tr.arrivedBytes,
		Span:  at[len(at)-1] - at[0],
		Trip:  tr.minOffset + at[0],
		Whole: tr.arrived == trainPackets,
	}
	gaps := time.Duration(len(at) - 1)
	if gap := widestGap(at); gap*gaps > unevenTrain*result.Span {
		// As much time may have passed before the first packet, so count the gap twice.
		result.Span += gap
	} else {
		result.Even = true
	}
	if tr.thin {
		// We can't tell from a thin train how long bursts may be. It's also over too soon to
		// show how many of the queued packets belonged to other trains.
		result.Whole = false
		result.Trip = 0
	}
	*tr = train{final: true, thin: tr.thin, first: tr.first, result: result}
	return result, true
}

// followUp sends a full train after a thin one that has shown that the path isn't slow, but not
// how fast it is. next is the number of the new train's first packet.
func (tr *train) followUp(next uint64) {
	limit := thinJitter
	if tr.result.Even {
		limit = thinSpan
	}
	if tr.thin && tr.result.Span <= limit {
		rateKnown := tr.result.Span > blindSpan
		*tr = train{unsent: trainPackets, final: true, first: next, rateKnown: rateKnown}
	}
}

// addLate adds packet n to the result, although it was declared lost before it arrived. The
// path did carry it among the others and delayed it somewhere else, so a train of which every
// other packet is late would show only half of the rate. ok is false if there is no result to
// add to.
func (tr *train) addLate(r *record, n uint64) (result pace.Train, ok bool) {
	if tr.result.Bytes == 0 || n < tr.first {
		return result, false
	}
	tr.result.Bytes += int(r.size)
	return tr.result, true
}

// moved is called when the path has changed. Only packets from next on count from then on.
func (tr *train) moved(next uint64) {
	tr.first = next
	tr.arrived = 0
	tr.arrivedBytes = 0
	tr.result = pace.Train{}
	if tr.unsent > 0 {
		// The rest may be too few packets for a measurement, so start over.
		tr.unsent = trainPackets
		tr.rateKnown = false
	}
}

// widestGap returns the widest gap between two arrivals, which are sorted. Packets that come
// out of a bottleneck arrive evenly. With jitter, or a link layer that batches, they arrive in
// a few clumps instead, and those show no rate.
func widestGap(at []time.Duration) (widest time.Duration) {
	for i := 1; i < len(at); i++ {
		widest = max(widest, at[i]-at[i-1])
	}
	return widest
}
