package bunch

import "time"

// sample is the state of the delivery count when a packet left (draft-cheng-iccrg-delivery-rate-estimation).
type sample struct {
	delivered   int64
	deliveredAt time.Duration
	firstSent   time.Duration
	appLimited  bool
}

const (
	rateRounds    = 10 // round trips that a rate stays the maximum
	flatRounds    = 3  // rounds without growth of a quarter that end the start
	bulkSlack     = 20 * time.Millisecond
	leastWindow   = 4 * 1404 // four packets
	unknownWindow = 1 << 30
)

// rate estimates what the path delivers and bounds bulk by it: in flight at most the path's window, and at most the rate
// times (minimum RTT + 20 ms), so that bulk keeps no standing queue in front of play. At the start, until the rate stops
// growing or a queue builds, only the path's window counts.
type rate struct {
	delivered   int64
	deliveredAt time.Duration
	firstSent   time.Duration
	limitedTill int64 // delivered count until which samples are limited by the application

	round   int // ends when a packet sent in it is acked
	nextEnd int64
	best    [rateRounds]int // maximum of each of the last rounds, in bytes a second

	steady   bool
	flat     int
	plateau  int
	path     int // the path's window in bytes, 0 = not told
	draining time.Duration
}

func (r *rate) sent(now time.Duration, p *packet, inFlight int) {
	if inFlight == 0 {
		r.firstSent, r.deliveredAt = now, now
	}
	p.rate = sample{delivered: r.delivered, deliveredAt: r.deliveredAt, firstSent: r.firstSent, appLimited: r.delivered < r.limitedTill}
}

// acked counts p as delivered.
func (r *rate) acked(now time.Duration, p *packet) {
	r.delivered += int64(p.size)
	r.deliveredAt = now
}

// sample takes the rate that p, the newest packet of an ack, has seen.
func (r *rate) sample(now time.Duration, p *packet) {
	s := p.rate
	r.firstSent = p.at
	if s.delivered >= r.nextEnd {
		r.endRound()
	}
	interval := max(p.at-s.firstSent, now-s.deliveredAt)
	if interval <= 0 {
		return
	}
	v := int(float64(r.delivered-s.delivered) / interval.Seconds())
	if !s.appLimited || v > r.value() {
		slot := &r.best[r.round%rateRounds]
		*slot = max(*slot, v)
	}
}

func (r *rate) endRound() {
	r.nextEnd = r.delivered
	if !r.steady && r.delivered > r.limitedTill {
		if v := r.value(); v > r.plateau+r.plateau/4 {
			r.plateau, r.flat = v, 0
		} else if r.flat++; r.flat >= flatRounds {
			r.steady = true
		}
	}
	if r.delivered < r.limitedTill {
		return // idle rounds do not age the estimate
	}
	r.round++
	r.best[r.round%rateRounds] = 0
}

// value is the estimate in bytes a second, 0 when nothing was measured.
func (r *rate) value() int {
	v := 0
	for _, b := range r.best {
		v = max(v, b)
	}
	return v
}

// limited notes that there was nothing more to send with inFlight bytes out.
func (r *rate) limited(inFlight int) { r.limitedTill = r.delivered + int64(max(inFlight, 1)) }

// observe ends the start when a queue of more than the slack stands, and drains when the minimum RTT has expired.
func (r *rate) observe(now time.Duration, t *rtt) {
	if t.latest > t.min+bulkSlack+t.min/4 {
		r.steady = true
	}
	if r.draining == 0 && now-t.minAt > minRTTLifetime {
		r.draining = now + t.current() + t.current()/2
	}
	if r.draining != 0 && now >= r.draining {
		r.draining = 0
		t.min, t.minAt = t.latest, now
	}
}

// window is how many bytes bulk may have in flight.
func (r *rate) window(t *rtt) int {
	path := r.path
	if path == 0 {
		path = unknownWindow
	}
	v := r.value()
	if v == 0 {
		return path
	}
	if r.draining != 0 {
		return max(leastWindow, min(path, bytesIn(v, t.min*3/4)))
	}
	if !r.steady {
		return path
	}
	return max(leastWindow, min(path, bytesIn(v, t.min+bulkSlack)))
}

func bytesIn(rate int, d time.Duration) int { return int(float64(rate) * d.Seconds()) }
