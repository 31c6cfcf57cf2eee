package pace

import (
	"math"
	"time"
)

const (
	// priorLow is the number of packets, all acked, with which the baseline begins, so that the first loss does not count as usual.
	priorLow = 64
	// tolerance is how many times the baseline's share may be lost in deep queues before it counts; leastTolerance is added, for a
	// lossless path: a packet in a thousand.
	tolerance, leastTolerance = 1.5, 0.001
	// jitterTolerance and jitterAlarm replace leastTolerance and alarmLeast over a faint queue and in jitter, where every lost packet seems to
	// have met a deep queue. A short queue that others fill looks like jitter, too, but loses far more.
	jitterTolerance, jitterAlarm = 0.005, 3
	// alarmLeast is the excess of lost packets that is congestion on a lossless path, half a packet. The alarm grows by alarmPerLoss times the
	// baseline, by alarmMost at most. If it did not, 10 % of random loss would count as congestion.
	alarmLeast, alarmPerLoss, alarmMost = 0.5, 1200, 12
	// forgets is how long without a packet in a low queue it takes to forget half of the baseline: with a baseline that never expired the controller
	// might crowd out others for ever.
	forgets = time.Second
)

// congestion tells losses of a full queue from random ones, which do not depend on the queue: a lost packet is judged by the queue
// that its neighbours in the order of sending have met. The share that is lost in low queues is the baseline: what this path loses at
// random. Losses in high queues beyond that add up in an excess (CUSUM); when it reaches the alarm, there is congestion. So a few losses are
// enough on a clean path, and many are needed on a lossy one.
type congestion struct {
	deepest    deepest
	neighbours neighbours
	jittery    bool // the packet that arrived last came in jitter, so a deep queue may be none

	baseline share
	lowSeen  instant // when a packet last met a low queue

	batch  struct{ low, high, all tally } // since the last verdict
	excess float64                        // packets lost in high queues beyond the baseline
}

// acked notes a packet that arrived, with the delay that it met. A low queue counts only if the packet and the one before it left close together:
// over a longer gap they do not show what was between them. Jitter is not a queue. Counted as one, 100 ms of it leave almost no packet that met a
// low queue, so random loss is never learnt: every second transfer on UE's profile Bad took its 5 % for a competitor's
// (stream.TestSealedOnABadPath).
func (c *congestion) acked(t, sent instant, delay, jitter time.Duration, s sight) {
	c.jittery = jitter > 0
	queue := max(0, delay-jitter)
	met, gap := c.neighbours.add(sent, queue, s.step)
	c.deepest.note(t, queue)
	c.batch.all.acked++
	switch {
	case c.deepest.isLow(met, s) && (c.deepest.isShallow(s) || gap <= c.deepest.queue/4):
		c.batch.low.acked++
	case c.deepest.isHigh(met, s):
		c.batch.high.acked++
	}
}

// lost notes a lost packet, and reports whether the queue that it met had room.
func (c *congestion) lost(sent instant, s sight) (room bool) {
	c.batch.all.lost++
	queue, known := c.neighbours.met(sent, c.deepest.queue/2)
	empty := c.deepest.isLow(queue, s)
	room = empty || !c.deepest.isHigh(queue, s)
	switch {
	case empty && (known || c.deepest.isShallow(s)):
		c.batch.low.lost++
	case !room:
		c.batch.high.lost++
	}
	return room
}

// verdict closes a batch and reports congestion. If others fill the queue, every loss counts. learn says that losses in low queues are random,
// and so belong to the baseline: those of a start, and of a flood, are not.
func (c *congestion) verdict(t instant, s sight, others, learn bool) bool {
	b := c.batch
	c.batch.low, c.batch.high, c.batch.all = tally{}, tally{}, tally{}
	if learn && !others && b.low.count() > 0 {
		c.learn(t, b.low)
	}
	judged := b.high
	switch {
	case others:
		judged = b.all
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

// learn adds packets that have met a low queue to the baseline. What was forgotten in a gap longer than between looks stays forgotten: otherwise
// a flow that kept a short queue full, and emptied it for a moment now and then, believed for ever what its start had lost.
func (c *congestion) learn(t instant, low tally) {
	if t-c.lowSeen > forgets/4 {
		c.baseline.value *= c.faded(t)
	}
	c.baseline.count = max(c.baseline.count, priorLow)
	c.baseline.note(low.lost, low.acked)
	c.lowSeen = t
}

// relearn raises the baseline to the losses of a competition that were random after all: nothing was learnt from them at the time.
func (c *congestion) relearn(t instant, low tally) {
	if low.share() > c.baseline.value {
		c.baseline = share{value: low.share(), count: priorLow}
	}
	c.lowSeen = t
}

// usual returns the share of random loss: the baseline, as far as it is not forgotten.
func (c *congestion) usual(t instant) float64 {
	return c.random() * c.faded(t)
}

// faded returns the part of the baseline that is not forgotten.
func (c *congestion) faded(t instant) float64 {
	return math.Exp2(-float64(t-c.lowSeen) / float64(forgets))
}

// random returns the share of random loss that was last known, however long ago.
func (c *congestion) random() float64 { return min(c.baseline.value, maxRandomLoss) }

// forget forgets the baseline and the excess.
func (c *congestion) forget() { c.baseline, c.excess = share{}, 0 }
