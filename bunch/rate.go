package bunch

import (
	"math"
	"time"
)

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
	bulkQueue     = 96 * 1404 // bytes that may queue: quic-go's receiver holds 128 datagrams and drops the newest
	bulkPause     = time.Second
	leastWindow   = 4 * 1404 // four packets
	unknownWindow = 1 << 30
)

// rate estimates what the path delivers and bounds bulk by it: in flight at most the path's window, and at most the rate
// times (minimum RTT + 20 ms), so that bulk keeps no standing queue in front of play. At the start, until the rate stops
// growing or a queue builds, twice the rate times the minimum RTT may be in flight. When the minimum RTT has expired, bulk drains the queue that it
// may have built and takes the least RTT of that time.
type rate struct {
	delivered   int64 // bytes, with those lost while no queue stood
	deliveredAt time.Duration
	firstSent   time.Duration
	limitedTill int64 // delivered count until which samples are limited by the application

	nextEnd int64 // the round ends when a packet sent in it is acked
	round   int
	best    [rateRounds]float64 // maximum of each of the last rounds, in bytes a second
	value   float64             // the maximum of them, 0 when nothing was measured

	path     int           // the path's window in bytes, 0 = not told
	lastBulk time.Duration // sent
	steady   bool
	flat     int // rounds since the plateau rose
	plateau  float64

	drainEnd time.Duration // 0 = not draining
	drainMin time.Duration // the least RTT while draining, 0 = none yet
}

func (r *rate) sent(now time.Duration, p *packet, inFlight int) {
	if inFlight == 0 {
		r.firstSent, r.deliveredAt = now, now
	}
	p.rate = sample{delivered: r.delivered, deliveredAt: r.deliveredAt, firstSent: r.firstSent, appLimited: r.delivered < r.limitedTill}
}

// bulk notes that bulk leaves. After a pause it starts anew: what was learnt from a few small messages, or long ago, must
// not hold it back.
func (r *rate) bulk(now time.Duration, t *rtt) {
	if now-r.lastBulk > max(bulkPause, 4*t.current()) {
		r.steady, r.flat, r.plateau = false, 0, 0
	}
	r.lastBulk = now
}

// acked counts p as delivered.
func (r *rate) acked(now time.Duration, p *packet) {
	if !p.counted {
		r.delivered += int64(p.size)
	}
	r.deliveredAt = now
}

// lost counts p as delivered too while no queue stands: the path took it. Otherwise random loss, which says nothing about
// how much a path takes, would close the window for bulk ever further.
func (r *rate) lost(p *packet, t *rtt) {
	if t.known() && !queueStands(t) {
		r.delivered += int64(p.size)
		p.counted = true
	}
}

// sample takes the rate that p, the newest packet of an ack, has seen. A sample that the application limited says little,
// but not when a queue stands: then the path is the limit all the same.
func (r *rate) sample(now time.Duration, p *packet, t *rtt) {
	s := p.rate
	r.firstSent = max(r.firstSent, p.at)
	limited := s.appLimited && !queueStands(t)
	if s.delivered >= r.nextEnd {
		r.endRound(limited)
	}
	interval := max(p.at-s.firstSent, now-s.deliveredAt)
	if interval <= 0 || interval < t.min/2 {
		return // too short to say anything: acks came in a bunch
	}
	v := float64(r.delivered-s.delivered) / interval.Seconds()
	if limited && v <= r.value {
		return
	}
	r.best[r.round%rateRounds] = max(r.best[r.round%rateRounds], v)
	r.value = max(r.value, v)
}

// queueStands reports whether the latest RTT shows more of a queue than bulk may build.
func queueStands(t *rtt) bool { return t.path > t.min+bulkSlack+t.min/4 }

// endRound lets rates expire. Rounds that the application limited do not age them.
func (r *rate) endRound(limited bool) {
	r.nextEnd = r.delivered
	if limited {
		return
	}
	if !r.steady {
		if r.value > r.plateau*5/4 {
			r.plateau, r.flat = r.value, 0
		} else if r.flat++; r.flat >= flatRounds {
			r.steady = true
		}
	}
	r.round++
	r.best[r.round%rateRounds] = 0
	r.value = 0
	for _, v := range r.best {
		r.value = max(r.value, v)
	}
}

// limited notes that there was nothing more to send with inFlight bytes out.
func (r *rate) limited(inFlight int) { r.limitedTill = r.delivered + int64(max(inFlight, 1)) }

// observe ends the start when a queue of more than the slack stands, and drains when the minimum RTT has expired.
func (r *rate) observe(now time.Duration, t *rtt) {
	if queueStands(t) {
		r.steady = true
	}
	switch {
	case r.drainEnd == 0 && now-t.minAt > minRTTLifetime:
		r.drainEnd, r.drainMin = now+t.current()+t.current()/2, 0
	case r.drainEnd == 0:
	case r.drainMin == 0 || t.path < r.drainMin:
		r.drainMin = t.path
	}
	if r.drainEnd != 0 && now >= r.drainEnd && r.drainMin != 0 {
		t.min, t.minAt = r.drainMin, now
		r.drainEnd = 0
	}
}

// window is how many bytes bulk may have in flight.
func (r *rate) window(t *rtt) int {
	path := r.path
	if path == 0 {
		path = unknownWindow
	}
	switch {
	case r.value == 0:
		return path
	case r.drainEnd != 0:
		return max(leastWindow, min(path, bytesIn(r.value, t.min*3/4)))
	case !r.steady:
		return max(leastWindow, min(path, 2*bytesIn(r.value, t.min)+bulkQueue))
	}
	return max(leastWindow, min(path, bytesIn(r.value, t.min+bulkSlack), bytesIn(r.value, t.min)+bulkQueue))
}

// bytesIn is what comes at a rate in d, at most what fits into an int of 32 bits.
func bytesIn(rate float64, d time.Duration) int {
	return int(min(rate*d.Seconds(), math.MaxInt32))
}
