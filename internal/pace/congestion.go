package pace

import (
	"math"
	"time"
)

const (
	// prior is the number of packets, all acked, with which the baseline begins, so that the first loss does not count as usual.
	prior = 64
	// tolerance is how many times the baseline's share may be lost in deep queues before it counts; leastTolerance is added, for a
	// lossless path: a packet in a thousand.
	tolerance, leastTolerance = 1.5, 0.001
	// jitterTolerance and jitterAlarm replace leastTolerance and alarmLeast over a faint queue and in jitter, where every lost packet seems to
	// have met a deep queue. A short queue that others fill looks like jitter, too, but loses far more.
	jitterTolerance, jitterAlarm = 0.005, 3
	// alarmLeast is the excess of lost packets that is congestion on a lossless path, half a packet. The alarm grows by alarmPerLoss times the
	// baseline, by alarmMost at most. If it did not, 10 % of random loss would count as congestion.
	alarmLeast, alarmPerLoss, alarmMost = 0.5, 1200, 12
	// slightSteps is how deep a slight queue is, in steps: nearly a tenth of a round trip.
	slightSteps = 6
	// forgets is how long without a packet in a queue with room it takes to forget half of the baseline: with a baseline that never expired the
	// controller might crowd out others for ever.
	forgets = time.Second
)

// congestion tells losses of a full queue from random ones, which do not depend on the queue: a lost packet is judged by the queue
// that its neighbours in the order of sending have met. The share that is lost in queues that had room is the baseline: what this path loses at
// random. Losses in high queues beyond that add up in an excess (CUSUM); when it reaches the alarm, there is congestion. So a few losses are
// enough on a clean path, and many are needed on a lossy one.
type congestion struct {
	deepest    deepest
	neighbours neighbours
	jittery    bool // the packet that arrived last came in jitter, so a deep queue may be none

	baseline share
	roomSeen instant // when a packet last met a queue that had room

	batch  struct{ room, high, between tally } // since the last verdict
	excess float64                             // packets lost in high queues beyond the baseline
}

// acked notes a packet that arrived, with the delay that it met. Jitter is not a queue. Counted as one, 100 ms of it leave almost no packet that met
// a queue with room, so random loss is never learnt: every second transfer on UE's profile Bad took its 5 % for a competitor's
// (stream.TestSealedOnABadPath).
func (c *congestion) acked(t, sent instant, delay, jitter time.Duration, s sight) {
	c.jittery = jitter > 0
	queue := max(0, delay-jitter)
	met := c.neighbours.add(sent, queue, s.step)
	c.deepest.note(t, queue)
	c.of(met, s).acked++
}

// lost notes a lost packet, and reports whether the queue that it met had room.
func (c *congestion) lost(sent instant, s sight) (room bool) {
	queue := c.neighbours.met(sent)
	c.of(queue, s).lost++
	return c.deepest.isLow(queue, s) || !c.deepest.isHigh(queue, s)
}

// of returns the tally for packets that have met a queue. One that is neither low nor high had room where the deepest is slight. In jitter of some
// milliseconds next to nothing meets a low queue, and while only that was learnt from, one in four transfers with 5 % of loss took thirty times the
// ideal. Where sixteen keep a queue of a quarter of the round trip full, some of its losses meet what is between.
func (c *congestion) of(queue time.Duration, s sight) *tally {
	switch high := c.deepest.isHigh(queue, s); {
	case c.deepest.isLow(queue, s), !high && c.deepest.queue < slightSteps*s.step:
		return &c.batch.room
	case high:
		return &c.batch.high
	}
	return &c.batch.between
}

// verdict closes a batch and reports congestion. If others fill the queue, every loss counts. learn says that losses in queues with room are
// random, and so belong to the baseline: those of a start, and of a flood, are not.
func (c *congestion) verdict(t instant, s sight, others, learn bool) bool {
	b := c.batch
	c.batch.room, c.batch.high, c.batch.between = tally{}, tally{}, tally{}
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
	least, alarm := leastTolerance, alarmLeast
	if (c.jittery || c.deepest.isFaint()) && !others {
		least, alarm = jitterTolerance, jitterAlarm
	}
	c.excess = max(c.excess+float64(judged.lost)-(tolerance*usual+least)*float64(judged.count()), 0)
	if judged.lost == 0 || c.excess < alarm+min(alarmPerLoss*usual, alarmMost) {
		return false
	}
	c.excess = 0
	return true
}

// learn adds packets that have met a queue with room to the baseline. What was forgotten in a gap longer than between looks stays forgotten: else
// a flow that kept a short queue full, and emptied it for a moment now and then, believed for ever what its start had lost.
func (c *congestion) learn(t instant, room tally) {
	if t-c.roomSeen > forgets/4 {
		c.baseline.value *= c.faded(t)
	}
	c.baseline.count = max(c.baseline.count, prior)
	c.baseline.note(room.lost, room.acked)
	c.roomSeen = t
}

// relearn raises the baseline to the losses of a competition that were random after all: nothing was learnt from them at the time.
func (c *congestion) relearn(t instant, left tally) {
	if left.share() > c.baseline.value {
		c.baseline = share{value: left.share(), count: prior}
	}
	c.roomSeen = t
}

// usual returns the share of random loss: the baseline, as far as it is not forgotten.
func (c *congestion) usual(t instant) float64 {
	return c.random() * c.faded(t)
}

// faded returns the part of the baseline that is not forgotten.
func (c *congestion) faded(t instant) float64 {
	return math.Exp2(-float64(t-c.roomSeen) / float64(forgets))
}

// random returns the share of random loss that was last known, however long ago.
func (c *congestion) random() float64 { return min(c.baseline.value, maxRandomLoss) }

// forget forgets the baseline and the excess.
func (c *congestion) forget() { c.baseline, c.excess = share{}, 0 }
