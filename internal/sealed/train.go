package sealed

import (
	"slices"
	"time"

	"github.com/quivernet/quiver/internal/pace"
)

const (
	// trainPackets is how many packets leave back to back when a carrier opens. The bottleneck spreads them out, so their spacing at
	// the receiver shows its rate.
	trainPackets = 16
	// enoughTrain is the number of packets that must arrive for a measurement.
	enoughTrain = trainPackets / 2
	// unevenTrain is the widest gap between packets that arrived evenly, as a multiple of the mean gap: two packets lost in a row make three. With
	// four one thin train in three hundred that jitter had spread seemed even, and slow, and its transfer took 10 s and more.
	unevenTrain = 3

	// nearRTT is the longest round trip of a path that is surely not too slow for full packets: QUIC has measured it with one and a half such
	// of its handshake at least, so the path carries 230 kbit/s. Another may be as slow as it may be far, and gets a thin train first; so does
	// that of a later carrier, before which QUIC has measured small packets.
	nearRTT = 64 * time.Millisecond
	// thinPacket is the size in bytes of a thin train's packets: play right after the join waits behind them.
	thinPacket = 100
	// thinSpan is the longest time in which a thin train arrives evenly and a full one follows, which takes 24 ms then: so little time may be
	// that of interrupts. One that came unevenly was spread by jitter, and not by a slow path, if it took at most thinJitter.
	thinSpan, thinJitter = 2 * time.Millisecond, 50 * time.Millisecond
	// blindSpan is the longest time in which a train arrives and shows nothing.
	blindSpan = 100 * time.Microsecond
)

// train measures the path's rate by packets that leave back to back.
type train struct {
	left    int    // packets that must still be sent
	sent    bool   // a packet of the train was sent
	again   bool   // the train must not be repeated: this is the second one, or it was measured
	thin    bool   // its packets are small
	known   bool   // a thin one has shown some rate before, so payloads need not wait for this one
	first   uint64 // number of its first packet that counts: those before are of a train that was repeated, or of another path
	open    int    // packets in flight
	arrived int
	bytes   int                         // bytes of the packets that arrived, not counting the first
	way     time.Duration               // the least round trip of one, less its arrival by the peer's clock
	at      [trainPackets]time.Duration // when each packet arrived
	shown   pace.Train                  // what the packets that came in time have shown; no bytes = nothing yet
}

// running reports whether fates of its packets are not known.
func (tr *train) running() bool { return tr.left > 0 || tr.open > 0 }

// holds reports whether payloads must wait for the train.
func (tr *train) holds() bool { return tr.running() && !tr.known }

// repeat sends the train once more, from the packet number next on, if none of it counts: the peer did not listen yet, the packets were too large,
// or the path has changed.
func (tr *train) repeat(next uint64) {
	if tr.sent && !tr.again && tr.arrived == 0 && !tr.running() {
		*tr = train{left: trainPackets, again: true, thin: tr.thin, first: next}
	}
}

// fill sends the train once more, with full packets from the number next on, when a thin one has shown that the path is not slow, but not well
// how fast it is.
func (tr *train) fill(next uint64) {
	most := thinJitter
	if tr.shown.Even {
		most = thinSpan
	}
	if tr.thin && tr.shown.Span <= most {
		*tr = train{left: trainPackets, again: true, first: next, known: tr.shown.Span > blindSpan}
	}
}

// moved forgets what the train has shown of the path before: from now on packets from the number next on count. If a part of it has still to
// leave, all of it leaves over the new path: what is left may be too few packets to measure that.
func (tr *train) moved(next uint64) {
	tr.first, tr.arrived, tr.bytes, tr.shown = next, 0, 0, pace.Train{}
	if tr.left > 0 {
		tr.left, tr.known = trainPackets, false
	}
}

// lose notes that a packet is lost.
func (tr *train) lose() { tr.open-- }

// ack notes that packet n, of r, has arrived, at the time at by the peer's clock (0 = unknown), and that its round trip was rtt.
func (tr *train) ack(r *record, n uint64, at, rtt time.Duration) {
	tr.open--
	if at == 0 || n < tr.first {
		return
	}
	if tr.arrived == 0 || rtt-at < tr.way {
		tr.way = rtt - at
	}
	if tr.arrived > 0 {
		tr.bytes += int(r.size)
	}
	tr.at[tr.arrived] = at
	tr.arrived++
}

// measured returns what the train has shown, once. ok is false while it runs, and when too few packets arrived. When the packets did not
// come evenly the span includes the widest gap twice, because as much time may have passed before the first packet.
func (tr *train) measured() (shown pace.Train, ok bool) {
	if tr.running() || tr.arrived < enoughTrain {
		return shown, false
	}
	at := tr.at[:tr.arrived]
	slices.Sort(at)
	shown = pace.Train{Bytes: tr.bytes, Span: at[len(at)-1] - at[0], Trip: tr.way + at[0], Whole: tr.arrived == trainPackets}
	if widest := widest(at); widest*time.Duration(len(at)-1) > unevenTrain*shown.Span {
		shown.Span += widest
	} else {
		shown.Even = true
	}
	if tr.thin { // which shows neither how long bursts may be nor, being over so soon, how many of what was ahead were trains
		shown.Whole, shown.Trip = false, 0
	}
	*tr = train{again: true, thin: tr.thin, first: tr.first, shown: shown}
	return shown, true
}

// late adds packet n, of r, that counted as lost and has arrived: the path has carried it among the others, and held it up elsewhere. Where every
// other packet is late, those that come in time show half of the rate. ok is false while nothing was shown.
func (tr *train) late(r *record, n uint64) (shown pace.Train, ok bool) {
	if tr.shown.Bytes == 0 || n < tr.first {
		return shown, false
	}
	tr.shown.Bytes += int(r.size)
	return tr.shown, true
}

// widest returns the widest gap between two arrivals. With jitter, or a link layer that batches, packets arrive in a few clumps, which
// show no rate; behind a bottleneck they arrive evenly.
func widest(at []time.Duration) (widest time.Duration) {
	for i := 1; i < len(at); i++ {
		widest = max(widest, at[i]-at[i-1])
	}
	return widest
}
