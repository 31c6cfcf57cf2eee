package recovery

import (
	"math"
	"time"
)

const (
	// rateRounds is the number of rounds for which a sample counts. It's the length of the
	// bandwidth filter in BBR version 1.
	rateRounds = 10

	// The bytes that arrive in a round trip are a trickle if they are less than the part trickle
	// of what the path holds, or less than minTrickle. The latter is less than minPackets packets,
	// which may always be in flight.
	trickle    = 1. / 16
	minTrickle = 2 << 10
)

// A Mark is what must be remembered of a packet in order to measure the rate when it is acked:
// P.delivered, P.delivered_time, P.first_sent_time and P.is_app_limited of
// draft-cheng-iccrg-delivery-rate-estimation. The owner keeps it with the packet, and passes it
// back when the packet is acked or lost.
type Mark struct {
	delivered   int64
	deliveredAt time.Duration
	firstSent   time.Duration
	limited     bool // the application had nothing more to send
	counted     bool // the packet is included in rate.delivered
	drained     bool // sent during a drain, with no more in flight than the drain allows
}

// A rate estimates the path's delivery rate as the highest that acks have shown in the last
// rateRounds rounds.
type rate struct {
	delivered    int64         // bytes acked, or lost while no queue stood
	deliveredAt  time.Duration // when a packet was last acked
	firstSent    time.Duration // when the packet of the latest sample was sent
	limitedUntil int64         // packets sent at smaller values of delivered are limited by the application

	roundEnd int64 // a round ends when a packet sent at this value of delivered is acked
	round    int
	best     [rateRounds]float64 // highest rate in each of the last rounds, in bytes per second
	value    float64             // the highest in best; 0 if none was measured
}

// mark returns the mark of a packet that is being sent.
func (r *rate) mark(now time.Duration, inFlight int) Mark {
	if inFlight == 0 {
		r.restart(now)
	}
	return Mark{
		delivered:   r.delivered,
		deliveredAt: r.deliveredAt,
		firstSent:   r.firstSent,
		limited:     r.delivered < r.limitedUntil,
	}
}

// restart is called when the path has been idle or dark, so that the time before now doesn't count.
func (r *rate) restart(now time.Duration) {
	r.firstSent = now
	r.deliveredAt = now
}

// limited is called when the application has nothing more to send.
func (r *rate) limited(inFlight int) { r.limitedUntil = r.delivered + int64(max(inFlight, 1)) }

// count adds a packet, which the path has carried, to delivered, unless it was added before.
func (r *rate) count(m *Mark, size int) {
	if !m.counted {
		m.counted = true
		r.delivered += int64(size)
	}
}

// endRound ends the round if the packet with this mark was sent after the round began, and reports
// whether it was.
func (r *rate) endRound(m *Mark) (ended bool) {
	if m.delivered < r.roundEnd {
		return false
	}
	r.roundEnd = r.delivered
	return true
}

// age begins a round and drops the rate of the oldest one.
func (r *rate) age() {
	r.round++
	r.best[r.round%rateRounds] = 0
	r.value = 0
	for _, v := range r.best {
		r.value = max(r.value, v)
	}
}

// renew drops the rates of all rounds but the current one, unless that one has no rate yet.
func (r *rate) renew() {
	if v := r.best[r.round%rateRounds]; v > 0 {
		r.best = [rateRounds]float64{}
		r.best[r.round%rateRounds] = v
		r.value = v
	}
}

// sample adds the rate at which bytes were delivered while the packet with this mark was in
// flight. A sample that took less than shortest doesn't count, because its acks all arrived at
// once. One that was limited by the application can only raise the rate.
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

// trickles reports whether only a trickle has arrived since the packet with this mark was sent. If
// so, any queue that the packet met belongs to others.
func (r *rate) trickles(m *Mark, minRTT time.Duration) bool {
	return float64(r.delivered-m.delivered) < max(r.value*minRTT.Seconds()*trickle, minTrickle)
}

// Bytes returns the number of bytes that are sent at a rate within d, up to math.MaxInt32.
func Bytes(rate float64, d time.Duration) int {
	return int(min(rate*d.Seconds(), math.MaxInt32))
}
