package scenes

import "time"

const (
	renoBurst     = 3   // the window grows if no more than this many packets of it were free
	renoBeta      = 0.7 // part of the window that is kept after a loss
	renoMinWindow = 2   // minimum window in packets
	startSamples  = 8   // round trips at the start of a round that show whether a queue has grown
	startWindow   = 16  // packets; with a smaller window, a queue doesn't end slow start
)

// A reno is New Reno as in quic-go v0.65 (internal/congestion). The window starts at 32 packets.
// Slow start lasts until a packet is lost or round trips have grown. After that, the window grows
// by a packet per round trip, and a loss reduces it to renoBeta of its size, at most once per round
// trip. Spurious losses are undone, and probe timeouts have no effect.
type reno struct {
	cwnd  float64
	slow  bool
	cut   time.Duration // when the window was cut; answers the losses of earlier packets
	last  time.Duration // send time of the newest acknowledged packet
	start hybridStart
	undo  renoUndo
}

// A renoUndo is the state before the latest cut, which a spurious loss restores.
type renoUndo struct {
	cwnd float64
	slow bool
	cut  time.Duration
	lost int // losses since the cut that haven't proved spurious; 0 if there is nothing to undo
}

func newReno() *reno { return &reno{cwnd: 32, slow: true, cut: -1, start: hybridStart{end: -1}} }

func (r *reno) acked(a ack) {
	if a.latest && r.start.addTrip(a) && r.cwnd >= startWindow {
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

// used reports whether inFlight packets fill the window.
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
	r.cut = now
	r.slow = false
	r.cwnd = max(r.cwnd*renoBeta, renoMinWindow)
}

func (r *reno) spurious(sent time.Duration) {
	u := &r.undo
	if u.lost == 0 || sent <= u.cut || sent > r.cut {
		return
	}
	u.lost--
	if u.lost == 0 && r.cwnd <= u.cwnd {
		r.cwnd = u.cwnd
		r.slow = u.slow
		r.cut = u.cut
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

// A hybridStart is quic-go's HybridSlowStart. A queue has grown if the shortest of the first
// startSamples round trips in a round exceeds the shortest ever by an eighth.
type hybridStart struct {
	end     time.Duration // a packet sent after this belongs to the next round
	minRTT  time.Duration // the shortest round trip ever
	current time.Duration // the shortest of the first round trips in this round
	samples int           // round trips in current
	found   bool          // a queue has grown
}

// addTrip adds the round trip of an ack, and reports whether a queue has grown.
func (h *hybridStart) addTrip(a ack) (grown bool) {
	if h.minRTT == 0 || a.rtt < h.minRTT {
		h.minRTT = a.rtt
	}
	if a.sent > h.end {
		h.end = a.now
		h.samples = 0
		h.current = a.rtt
	}
	h.samples++
	if h.samples <= startSamples {
		h.current = min(h.current, a.rtt)
	}
	over := min(max(h.minRTT/8, 4*time.Millisecond), 16*time.Millisecond)
	h.found = h.found || h.samples == startSamples && h.current > h.minRTT+over
	return h.found
}
