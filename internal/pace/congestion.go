package pace

import (
	"math"
	"time"
)

const (
	// priorPackets is how many arrivals the baseline begins with. Without them, it would take the
	// very first loss for the usual share.
	priorPackets = 64

	// Losses in deep queues may exceed the baseline by the factor tolerance before they count.
	// minTolerance, one packet in a thousand, is added so that paths without random loss have a
	// tolerance too.
	tolerance, minTolerance = 1.5, 0.001

	// minAlarm is the excess, half a packet, that means congestion on a path without random loss.
	// It rises by alarmPerLoss times the baseline, up to maxAlarmRise, because otherwise random
	// loss of 10 % would be taken for congestion.
	minAlarm, alarmPerLoss, maxAlarmRise = 0.5, 1200, 12

	// jitterTolerance and jitterAlarm replace minTolerance and minAlarm when there is jitter or the
	// queue is faint, because then every lost packet seems to have met a deep queue. (A short queue
	// that others fill also looks like jitter, but drops far more packets.)
	jitterTolerance, jitterAlarm = 0.005, 3

	// slightSteps is the maximum depth of a slight queue in steps. It's nearly a tenth of a round
	// trip.
	slightSteps = 6

	// baselineHalfLife is how long it takes to forget half of the baseline while no packet meets a
	// queue with room. If the baseline never expired, we might crowd out others forever.
	baselineHalfLife = time.Second
)

// A congestion detector distinguishes the losses of a full queue from random ones, which occur
// however long the queue is.
//
// We can't know what queue a lost packet met, so we go by the packets sent just before and after
// it. The share lost in queues with room is the baseline, which is the random loss of the path. In
// high queues we add up the losses that exceed the baseline (a CUSUM test), and when this excess
// reaches the alarm, there is congestion. That takes a few losses on a clean path and many on a
// lossy one.
type congestion struct {
	deepest    deepest
	neighbours neighbours
	jittery    bool // the newest arrival met jitter, so a deep queue may be jitter

	baseline share
	roomSeen instant // when a packet last met a queue with room

	batch  struct{ room, high, between tally } // fates in this batch, by the queue met
	excess float64                             // packets lost in high queues beyond the baseline
}

// acked records a packet that arrived with the given delay. It returns the queue that the packet
// met, and whether that wasn't high.
func (c *congestion) acked(t, sent instant, delay, jitter time.Duration, s sight) (met time.Duration, notHigh bool) {
	c.jittery = jitter > 0

	// Jitter must not count as queue. If it did, hardly any packet in 100 ms of jitter would meet a
	// queue with room, so we would never learn the path's random loss. Every second transfer on a
	// path like Unreal's network emulation profile Bad would then blame the loss of 5 % on a
	// competitor (stream.TestSealedOnABadPath).
	queue := max(0, delay-jitter)
	met = c.neighbours.add(sent, queue, s.step)
	c.deepest.note(t, queue)
	fates := c.of(met, s)
	fates.acked++
	return met, fates != &c.batch.high
}

// lost records a lost packet. It returns the queue that the packet met, and whether that wasn't
// high.
func (c *congestion) lost(sent instant, s sight) (met time.Duration, notHigh bool) {
	met = c.neighbours.met(sent)
	fates := c.of(met, s)
	fates.lost++
	return met, fates != &c.batch.high
}

// of returns the tally for packets that met the given queue.
func (c *congestion) of(queue time.Duration, s sight) *tally {
	high := c.deepest.isHigh(queue, s)
	switch {
	case c.deepest.isLow(queue, s):
		return &c.batch.room
	case !high && c.deepest.queue < slightSteps*s.step:
		// In jitter of a few milliseconds, hardly any packet meets a low queue. If we learned only
		// from low queues, one in four transfers with 5 % loss would take thirty times as long as
		// it should.
		return &c.batch.room
	case high:
		return &c.batch.high
	}
	// Neither low nor high. Some losses end up here when, for example, sixteen controllers keep a
	// queue of a quarter of the round trip full.
	return &c.batch.between
}

// endBatch ends a batch, and reports whether there is congestion.
//
// If others is set, somebody else fills the queue, so every loss counts. If learn is set, losses in
// queues with room are random and go into the baseline. The caller doesn't set it for the losses of
// a start or a flood.
func (c *congestion) endBatch(t instant, s sight, others, learn bool) (congested bool) {
	b := c.batch
	c.batch.room = tally{}
	c.batch.high = tally{}
	c.batch.between = tally{}
	if learn && !others && b.room.count() > 0 {
		c.learn(t, b.room)
	}
	judged := b.high
	switch {
	case others:
		judged.add(b.room)
		judged.add(b.between)
	case c.deepest.isShallow(s) && !s.stands:
		judged.lost = 0
	}
	usual := c.usual(t)
	margin, alarm := minTolerance, minAlarm
	if (c.jittery || c.deepest.isFaint()) && !others {
		margin, alarm = jitterTolerance, jitterAlarm
	}
	c.excess = max(c.excess+float64(judged.lost)-(tolerance*usual+margin)*float64(judged.count()), 0)
	if judged.lost == 0 || c.excess < alarm+min(alarmPerLoss*usual, maxAlarmRise) {
		return false
	}
	c.excess = 0
	return true
}

// learn adds packets that met a queue with room to the baseline.
func (c *congestion) learn(t instant, room tally) {
	if t-c.roomSeen > baselineHalfLife/4 {
		// This gap is longer than those between looks, so make permanent what we forgot during it.
		// Otherwise a flow that keeps a short queue full, and empties it only for a moment now and
		// then, would take the losses of its start for random ones forever.
		c.baseline.value *= c.faded(t)
	}
	c.baseline.count = max(c.baseline.count, priorPackets)
	c.baseline.note(room.lost, room.acked)
	c.roomSeen = t
}

// relearn raises the baseline to the share lost in a competition, after these losses turned out to
// be random. endBatch doesn't learn from losses while we compete.
func (c *congestion) relearn(t instant, random tally) {
	if random.share() > c.baseline.value {
		c.baseline = share{value: random.share(), count: priorPackets}
	}
	c.roomSeen = t
}

// usual returns the usual share of random loss, which is the part of the baseline that we haven't
// forgotten.
func (c *congestion) usual(t instant) float64 {
	return c.random() * c.faded(t)
}

// faded returns the part of the baseline that we haven't forgotten, from 0 to 1.
func (c *congestion) faded(t instant) float64 {
	return math.Exp2(-float64(t-c.roomSeen) / float64(baselineHalfLife))
}

// random returns the share of random loss that we last measured, however long ago.
func (c *congestion) random() float64 { return min(c.baseline.value, maxRandomLoss) }

// forget clears the baseline and the excess.
func (c *congestion) forget() {
	c.baseline = share{}
	c.excess = 0
}
