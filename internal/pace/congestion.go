package pace

import (
	"math"
	"time"
)

const (
	// deepLife is for how long the deepest queue is remembered that packets met.
	deepLife = 4 * time.Second
	// shallow is the queue below which there is none to speak of: clocks and timers blur as much.
	shallow = time.Millisecond
	// priorLow lossless packets stand at the beginning of the baseline, so that the first loss is not taken for usual.
	priorLow = 64
	// tolerance is by how much losses in deep queues may exceed the baseline's before they count, and leastTolerance what
	// counts for nothing on a lossless path: a loss in a thousand packets.
	tolerance, leastTolerance = 1.5, 0.001
	// jitterTolerance and jitterAlarm stand in for leastTolerance and alarmLeast in jitter, which looks like a deep queue to
	// every lost packet; a short queue that others fill looks like jitter, and loses far more.
	jitterTolerance, jitterAlarm = 0.005, 3
	// alarmLeast and alarmPerLoss are the excess of lost packets that is congestion: half a packet on a lossless path, up
	// to alarmMost at a baseline of 2 % and more. Less at high baselines takes 10 % of random loss for congestion.
	alarmLeast, alarmPerLoss, alarmMost = 0.5, 1200, 12
	// forgets is after how long without a packet in a low queue half of the baseline is forgotten: one that never expires
	// makes a hog for ever.
	forgets = time.Second
)

// neighbour is a packet that arrived, and the queue that it met.
type neighbour struct {
	sent  instant
	queue time.Duration
}

// congestion tells losses of a full queue from random ones, which come whatever the queue is: a lost packet is judged by
// the queue that its neighbours in the order of sending met. The share lost of those that met a low queue is the baseline,
// what this link loses at random; what is lost in high queues beyond that gathers in a tally (CUSUM), whose alarm is
// congestion. So a few losses are enough on a clean path, and many are needed on a lossy one.
type congestion struct {
	slots      [4]time.Duration  // greatest queue in each quarter of deepLife
	slot       int64             // the newest one
	deepest    time.Duration     // of all
	jittery    bool              // what looks like a deep queue may be jitter
	grain      time.Duration     // that a full packet takes at the bottleneck; 0 = unknown
	neighbours latest[neighbour] // packets that arrived, beside which lost ones are judged
	step       time.Duration     // between two of them: a 64th of the base round trip makes them reach back for four of these
	newest     instant           // when the latest packet left that arrived

	baseline share
	lowSeen  instant // when a packet met a low queue last

	batch struct{ low, high, all tally } // since the last verdict
	tally float64                        // packets lost in high queues beyond the baseline
}

// acked takes a packet that arrived, and the queue that it met. The queue of the one before it counts as well, for a lost packet is
// judged by two: in jitter the greater of two is a deep queue far more often than that of one.
func (c *congestion) acked(t, sent instant, queue time.Duration) {
	before, met := c.newest, max(queue, c.neighbour(0).queue)
	c.newest = sent
	if sent-c.neighbour(0).sent >= c.step {
		c.neighbours.add(neighbour{sent, queue})
	}
	c.noteQueue(t, queue)
	c.batch.all.acked++
	switch {
	case c.isShallow() || met < c.deepest/4 && sent-before <= c.deepest/4:
		c.batch.low.acked++
	case met >= c.deepest/2:
		c.batch.high.acked++
	}
}

// neighbour returns the latest one, or that so many before it; the zero one when it is not kept.
func (c *congestion) neighbour(before int) neighbour {
	if before >= min(c.neighbours.next, kept) {
		return neighbour{}
	}
	return *c.neighbours.at(c.neighbours.next - 1 - before)
}

func (c *congestion) noteQueue(t instant, queue time.Duration) {
	slot := int64(t / (deepLife / 4))
	for i := max(c.slot+1, slot-3); i <= slot; i++ {
		c.slots[i%4] = 0
	}
	c.slot = max(c.slot, slot)
	c.slots[c.slot%4] = max(c.slots[c.slot%4], queue)
	c.deepest = max(c.slots[0], c.slots[1], c.slots[2], c.slots[3])
}

// isShallow reports that no packet met a queue in deepLife: of two that leave at once one waits for the other, and a quarter more where the
// rate that is believed is too high.
func (c *congestion) isShallow() bool { return c.deepest < max(shallow, c.grain*5/4) }

// lost takes a lost packet.
func (c *congestion) lost(sent instant) {
	c.batch.all.lost++
	queue, known := c.met(sent)
	switch {
	case c.isShallow() || known && queue < c.deepest/4:
		c.batch.low.lost++
	case queue >= c.deepest/2:
		c.batch.high.lost++
	}
}

// met returns the greater queue of those that left just before a lost packet and just after it. Not known: too much time
// lies between them to tell a low one.
func (c *congestion) met(sent instant) (queue time.Duration, known bool) {
	after := instant(0)
	for i := range kept {
		m := c.neighbour(i)
		switch {
		case m.sent == 0:
			return queue, false
		case m.sent > sent:
			after, queue = m.sent, m.queue
		default:
			return max(queue, m.queue), after > 0 && after-m.sent <= c.deepest/2
		}
	}
	return queue, false
}

// verdict closes a batch and reports congestion. others: somebody else fills the queue, and every loss counts. learn: what
// is lost in low queues may be random; at a start, and in a crash, it is not.
func (c *congestion) verdict(t instant, others, learn bool) bool {
	b := c.batch
	c.batch.low, c.batch.high, c.batch.all = tally{}, tally{}, tally{}
	if learn && !others && b.low.count() > 0 {
		c.learn(t, b.low)
	}
	judged := b.high
	switch {
	case others:
		judged = b.all
	case c.isShallow():
		judged.lost = 0
	}
	usual := c.usual(t)
	least, alarm := leastTolerance, alarmLeast
	if c.jittery && !others {
		least, alarm = jitterTolerance, jitterAlarm
	}
	c.tally = max(c.tally+float64(judged.lost)-(tolerance*usual+least)*float64(judged.count()), 0)
	if judged.lost == 0 || c.tally < alarm+min(alarmPerLoss*usual, alarmMost) {
		return false
	}
	c.tally = 0
	return true
}

// learn takes what met next to no queue.
func (c *congestion) learn(t instant, low tally) {
	c.baseline.count = max(c.baseline.count, priorLow)
	c.baseline.note(low.lost, low.acked)
	c.lowSeen = t
}

// relearn takes the losses of a time in which none was learnt from, and that is over.
func (c *congestion) relearn(t instant, low tally) {
	if low.share() > c.baseline.value {
		c.baseline = share{value: low.share(), count: priorLow}
	}
	c.lowSeen = t
}

// usual is the share of random loss.
func (c *congestion) usual(t instant) float64 {
	return min(c.baseline.value, maxRandomLoss) * math.Exp2(-float64(t-c.lowSeen)/float64(forgets))
}

// forget drops what was believed of random loss.
func (c *congestion) forget() { c.baseline, c.tally = share{}, 0 }
