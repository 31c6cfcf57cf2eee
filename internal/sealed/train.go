package sealed

import (
	"slices"
	"time"

	"github.com/quivernet/quiver/internal/pace"
)

const (
	// trainPackets is the number of packets that we send back to back when a carrier opens.
	// The bottleneck spreads them out, so their spacing at the receiver shows the
	// bottleneck's rate.
	trainPackets = 16
	// minTrain is the minimum number of packets that must arrive for a measurement.
	minTrain = trainPackets / 2
	// Packets count as evenly spaced if the widest gap is at most unevenTrain times the mean
	// gap. It's 3 because two consecutive losses make a gap of that width. With 4, one in 300
	// thin trains that were spread by jitter would count as even and slow, and the transfer that
	// follows would take 10 s or more.
	unevenTrain = 3

	// nearRTT is the longest round trip that proves that a path is fast enough for full
	// packets. QUIC measures it during its handshake with the equivalent of at least one and a
	// half full packets, so the path carries 230 kbit/s. A longer round trip may mean that the
	// path is long or that it is slow, so we send a thin train first. So do later carriers of a
	// connection, because after the handshake QUIC measures the round trip with small packets.
	nearRTT = 64 * time.Millisecond
	// thinPacket is the packet size of a thin train, in bytes. It's small because play (the game's
	// own traffic) that is sent right after the join has to wait for the train.
	thinPacket = 100
	// A thin train that arrived evenly within thinSpan is followed by a full train. At the rate
	// that such a span shows, the full train takes at most 24 ms. A limit much below thinSpan
	// could be exceeded because of interrupts alone.
	thinSpan = 2 * time.Millisecond
	// thinJitter is used instead of thinSpan if the train arrived unevenly, because then it was
	// spread by jitter rather than by a slow path.
	thinJitter = 50 * time.Millisecond
	// A train that arrived within blindSpan doesn't show a rate, because the span is too short to
	// be measured.
	blindSpan = 100 * time.Microsecond
)

// A train measures the rate of a path with packets that are sent back to back (a packet train).
//
// A full train has full packets. On a slow path they would make play wait, so if the path may be
// slow, a thin train of small packets is sent first. If that shows that the path isn't slow, a
// full train follows and shows how fast the path is.
type train struct {
	thin      bool   // its packets have thinPacket bytes
	final     bool   // it's the second, or has been measured, so it won't be repeated
	first     uint64 // smaller numbers are of an earlier train or another path and don't count
	started   bool   // a packet has been sent
	rateKnown bool   // an earlier train has shown a rate, so payloads needn't wait for this one

	unsent    int // packets still to send
	inFlight  int // packets that are neither acked nor lost
	delivered int // packets acked, whether or not we know when they arrived

	// Packets that arrived in time.
	arrived      int
	arrivals     [trainPackets]time.Duration // on the peer's clock, in the order of the acks
	arrivedBytes int                         // without the first packet acked
	minOffset    time.Duration               // minimum of a packet's round trip minus its arrival

	result pace.Train // the last measurement; Bytes is 0 if there is none
}

// running reports whether the fates of some packets are still unknown.
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
	if n < tr.first {
		return
	}
	tr.delivered++
	if at == 0 {
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

// lost is called when a packet of the train is declared lost.
func (tr *train) lost() { tr.inFlight-- }

// repeat starts the train over, once, if none of its packets count, because the peer wasn't ready,
// the packets were too large, or the path has changed. next is the number of the new train's
// first packet.
func (tr *train) repeat(next uint64) {
	if tr.started && !tr.final && tr.arrived == 0 && !tr.running() {
		*tr = train{unsent: trainPackets, final: true, thin: tr.thin, first: next}
	}
}

// takeResult returns the train's measurement, but only once. ok is false while the train is
// running, or if too few packets arrived.
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
		// There may have been a gap of that width before the first packet as well, so count it
		// twice.
		result.Span += gap
	} else {
		result.Even = true
	}
	if tr.thin {
		// A thin train can't show how long bursts may be, and it's over too soon to show how many
		// of the queued packets belonged to other trains.
		result.Whole = false
		result.Trip = 0
	}
	*tr = train{final: true, thin: tr.thin, first: tr.first, result: result, delivered: tr.delivered}
	return result, true
}

// followUp starts a full train if a thin train has shown that the path isn't slow, because it
// can't show how fast the path is. next is the number of the new train's first packet.
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

// addLate adds packet n, which was declared lost before it was acked, to the result. The path did
// carry the packet among the others and then delayed it elsewhere. Without late packets, a train
// would show only half of the rate if every other packet is late. ok is false if there is no
// result to add to.
func (tr *train) addLate(r *record, n uint64) (result pace.Train, ok bool) {
	if tr.result.Bytes == 0 || n < tr.first {
		return result, false
	}
	tr.result.Bytes += int(r.size)
	return tr.result, true
}

// moved is called when the path has changed. From then on, only packets numbered next
// or higher count.
func (tr *train) moved(next uint64) {
	tr.first = next
	tr.delivered = 0
	tr.arrived = 0
	tr.arrivedBytes = 0
	tr.result = pace.Train{}
	if tr.unsent > 0 {
		// The rest may be too few packets for a measurement, so start over.
		tr.unsent = trainPackets
		tr.rateKnown = false
	}
}

// widestGap returns the widest gap between two of the sorted arrivals. Packets that come out of
// a bottleneck arrive evenly. With jitter, or a link layer that batches packets, they arrive in
// a few clumps, which don't show a rate.
func widestGap(at []time.Duration) (widest time.Duration) {
	for i := 1; i < len(at); i++ {
		widest = max(widest, at[i]-at[i-1])
	}
	return widest
}
