package recovery

import (
	"math"
	"time"
)

// rateRounds is how many rounds a sample counts towards the maximum.
const rateRounds = 10

// A Mark holds a packet's P.delivered, P.delivered_time, P.first_sent_time and
// P.is_app_limited (draft-cheng-iccrg-delivery-rate-estimation). The owner keeps it with
// the packet and passes it back when the packet is acked or lost.
type Mark struct {
	delivered   int64
	deliveredAt time.Duration
	firstSent   time.Duration
	limited     bool // the application had nothing more to send
	counted     bool // the packet is included in rate.delivered
	drained     bool // sent during a drain, with no more in flight than the drain allows
}

// rate estimates the delivery rate of the path: the maximum rate that acks showed in the
// last rounds.
type rate struct {
	delivered   int64         // bytes acked, or lost while no queue stood
	deliveredAt time.Duration // when a packet was last acked
	firstSent   time.Duration // when the packet of the last sample was sent
	limitedTill int64         // packets sent before delivered reaches this are limited by the application

	roundEnd int64 // the round ends when a packet sent at this value of delivered is acked
	round    int
	best     [rateRounds]float64 // the maximum of each of the last rounds, in bytes per second
	value    float64             // the maximum of best; 0 = no rate was measured
}

// mark returns the mark of a packet that is being sent.
func (r *rate) mark(now time.Duration, inFlight int) Mark {
	if inFlight == 0 {
		r.firstSent = now
		r.deliveredAt = now
	}
	return Mark{
		delivered:   r.delivered,
		deliveredAt: r.deliveredAt,
		firstSent:   r.firstSent,
		limited:     r.delivered < r.limitedTill,
	}
}

// count adds a packet that the path has carried to delivered. It counts each packet once.
func (r *rate) count(m *Mark, size int) {
	if !m.counted {
		m.counted = true
		r.delivered += int64(size)
	}
}

// roundOver reports whether the ack of the packet of m ends a round.
func (r *rate) roundOver(m *Mark) bool {
	if m.delivered < r.roundEnd {
		return false
	}
	r.roundEnd = r.delivered
	return true
}

// age begins a round and drops the oldest.
func (r *rate) age() {
	r.round++
	r.best[r.round%rateRounds] = 0
	r.value = 0
	for _, v := range r.best {
		r.value = max(r.value, v)
	}
}

// renew drops the rates of all rounds but the current one, if the current one has any.
func (r *rate) renew() {
	if v := r.best[r.round%rateRounds]; v > 0 {
		r.best = [rateRounds]float64{}
		r.best[r.round%rateRounds] = v
		r.value = v
	}
}

// sample adds the rate at which bytes were delivered while the packet of m was in flight. A
// sample over less than shortest does not count, because its acks arrived together. A
// sample limited by the application can only raise the rate.
func (r *rate) sample(now, sent time.Duration, m *Mark, shortest time.Duration, limited bool) {
	r.firstSent = max(r.firstSent, sent)
	interval := max(sent-m.firstSent, now-m.deliveredAt)
	if interval <= 0 || interval < shortest {
		return
	}
	v := float64(r.delivered-m.delivered) / interval.Seconds()
	if limited && v <= r.value {
		return
	}
	r.best[r.round%rateRounds] = max(r.best[r.round%rateRounds], v)
	r.value = max(r.value, v)
}

// Bytes returns the number of bytes sent in d at a rate, but at most the maximum of a
// 32-bit int.
func Bytes(rate float64, d time.Duration) int {
	return int(min(rate*d.Seconds(), math.MaxInt32))
}
