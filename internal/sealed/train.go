package sealed

import (
	"slices"
	"time"

	"github.com/quivernet/quiver/internal/pace"
)

const (
	// trainPackets is the number of packets sent back to back when a carrier opens. The
	// bottleneck spreads them out, so their spacing at the receiver shows its rate.
	trainPackets = 16
	// minTrain is the number of them that must arrive for a measurement.
	minTrain = trainPackets / 2
	// unevenTrain is the widest gap between packets that count as evenly spaced, as a
	// multiple of the mean gap. Two consecutive lost packets make a gap of three. With
	// four, one in three hundred thin trains that jitter had spread counted as even and
	// slow, and its transfer took 10 s and more.
	unevenTrain = 3

	// nearRTT is the longest round trip of a path that is certainly fast enough for full
	// packets. QUIC measured it with at least one and a half such packets of its handshake,
	// so the path carries 230 kbit/s. A path with a longer round trip may be far or slow,
	// and gets a thin train first. So does the path of a later carrier, because QUIC's
	// measurement before it was of small packets.
	nearRTT = 64 * time.Millisecond
	// thinPacket is the size in bytes of a thin train's packets. Play right after the join
	// waits for them.
	thinPacket = 100
	// thinSpan is the longest span of an evenly arrived thin train that is followed by a
	// full one, which takes 24 ms at that rate. So short a span may be due to interrupts.
	thinSpan = 2 * time.Millisecond
	// thinJitter replaces thinSpan if the train arrived unevenly. Jitter rather than a slow
	// path then spread it.
	thinJitter = 50 * time.Millisecond
	// blindSpan is the longest span of a train that shows nothing, because it is too short
	// to be measured.
	blindSpan = 100 * time.Microsecond
)

// A train measures the path's rate with packets that are sent back to back.
type train struct {
	unsent    int  // packets not sent yet
	started   bool // a packet of the train was sent
	final     bool // this is the second train, or the train was measured: it is not repeated
	thin      bool // its packets have thinPacket bytes
	rateKnown bool // a thin train has shown some rate, so payloads need not wait for this one
	// Number of its first packet that counts. Earlier packets belong to a train that was
	// repeated, or were sent on another path.
	first        uint64
	inFlight     int // packets in flight
	arrived      int
	arrivedBytes int                         // bytes of the packets that arrived, except the first
	minOffset    time.Duration               // minimum round trip of a packet, minus its arrival by the peer's clock
	arrivals     [trainPackets]time.Duration // when each packet arrived
	result       pace.Train                  // the last measurement, without packets that arrived late; no bytes = none
}

// running reports whether packets of the train are not sent yet, or neither acked nor lost.
func (tr *train) running() bool { return tr.unsent > 0 || tr.inFlight > 0 }

// holds reports whether payloads must wait for the train.
func (tr *train) holdsPayloads() bool { return tr.running() && !tr.rateKnown }

// repeat sends the train once more if none of it counts, because the peer was not ready,
// the packets were too large, or the path has changed. next is the number of its first
// packet.
func (tr *train) repeat(next uint64) {
	if tr.started && !tr.final && tr.arrived == 0 && !tr.running() {
		*tr = train{unsent: trainPackets, final: true, thin: tr.thin, first: next}
	}
}

// fill sends the train once more, with full packets, if a thin train has shown that the
// path is not slow, but not exactly how fast it is. next is the number of its first packet.
func (tr *train) followUp(next uint64) {
	limit := thinJitter
	if tr.result.Even {
		limit = thinSpan
	}
	if tr.thin && tr.result.Span <= limit {
		*tr = train{unsent: trainPackets, final: true, first: next, rateKnown: tr.result.Span > blindSpan}
	}
}

// moved is called when the path has changed. It forgets the measurements of the previous
// path: only packets from the number next on count.
//
// If a part of the train was not sent yet, the whole train is sent on the new path, because
// the rest may be too few packets for a measurement.
func (tr *train) moved(next uint64) {
	tr.first = next
	tr.arrived = 0
	tr.arrivedBytes = 0
	tr.result = pace.Train{}
	if tr.unsent > 0 {
		tr.unsent = trainPackets
		tr.rateKnown = false
	}
}

// lose records that a packet is lost.
func (tr *train) lost() { tr.inFlight-- }

// ack records that packet n, whose record is r, arrived at the time at by the peer's clock
// (0 = unknown). rtt is its round trip.
func (tr *train) acked(r *record, n uint64, at, rtt time.Duration) {
	tr.inFlight--
	if at == 0 || n < tr.first {
		return
	}
	if tr.arrived == 0 || rtt-at < tr.minOffset {
		tr.minOffset = rtt - at
	}
	if tr.arrived > 0 {
		tr.arrivedBytes += int(r.size)
	}
	tr.arrivals[tr.arrived] = at
	tr.arrived++
}

// measured returns the result of the train, once. ok is false while the train runs and if
// too few packets arrived. If they did not arrive evenly, the span includes the widest gap
// twice, because as much time may have passed before the first packet.
func (tr *train) takeResult() (shown pace.Train, ok bool) {
	if tr.running() || tr.arrived < minTrain {
		return shown, false
	}
	at := tr.arrivals[:tr.arrived]
	slices.Sort(at)
	shown = pace.Train{
		Bytes: tr.arrivedBytes,
		Span:  at[len(at)-1] - at[0],
		Trip:  tr.minOffset + at[0],
		Whole: tr.arrived == trainPackets,
	}
	if gap := widestGap(at); gap*time.Duration(len(at)-1) > unevenTrain*shown.Span {
		shown.Span += gap
	} else {
		shown.Even = true
	}
	if tr.thin {
		// A thin train does not show how long bursts may be. It is over so soon that it
		// does not show either how many of the queued packets belonged to trains.
		shown.Whole = false
		shown.Trip = 0
	}
	*tr = train{final: true, thin: tr.thin, first: tr.first, result: shown}
	return shown, true
}

// late adds packet n, whose record is r and which was declared lost before it arrived. The
// path carried it among the others and delayed it elsewhere. If every other packet is late,
// the packets that arrive in time show half of the rate. ok is false if there is no
// measurement to add to.
func (tr *train) addLate(r *record, n uint64) (shown pace.Train, ok bool) {
	if tr.result.Bytes == 0 || n < tr.first {
		return shown, false
	}
	tr.result.Bytes += int(r.size)
	return tr.result, true
}

// widest returns the widest gap between two arrivals. With jitter or a link layer that
// batches, packets arrive in a few clumps, which show no rate. After a bottleneck they
// arrive evenly.
func widestGap(at []time.Duration) (widest time.Duration) {
	for i := 1; i < len(at); i++ {
		widest = max(widest, at[i]-at[i-1])
	}
	return widest
}
