package pace

import (
	"math"
	"time"
)

const (
	// priorPackets is how many packets the baseline pretends to have seen arrive. Without them,
	// the first loss would count as usual.
	priorPackets = 64

	// Losses in deep queues may exceed the baseline by the factor tolerance before they count.
	// minTolerance, one packet in a thousand, is added for lossless paths.
	tolerance, minTolerance = 1.5, 0.001

	// minAlarm is the excess, half a packet, that means congestion on a lossless path. It rises
	// by alarmPerLoss times the baseline, but at most by maxAlarmRise. Otherwise random loss of
	// 10 % would be taken for congestion.
	minAlarm, alarmPerLoss, maxAlarmRise = 0.5, 1200, 12

	// jitterTolerance and jitterAlarm replace minTolerance and minAlarm over a faint queue and
	// in jitter, where every lost packet seems to have met a deep queue. (A short queue that
	// others fill also looks like jitter, but loses far more.)
	jitterTolerance, jitterAlarm = 0.005, 3

	// slightSteps is how deep a slight queue is at most, in steps. That's nearly a tenth of a
	// round trip.
	slightSteps = 6

	// baselineHalfLife is how quickly we forget half of the baseline while no packet meets a
	// queue with room. If it never expired, we might crowd out others forever.
	baselineHalfLife = time.Second
)

// A congestion detector tells the losses of a full queue from random ones, which happen whatever
// the queue is like.
//
// We can't know what queue a lost packet met, so we go by its neighbours in sending order. The
// share lost in queues with room is the baseline, the random loss of this path. Losses in high
// queues are added up as far as they exceed the baseline (a CUSUM test), and there is congestion
// when that excess reaches the alarm. This takes a few losses on a clean path and many on a lossy
// one.
type congestion struct {
	deepest    deepest
	neighbours neighbours
	jittery    bool // the newest arrival met jitter, so a deep queue may not be one

	baseline share
	roomSeen instant // when a packet last met a queue with room

	batch  struct{ room, high, between tally } // since the last batch ended, by the queue they met
	excess float64                             // packets lost in high queues beyond the baseline
}

// acked records a packet that arrived, with the delay that it met.
func (c *congestion) acked(t, sent instant, delay, jitter time.Duration, s sight) {
	c.jittery = jitter > 0

	// Jitter must not count as queue. When it did, 100 ms of it left hardly a packet that met a
	// queue with room, so random loss was never learned, and every second transfer on Unreal's
	// profile Bad took its 5 % for a competitor's (stream.TestSealedOnABadPath).
	queue := max(0, delay-jitter)
	met := c.neighbours.add(sent, queue, s.step)
	c.deepest.note(t, queue)
	c.of(met, s).acked++
}

// lost records a lost packet, and reports whether the queue that it met had room.
func (c *congestion) lost(sent instant, s sight) (room bool) {
	queue := c.neighbours.met(sent)
	c.of(queue, s).lost++
	return c.deepest.isLow(queue, s) || !c.deepest.isHigh(queue, s)
}

// of returns the tally for packets that met the given queue.
func (c *congestion) of(queue time.Duration, s sight) *tally {
	switch high := c.deepest.isHigh(queue, s); {
	case c.deepest.isLow(queue, s):
		return &c.batch.room
	case !high && c.deepest.queue < slightSteps*s.step:
		// In jitter of a few milliseconds, hardly any packet meets a low queue. If we learned
		// from low queues only, one in four transfers with 5 % loss would take thirty times as
		// long as it should.
		return &c.batch.room
	case high:
		return &c.batch.high
	}
	// Where sixteen controllers keep a queue of a quarter of the round trip full, some of its
	// losses end up here.
	return &c.batch.between
}

// endBatch ends a batch, and reports whether there is congestion.
//
// If others fill the queue, every loss counts. If learn is set, losses in queues with room are
// random and go into the baseline. It isn't set for the losses of a start or a flood.
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
		// This gap is longer than one between looks. Make what we forgot in it permanent, or a
		// flow that keeps a short queue full and empties it for a moment now and then would
		// believe in the losses of its start forever.
		c.baseline.value *= c.faded(t)
	}
	c.baseline.count = max(c.baseline.count, priorPackets)
	c.baseline.note(room.lost, room.acked)
	c.roomSeen = t
}

// relearn raises the baseline to the losses of a competition, after those turned out to be random.
// We learned nothing from them at the time.
func (c *congestion) relearn(t instant, left tally) {
	if left.share() > c.baseline.value {
		c.baseline = share{value: left.share(), count: priorPackets}
	}
	c.roomSeen = t
}

// usual returns the usual share of random loss, which is as much of the baseline as we haven't
// forgotten.
func (c *congestion) usual(t instant) float64 {
	return c.random() * c.faded(t)
}

// faded returns how much of the baseline we haven't forgotten, from 0 to 1.
func (c *congestion) faded(t instant) float64 {
	return math.Exp2(-float64(t-c.roomSeen) / float64(baselineHalfLife))
}

// random returns the share of random loss that we last knew, however long ago.
func (c *congestion) random() float64 { return min(c.baseline.value, maxRandomLoss) }

// forget forgets the baseline and the excess.
func (c *congestion) forget() {
	c.baseline = share{}
	c.excess = 0
}
