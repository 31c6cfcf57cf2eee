package pace_test

import (
	"time"

	"github.com/quivernet/quiver/internal/pace"
)

// reno is New Reno as quic-go has it: a window of 32 packets at first, slow start until
// a loss or until the round trip has grown by an eighth (its hybrid slow start), then a
// packet a round trip, and beta times the window after a loss, once a round trip. It
// paces at 5/4 of a window a round trip. A Controller measures the round trips for it.
type reno struct {
	*pace.Controller
	beta     float64
	window   float64 // bytes
	slow     bool
	cut      time.Time
	next     time.Time
	inFlight int
	limited  bool
}

func newReno(beta float64) *reno {
	return &reno{Controller: pace.New(pace.Config{Packet: charged}), beta: beta, window: 32 * charged, slow: true}
}

func (r *reno) Limited(int) { r.limited = true }

func (r *reno) Sent(now time.Time, size, inFlight int) pace.Sample {
	_, smoothed, _ := r.RTT()
	distance := time.Duration(float64(size) * float64(max(smoothed, ms)) / (1.25 * r.window))
	if late := now.Add(-2 * ms); r.next.Before(late) {
		r.next = late
	}
	r.next = r.next.Add(distance)
	r.limited = false
	return r.Controller.Sent(now, size, inFlight)
}

func (r *reno) Acked(now time.Time, s pace.Sample, size int, arrival time.Time) {
	r.Controller.Acked(now, s, size, arrival)
	switch {
	case r.limited:
	case r.slow:
		r.window += float64(size)
	default:
		r.window += float64(size) * charged / r.window
	}
}

func (r *reno) Lost(now time.Time, s pace.Sample, size int) {
	r.Controller.Lost(now, s, size)
	if _, smoothed, _ := r.RTT(); now.Sub(r.cut) > smoothed {
		r.cut, r.slow = now, false
		r.window = max(r.window*r.beta, 2*charged)
	}
}

func (r *reno) Feedback(now time.Time, inFlight int) {
	r.Controller.Feedback(now, inFlight)
	if latest, _, least := r.RTT(); latest > least+min(max(least/8, 4*ms), 16*ms) {
		r.slow = false
	}
}

func (r *reno) Next(now time.Time, size, inFlight int) (time.Time, bool) {
	if float64(inFlight+size) > r.window {
		return now.Add(r.PTO()), true
	}
	return r.next, true
}
