package scenes

import "time"

// reno is New Reno as quic-go v0.65 has it: 32 packets at first, slow start until a loss or until the round trip has grown
// by an eighth, then a packet a round trip, 0.7 of the window after a loss, once a round trip.
type reno struct {
	cwnd  float64
	slow  bool
	cut   time.Duration // losses of packets that left before it are of the same event
	least time.Duration
}

func newReno() *reno { return &reno{cwnd: 32, slow: true, cut: -1} }

func (r *reno) acked(_, _, rtt time.Duration, _ float64, _ time.Duration, inFlight int, limited bool) {
	if r.least == 0 || rtt < r.least {
		r.least = rtt
	}
	if rtt > r.least+min(max(r.least/8, 4*time.Millisecond), 16*time.Millisecond) {
		r.slow = false
	}
	switch {
	case limited || float64(inFlight) < r.cwnd-4:
	case r.slow:
		r.cwnd++
	default:
		r.cwnd += 1 / r.cwnd
	}
}

func (r *reno) lost(now, sent time.Duration, _ int) {
	if sent > r.cut {
		r.cut, r.slow = now, false
		r.cwnd = max(r.cwnd*0.7, 2)
	}
}

func (r *reno) timeout(time.Duration)           { r.cwnd = 2 }
func (r *reno) window() float64                 { return r.cwnd }
func (r *reno) pace(srtt time.Duration) float64 { return 1.25 * r.cwnd / srtt.Seconds() }
