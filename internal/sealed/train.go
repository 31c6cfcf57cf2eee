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
	// unevenTrain is the widest gap between packets that arrived evenly, as a multiple of the mean gap: three packets lost in a row make
	// four.
	unevenTrain = 4
)

// train measures the path's rate by packets that leave back to back.
type train struct {
	left    int    // packets that must still be sent
	sent    bool   // a packet of the train was sent
	again   bool   // the train must not be repeated: this is the second one, or it was measured
	first   uint64 // number of its first packet that counts: those before are of a train that was repeated, or of another path
	open    int    // packets in flight
	arrived int
	bytes   int                         // bytes of the packets that arrived, not counting the first
	way     time.Duration               // the least round trip of one, less its arrival by the peer's clock
	at      [trainPackets]time.Duration // when each packet arrived
	shown   pace.Train                  // what the packets that came in time have shown; no bytes = nothing yet
}

// running reports whether payloads must wait for the train.
func (tr *train) running() bool { return tr.left > 0 || tr.open > 0 }

// repeat sends the train once more, from the packet number next on, if none of it counts: the peer did not listen yet, the packets were too large,
// or the path has changed.
func (tr *train) repeat(next uint64) {
	if tr.sent && !tr.again && tr.arrived == 0 && !tr.running() {
		*tr = train{left: trainPackets, again: true, first: next}
	}
}

// moved forgets what the train has shown of the path before: from now on packets from the number next on count. If a part of it has still to
// leave, all of it leaves over the new path: what is left may be too few packets to measure that.
func (tr *train) moved(next uint64) {
	tr.first, tr.arrived, tr.bytes, tr.shown = next, 0, 0, pace.Train{}
	if tr.left > 0 {
		tr.left = trainPackets
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
	*tr = train{again: true, first: tr.first, shown: shown}
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
