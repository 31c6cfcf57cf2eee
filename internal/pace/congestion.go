package pace

import (
	"math"
	"time"
)

const (
	// priorPackets is the number of packets, all acked, with which the baseline begins. Without
	// it the first loss would count as usual.
	priorPackets = 64
	// tolerance is the multiple of the baseline's share that may be lost in deep queues
	// before losses count. minTolerance, one packet in a thousand, is added for a
	// lossless path.
	tolerance, minTolerance = 1.5, 0.001
	// jitterTolerance and jitterAlarm replace minTolerance and minAlarm over a faint
	// queue and in jitter, where every lost packet seems to have met a deep queue. A
	// short queue that others fill looks like jitter too, but loses far more.
	jitterTolerance, jitterAlarm = 0.005, 3
	// minAlarm is the excess of lost packets, half a packet, that is congestion on a
	// lossless path. The alarm rises by alarmPerLoss times the baseline, by at most
	// maxAlarmRise. Without the rise, 10 % of random loss would count as congestion.
	minAlarm, alarmPerLoss, maxAlarmRise = 0.5, 1200, 12
	// slightSteps is the depth of a slight queue, in steps: nearly a tenth of a round
	// trip.
	slightSteps = 6
	// baselineHalfLife is the half-life of the baseline while no packet meets a queue with room.
	// With a baseline that never expired, the controller might crowd out others forever.
	baselineHalfLife = time.Second
)

// A congestion tells the losses of a full queue from random ones, which don't depend on
// the queue.
//
// It judges a lost packet by the queue that its neighbours in sending order met. The
// share lost in queues with room is the baseline: the random loss of this path. Losses in
// high queues beyond the baseline add up to an excess (CUSUM). When the excess reaches
// the alarm, there is congestion. So a few losses are enough on a clean path, and a lossy
// path needs many.
type congestion struct {
	deepest    deepest
	neighbours neighbours
	jittery    bool // the newest arrival met jitter, so a deep queue may be none

	baseline share
	roomSeen instant // when a packet last met a queue with room

	// Fates since the last verdict, by the queue that the packets met.
	batch  struct{ room, high, between tally }
	excess float64 // packets lost in high queues beyond the baseline
}

// acked records a packet that arrived, with the delay that it met.
//
// Jitter is not a queue. When it counted as one, 100 ms of jitter left almost no packet
// that met a queue with room, so random loss was never learned. Every second transfer on
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

// of returns the tally for packets that met a queue. A queue that is neither low nor high
// counts as one with room if the deepest queue is slight.
//
// In jitter of a few milliseconds next to no packet meets a low queue. When only low
// queues were learned from, one in four transfers with 5 % loss took thirty times the
// ideal. Where sixteen controllers keep a queue of a quarter of the round trip full, some
// of its losses meet queues in between.
func (c *congestion) of(queue time.Duration, s sight) *tally {
	switch high := c.deepest.isHigh(queue, s); {
	case c.deepest.isLow(queue, s), !high && c.deepest.queue < slightSteps*s.step:
		return &c.batch.room
	case high:
		return &c.batch.high
	}
	return &c.batch.between
}

// verdict ends a batch and reports congestion.
//
// If others fill the queue, every loss counts. If learn is true, losses in queues with
// room are random and belong to the baseline. learn is false for the losses of a start
// and of a flood.
func (c *congestion) verdict(t instant, s sight, others, learn bool) bool {
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
//
// The part forgotten in a gap longer than the one between looks stays forgotten.
// Otherwise a flow that kept a short queue full, and emptied it for a moment now and
// then, would continue to believe the losses of its start.
func (c *congestion) learn(t instant, room tally) {
	if t-c.roomSeen > baselineHalfLife/4 {
		c.baseline.value *= c.faded(t)
	}
	c.baseline.count = max(c.baseline.count, priorPackets)
	c.baseline.note(room.lost, room.acked)
	c.roomSeen = t
}

// relearn raises the baseline to the losses of a competition that turned out to be
// random. Nothing was learned from them at the time.
func (c *congestion) relearn(t instant, left tally) {
	if left.share() > c.baseline.value {
		c.baseline = share{value: left.share(), count: priorPackets}
	}
	c.roomSeen = t
}

// usual returns the usual share of random loss: the part of the baseline that is not
// forgotten.
func (c *congestion) usual(t instant) float64 {
	return c.random() * c.faded(t)
}

// faded returns the part of the baseline that is not forgotten, from 0 to 1.
func (c *congestion) faded(t instant) float64 {
	return math.Exp2(-float64(t-c.roomSeen) / float64(baselineHalfLife))
}

// random returns the last known share of random loss, however old.
func (c *congestion) random() float64 { return min(c.baseline.value, maxRandomLoss) }

// forget forgets the baseline and the excess.
func (c *congestion) forget() { c.baseline, c.excess = share{}, 0 }
