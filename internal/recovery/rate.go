package recovery

import (
	"math"
	"time"
)

// rateRounds is how many round trips a rate stays the maximum.
const rateRounds = 10

// Mark is the state of the delivery count when a packet left (draft-cheng-iccrg-delivery-rate-estimation). The owner keeps
// it beside the packet and hands it back when its fate is known.
type Mark struct {
	delivered   int64
	deliveredAt time.Duration
	firstSent   time.Duration
	limited     bool // by the application: it had nothing more
	counted     bool // as delivered, though lost
}

// rate estimates what the path delivers: the greatest rate that acks have shown in the last rounds.
type rate struct {
	delivered   int64 // bytes, with those lost while no queue stood
	deliveredAt time.Duration
	firstSent   time.Duration
	limitedTill int64 // delivered count until which samples are limited by the application

	roundEnd int64 // the round ends when a packet that left at this count is acked
	round    int
	best     [rateRounds]float64 // the maximum of each of the last rounds, in bytes a second
	value    float64             // the maximum of them, 0 when nothing was measured
}

func (r *rate) mark(now time.Duration, inFlight int) Mark {
	if inFlight == 0 {
		r.firstSent, r.deliveredAt = now, now
	}
	return Mark{delivered: r.delivered, deliveredAt: r.deliveredAt, firstSent: r.firstSent, limited: r.delivered < r.limitedTill}
}

// count notes that the path took a packet, once.
func (r *rate) count(m *Mark, size int) {
	if !m.counted {
		m.counted = true
		r.delivered += int64(size)
	}
}

// roundOver reports whether a round ends with the ack of the packet of m.
func (r *rate) roundOver(m *Mark) bool {
	if m.delivered < r.roundEnd {
		return false
	}
	r.roundEnd = r.delivered
	return true
}

// age lets rates expire.
func (r *rate) age() {
	r.round++
	r.best[r.round%rateRounds] = 0
	r.value = 0
	for _, v := range r.best {
		r.value = max(r.value, v)
	}
}

// sample takes the rate that a packet sent at a time has seen. One over less than shortest says nothing, for acks came in
// a bunch; one that the application limited may only raise.
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

// Bytes is what comes at a rate in d, at most what fits an int of 32 bits.
func Bytes(rate float64, d time.Duration) int {
	return int(min(rate*d.Seconds(), math.MaxInt32))
}
