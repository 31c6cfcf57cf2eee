package scenes

import "time"

const (
	renoBurst    = 3   // packets by which the window may be short of full and grows
	renoBeta     = 0.7 // of the window stays after a loss
	renoLeast    = 2   // packets
	startSamples = 8   // round trips at the beginning of a round tell whether a queue has grown
	startWindow  = 16  // packets, below which a start does not end for that
)

// reno is New Reno as quic-go v0.65 has it (internal/congestion): 32 packets at first, slow start until a loss or until round
// trips have grown, then a packet a round trip, 0.7 of the window after a loss, once a round trip. Losses that were none are
// undone. A probe timeout changes nothing.
type reno struct {
	cwnd  float64
	slow  bool
	cut   time.Duration // when the window was: losses of packets that left before it are of the same event
	last  time.Duration // when the latest packet left that arrived
	start hybridStart
	undo  renoUndo
}

// renoUndo is what stood before the latest cut.
type renoUndo struct {
	cwnd float64
	slow bool
	cut  time.Duration
	lost int // packets since, not known to be spurious; 0 = nothing to undo
}

func newReno() *reno { return &reno{cwnd: 32, slow: true, cut: -1, start: hybridStart{end: -1}} }

func (r *reno) acked(a ack) {
	if a.latest && r.start.grown(a) && r.cwnd >= startWindow {
		r.slow = false
	}
	r.last = max(r.last, a.sent)
	switch {
	case r.last <= r.cut || !r.used(float64(a.before)):
	case r.slow:
		r.cwnd++
	default:
		r.cwnd += 1 / r.cwnd
	}
}

// used tells whether so many packets in flight make use of the window.
func (r *reno) used(inFlight float64) bool {
	return r.slow && inFlight > r.cwnd/2 || inFlight >= r.cwnd-renoBurst
}

func (r *reno) lost(now, sent time.Duration, _ int) {
	if sent <= r.cut {
		if r.undo.lost > 0 && sent > r.undo.cut {
			r.undo.lost++
		}
		return
	}
	r.undo = renoUndo{r.cwnd, r.slow, r.cut, 1}
	r.cut, r.slow = now, false
	r.cwnd = max(r.cwnd*renoBeta, renoLeast)
}

func (r *reno) spurious(sent time.Duration) {
	u := &r.undo
	if u.lost == 0 || sent <= u.cut || sent > r.cut {
		return
	}
	if u.lost--; u.lost == 0 && r.cwnd <= u.cwnd {
		r.cwnd, r.slow, r.cut = u.cwnd, u.slow, u.cut
	}
}

func (r *reno) timeout(time.Duration) {}
func (r *reno) window() float64       { return r.cwnd }

func (r *reno) pace(srtt time.Duration) float64 {
	if r.slow {
		return 2 * r.cwnd / srtt.Seconds()
	}
	return 1.25 * r.cwnd / srtt.Seconds()
}

// hybridStart is quic-go's HybridSlowStart: a queue has grown when the least of the first round trips of a round is an eighth
// above the least of all.
type hybridStart struct {
	end     time.Duration // packets that leave after it are of the next round
	least   time.Duration // of all
	current time.Duration // of the first ones of this round
	samples int           // in it
	found   bool
}

// grown takes a round trip, one an ack.
func (h *hybridStart) grown(a ack) bool {
	if h.least == 0 || a.rtt < h.least {
		h.least = a.rtt
	}
	if a.sent > h.end {
		h.end, h.samples, h.current = a.now, 0, a.rtt
	}
	if h.samples++; h.samples <= startSamples {
		h.current = min(h.current, a.rtt)
	}
	over := min(max(h.least/8, 4*time.Millisecond), 16*time.Millisecond)
	h.found = h.found || h.samples == startSamples && h.current > h.least+over
	return h.found
}
