package pace

import (
	"math"
	"time"
)

const (
	// prior is the number of packets, all acked, with which the baseline
	// begins, so that the first loss does not count as usual.
	prior = 64
	// tolerance is how many times the baseline's share may be lost in deep queues before
	// losses count. leastTolerance, a packet in a thousand, is added for a lossless path.
	tolerance, leastTolerance = 1.5, 0.001
	// jitterTolerance and jitterAlarm replace leastTolerance and alarmLeast over a
	// faint queue and in jitter, where every lost packet seems to have met a deep
	// queue. A short queue that others fill looks like jitter too, but loses far more.
	jitterTolerance, jitterAlarm = 0.005, 3
	// alarmLeast is the excess of lost packets, half a packet, that is congestion on a
	// lossless path. The alarm grows by alarmPerLoss times the baseline, by alarmMost
	// at most. If it did not grow, 10 % of random loss would count as congestion.
	alarmLeast, alarmPerLoss, alarmMost = 0.5, 1200, 12
	// slightSteps is the depth of a slight queue, in steps: nearly a tenth of a round trip.
	slightSteps = 6
	// forgets is how long it takes to forget half of the baseline if no packet meets a queue with
	// room. With a baseline that never expired the controller might crowd out others forever.
	forgets = time.Second
)

// A congestion tells losses of a full queue from random ones, which do not depend on the queue.
// A lost packet is judged by the queue that its neighbours in sending order have met. The share
// that is lost in queues with room is the baseline: what this path loses at random. Losses in
// high queues beyond that add up to an excess (CUSUM); if the excess reaches the alarm, there
// is congestion. So a few losses suffice on a clean path, and a lossy path needs many.
type congestion struct {
	deepest    deepest
	neighbours neighbours
	jittery    bool // the packet that arrived last met jitter, so a deep queue may be none

	baseline share
	roomSeen instant // when a packet last met a queue with room

	batch  struct{ room, high, between tally } // fates since the last verdict, by the queue that the packets met
	excess float64                             // packets lost in high queues beyond the baseline
}

// acked records a packet that arrived, with the delay that it met. Jitter is not
// a queue. When it counted as one, 100 ms of it left almost no packet that met a
// queue with room, so random loss was never learned: every second transfer on
// UE's profile Bad took its 5 % for a competitor's (stream.TestSealedOnABadPath).
func (c *congestion) acked(t, sent instant, delay, jitter time.Duration, s sight) {
	c.jittery = jitter > 0
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

// of returns the tally for packets that have met a queue. A queue that is neither low nor
// high counts as one with room if the deepest is slight. In jitter of a few milliseconds
// next to nothing meets a low queue: when only low queues were learned from, one in four
// transfers with 5 % of loss took thirty times the ideal. Where sixteen controllers keep
// a queue of a quarter of the round trip full, some of its losses meet queues in between.
func (c *congestion) of(queue time.Duration, s sight) *tally {
	switch high := c.deepest.isHigh(queue, s); {
	case c.deepest.isLow(queue, s), !high && c.deepest.queue < slightSteps*s.step:
		return &c.batch.room
	case high:
		return &c.batch.high
	}
	return &c.batch.between
}

// verdict ends a batch and reports congestion. If others fill the queue, every
// loss counts. If learn is true, losses in queues with room are random, and so
// belong to the baseline; it is false for those of a start and of a flood.
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

// learn adds packets that have met a queue with room to the baseline. What was forgotten in a
// gap longer than between looks stays forgotten. Otherwise a flow that kept a short queue
// full, and emptied it for a moment now and then, went on to believe what its start had lost.
func (c *congestion) learn(t instant, room tally) {
	if t-c.roomSeen > forgets/4 {
		c.baseline.value *= c.faded(t)
	}
	c.baseline.count = max(c.baseline.count, prior)
	c.baseline.note(room.lost, room.acked)
	c.roomSeen = t
}

// relearn raises the baseline to the losses of a competition that were random
// after all: nothing was learned from them at the time.
func (c *congestion) relearn(t instant, left tally) {
	if left.share() > c.baseline.value {
		c.baseline = share{value: left.share(), count: prior}
	}
	c.roomSeen = t
}

// usual returns the share of random loss: the part of the baseline that is not forgotten.
func (c *congestion) usual(t instant) float64 {
	return c.random() * c.faded(t)
}

// faded returns the part of the baseline that is not forgotten, 0 to 1.
func (c *congestion) faded(t instant) float64 {
	return math.Exp2(-float64(t-c.roomSeen) / float64(forgets))
}

// random returns the share of random loss that was last known, however long ago.
func (c *congestion) random() float64 { return min(c.baseline.value, maxRandomLoss) }

// forget forgets the baseline and the excess.
func (c *congestion) forget() { c.baseline, c.excess = share{}, 0 }
