package pace

import (
	"math"
	"time"
)

const (
	// deepLife is how long the deepest queue that packets have met is remembered.
	deepLife = 4 * time.Second
	// shallow is the least delay that counts as a queue: clocks and timers blur by as much.
	shallow = time.Millisecond
	// leastDeep is the least depth, in packet times, of a queue that drops packets of several senders: most of a queue of five is cruising's aim of
	// three and what leaves together. leastSeen is the least delay of such a queue: clocks and interrupts blur by a tenth of a millisecond.
	leastDeep, leastSeen = 8, time.Millisecond / 4
	// leastPart is the least part of a round trip that such a queue holds, in steps: a sixteenth. Over a long round trip a millisecond is no queue.
	leastPart = 4
	// highPart is the part of the deepest queue below which a queue had room: a full queue drops near its greatest depth, which the last packets that
	// fit have met. In scenes with short queues nine to ten of ten losses have met more than 0.8 of the deepest; of random losses beside a look's
	// queue most have met less than 0.75.
	highPart = 0.75
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

// neighbour is a packet that arrived, with the queue that it met.
type neighbour struct {
	sent  instant
	queue time.Duration
}

// congestion tells losses of a full queue from random ones, which do not depend on the queue: a lost packet is judged by the queue
// that its neighbours in the order of sending have met. The share that is lost in low queues is the baseline: what this path loses at
// random. Losses in high queues beyond that add up in an excess (CUSUM); when it reaches the alarm, there is congestion. So a few losses are
// enough on a clean path, and many are needed on a lossy one.
type congestion struct {
	slots      [4]time.Duration  // greatest queue in each quarter of deepLife
	slot       int64             // number of the newest slot
	deepest    time.Duration     // the greatest of slots
	jittery    bool              // a deep queue may be jitter
	long       bool              // the newest round trips show a queue above the target
	stands     bool              // all round trips of the last drainRounds rounds were long, so nothing has met a low queue
	grain      time.Duration     // time of a full packet at the bottleneck; 0 = unknown
	neighbours latest[neighbour] // packets that arrived, by which lost ones are judged
	step       time.Duration     // least time between two neighbours: a 64th of the base round trip, so that they reach back for four round trips
	newest     instant           // when the packet left that arrived last

	baseline share
	lowSeen  instant // when a packet last met a low queue

	batch  struct{ low, high, all tally } // since the last verdict
	excess float64                        // packets lost in high queues beyond the baseline
}

// acked notes a packet that arrived, with the queue that it met. The greater of its queue and its predecessor's counts, because a lost packet is
// judged by two queues, too: in jitter the greater of two delays looks like a deep queue far more often than a single one. A low queue counts
// only if the two left close together: over a longer gap they do not show what was between them.
func (c *congestion) acked(t, sent instant, queue time.Duration) {
	before, met := c.newest, max(queue, c.neighbour(0).queue)
	c.newest = sent
	if sent-c.neighbour(0).sent >= c.step {
		c.neighbours.add(neighbour{sent, queue})
	}
	c.noteQueue(t, queue)
	c.batch.all.acked++
	switch {
	case c.isLow(met) && (c.isShallow() || sent-before <= c.deepest/4):
		c.batch.low.acked++
	case c.isHigh(met):
		c.batch.high.acked++
	}
}

// neighbour returns the neighbour that is so many before the newest one, or the zero neighbour when that one is not kept.
func (c *congestion) neighbour(before int) neighbour {
	if before >= min(c.neighbours.next, kept) {
		return neighbour{}
	}
	return *c.neighbours.at(c.neighbours.next - 1 - before)
}

// noteQueue keeps the deepest queue of deepLife.
func (c *congestion) noteQueue(t instant, queue time.Duration) {
	slot := int64(t / (deepLife / 4))
	for i := max(c.slot+1, slot-3); i <= slot; i++ {
		c.slots[i%4] = 0
	}
	c.slot = max(c.slot, slot)
	c.slots[c.slot%4] = max(c.slots[c.slot%4], queue)
	c.deepest = max(c.slots[0], c.slots[1], c.slots[2], c.slots[3])
}

// isShallow reports whether no packet met a queue within deepLife. A delay of less than 5/4 of a packet's time is no queue: of two packets that
// leave at once one waits for the other, and the rate may be overestimated by a quarter. Nor is a faint queue below leastDeep packet times,
// leastSeen or leastPart steps, whichever is greatest.
func (c *congestion) isShallow() bool {
	return c.isFaint() && c.deepest < max(leastDeep*c.grain, leastSeen, leastPart*c.step) || c.deepest < c.grain*5/4
}

// isFaint reports whether the deepest queue may be no queue: clocks and timers blur by as much, and packets that the pacer lets leave together
// wait for each other. One such burst in a start made the random losses of the next four seconds seem to have met a queue. Over a short round
// trip a faint queue may be a whole one: two flows that took its losses for random ones lost 3 % for ever, and one had nine tenths of the link.
func (c *congestion) isFaint() bool { return c.deepest < shallow+burstTime }

// isLow reports whether the queue had room for many packets. None is low while a queue stands, even if that never looked deeper: a flow that begins
// while many others keep the queue full has never seen the path without it. Such flows took a tenth of all packets for random losses, and one
// of fifty had a fifth of the link.
func (c *congestion) isLow(queue time.Duration) bool {
	return !c.stands && (c.isShallow() || queue < c.deepest/4)
}

// isHigh reports whether the queue may have been full: above highPart of the deepest, and when it had room for one packet and no more, but not
// below half, because a queue of two packets drops what comes while it holds one. The rate may be overestimated, so a packet's time counts half
// as much again. When round trips are long others fill the queue with us, and half of the deepest is enough: without that, four CUBICs beside
// four of ours had 0.44 of the link in place of 0.46.
func (c *congestion) isHigh(queue time.Duration) bool {
	if c.long {
		return queue >= c.deepest/2
	}
	most := time.Duration(highPart * float64(c.deepest))
	return queue >= min(most, max(c.deepest-c.grain*3/2, c.deepest/2))
}

// lost notes a lost packet, and reports whether the queue that it met had room.
func (c *congestion) lost(sent instant) (room bool) {
	c.batch.all.lost++
	queue, known := c.met(sent)
	empty := c.isLow(queue)
	room = empty || !c.isHigh(queue)
	switch {
	case empty && (known || c.isShallow()):
		c.batch.low.lost++
	case !room:
		c.batch.high.lost++
	}
	return room
}

// met returns the greater of the queues that the packets just before and just after a lost one have met. known is false when they left too far
// apart to show that a low queue was low between them.
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

// verdict closes a batch and reports congestion. If others fill the queue, every loss counts. learn says that losses in low queues are random,
// and so belong to the baseline: those of a start, and of a flood, are not.
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
	case c.isShallow() && !c.stands:
		judged.lost = 0
	}
	usual := c.usual(t)
	least, alarm := leastTolerance, alarmLeast
	if (c.jittery || c.isFaint()) && !others {
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
