package sealed

import (
	"slices"
	"time"
)

const (
	// trainPackets leave at once when a carrier opens. The path spreads them out: their spacing at the receiver is the
	// bottleneck's rate.
	trainPackets = 16
	// enoughTrain is how many must arrive for that.
	enoughTrain = trainPackets / 2
	// minTrain is the least span that says anything: below are the receiver's interrupts, not the path.
	minTrain = 100 * time.Microsecond
	// unevenTrain times the mean is the widest distance of packets that came at even ones: three lost in a row.
	unevenTrain = 4
)

// train measures the path with packets sent back to back.
type train struct {
	left    int  // packets to be sent
	sent    bool // some were
	again   bool // it is the second, or may be no more
	open    int  // packets sent and undecided
	arrived int
	bytes   int                         // of those that arrived, but the first
	at      [trainPackets]time.Duration // arrivals
}

// running reports whether payloads are to wait for the train.
func (tr *train) running() bool { return tr.left > 0 || tr.open > 0 }

// repeat sends, once, a train again that vanished whole: it came before the peer listened, or its packets were too large.
func (tr *train) repeat() {
	if tr.sent && !tr.again && tr.arrived == 0 && !tr.running() {
		*tr = train{left: trainPackets, again: true}
	}
}

// decide takes the fate of one packet: its record and arrival by the peer's clock, or nil.
func (tr *train) decide(r *record, at time.Duration) {
	tr.open--
	if r == nil || at == 0 {
		return
	}
	if tr.arrived > 0 {
		tr.bytes += int(r.size)
	}
	tr.at[tr.arrived] = at
	tr.arrived++
}

// measured returns, once, what the train showed: nothing when the packets came too close together for the receiver's
// interrupts. Of those that did not come at even distances the widest one counts twice, for as long may have passed before
// the first.
func (tr *train) measured() (bytes int, span time.Duration, even, ok bool) {
	if tr.running() || tr.arrived < enoughTrain {
		return 0, 0, false, false
	}
	at := tr.at[:tr.arrived]
	slices.Sort(at)
	bytes, span = tr.bytes, at[len(at)-1]-at[0]
	ok = span >= minTrain
	if widest := widest(at); widest*time.Duration(len(at)-1) > unevenTrain*span {
		span += widest
	} else {
		even = true
	}
	*tr = train{again: true}
	return bytes, span, even, ok
}

// widest returns the widest distance of packets. Jitter, and a MAC that batches, have them come in few jumps, which are no
// rate; a bottleneck has them come evenly.
func widest(at []time.Duration) (widest time.Duration) {
	for i := 1; i < len(at); i++ {
		widest = max(widest, at[i]-at[i-1])
	}
	return widest
}
