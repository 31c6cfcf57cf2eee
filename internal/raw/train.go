package raw

import "time"

const (
	// trainPackets leave at once when a carrier opens. The path spreads them out: their spacing at the receiver is the
	// bottleneck's rate.
	trainPackets = 16
	// enoughTrain is how many must arrive for that.
	enoughTrain = trainPackets / 2
	// minTrain is the least span that says anything: below are the receiver's interrupts, not the path.
	minTrain = 100 * time.Microsecond
)

// train measures the path with packets sent back to back.
type train struct {
	left    int  // to be sent
	large   bool // what was sent is larger than every path takes
	open    int  // sent and undecided
	arrived int
	bytes   int // of those that arrived, but the first
	first   time.Duration
	last    time.Duration
}

// running reports whether payloads are to wait for the train.
func (tr *train) running() bool { return tr.left > 0 || tr.open > 0 }

// repeat sends a train of large packets that vanished whole once more; they are smaller now.
func (tr *train) repeat() {
	if tr.large && tr.arrived == 0 && !tr.running() {
		*tr = train{left: trainPackets}
	}
}

// decide takes the fate of one packet: its record and arrival by the peer's clock, or nil.
func (tr *train) decide(r *record, at time.Duration) {
	tr.open--
	if r == nil || at == 0 {
		return
	}
	if tr.arrived++; tr.arrived == 1 {
		tr.first, tr.last = at, at
		return
	}
	tr.bytes += int(r.size)
	tr.first, tr.last = min(tr.first, at), max(tr.last, at)
}

// measured returns, once, what the train showed.
func (tr *train) measured() (bytes int, span time.Duration, ok bool) {
	if tr.running() || tr.arrived < enoughTrain {
		return 0, 0, false
	}
	bytes, span = tr.bytes, max(tr.last-tr.first, minTrain)
	*tr = train{}
	return bytes, span, true
}
