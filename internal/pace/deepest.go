package pace

import (
	"slices"
	"time"
)

const (
	// deepLife is how long we remember the deepest queue that packets met, in deepSlots slots.
	deepLife, deepSlots = 4 * time.Second, 4

	// shallowDepth is how long a delay must be to count as a queue. Shorter delays may come from
	// clocks and timers.
	shallowDepth = time.Millisecond

	// minDeepPackets is the minimum depth, in packet times, of a queue that drops packets of
	// several senders. In a queue of five packets, most would be the three that cruising aims for
	// and packets that are sent together. minDeepDelay is the minimum delay of such a queue, since
	// clocks and interrupts blur delays by a tenth of a millisecond.
	minDeepPackets, minDeepDelay = 8, time.Millisecond / 4

	// minDeepSteps is the minimum part of a round trip that such a queue holds, in steps. It's a
	// sixteenth, since a millisecond isn't a queue if the round trip is long.
	minDeepSteps = 4

	// A queue below highPart of the deepest one had room. A full queue drops packets near its full
	// depth, and the last packets that fit met that depth.
	//
	// In scenes with short queues, at least nine of ten losses met more than 0.8 of the deepest
	// queue. Of the random losses during a look's queue, most met less than 0.75.
	highPart = 0.75
)

// A sight is what rates and round trips show about the bottleneck when a queue is judged.
type sight struct {
	grain  time.Duration // how long a full packet takes at the bottleneck; 0 = unknown
	step   time.Duration // a 64th of the base round trip
	long   bool          // the newest round trips show a queue above the target
	stands bool          // so did all of the last drainRounds rounds, so no packet met a low queue
}

// A deepest is a windowed maximum, over deepLife, of the queues that packets met. We compare other
// queues with it to tell whether they had room.
type deepest struct {
	slots [deepSlots]time.Duration // deepest queue in each quarter of deepLife
	slot  int64                    // number of the newest slot, counted from the epoch
	queue time.Duration            // deepest in all slots
}

// note adds a queue that a packet met.
func (d *deepest) note(t instant, queue time.Duration) {
	slot := int64(t / (deepLife / deepSlots))
	for i := max(d.slot+1, slot-deepSlots+1); i <= slot; i++ {
		d.slots[i%deepSlots] = 0
	}
	d.slot = max(d.slot, slot)
	at := d.slot % deepSlots
	d.slots[at] = max(d.slots[at], queue)
	d.queue = slices.Max(d.slots[:])
}

// isShallow reports whether no packet met a queue within deepLife.
//
// If two packets are sent at once, one has to wait for the other, and we may overestimate the rate
// by a quarter, so a delay of less than 5/4 of a packet time isn't a queue. Nor is a faint one,
// unless it exceeds minDeepPackets packet times, minDeepDelay and minDeepSteps steps.
func (d *deepest) isShallow(s sight) bool {
	return d.queue < s.grain*5/4 ||
		d.isFaint() && d.queue < max(minDeepPackets*s.grain, minDeepDelay, minDeepSteps*s.step)
}

// isFaint reports whether the deepest queue may not be a queue at all. It may come from clocks and
// timers, or from packets that the pacer sends together and that wait for each other. After a
// single such burst in a start, the random losses of the next four seconds would seem to have met a
// queue.
//
// But over a short round trip, a faint queue may be all there is. Two flows that took its losses
// for random ones would go on losing 3 %, and one of them would get nine tenths of the link.
func (d *deepest) isFaint() bool { return d.queue < shallowDepth+burstTime }

// isLow reports whether the queue had room for many packets.
//
// No queue is low while one stands, even if we haven't seen a deeper one, because a flow that
// begins while many others keep the queue full never sees the path without it. Such flows would
// take the loss of a tenth of all packets for random, and one of fifty would get a fifth of the
// link.
func (d *deepest) isLow(queue time.Duration, s sight) bool {
	return !s.stands && (d.isShallow(s) || queue < d.queue/4)
}

// isHigh reports whether the queue may have been full. That's the case if it was above highPart of
// the deepest one.
//
// It's also the case if there was room for no more than one packet, because a queue of two packets
// drops arrivals while it holds one, but never below half of the deepest queue. Since the rate may
// be overestimated, we allow one and a half packet times.
//
// If round trips are long, others are filling the queue with us, and half of the deepest queue is
// enough. Without this rule, four CUBICs beside four of ours would get 0.44 of the link instead of
// 0.46.
func (d *deepest) isHigh(queue time.Duration, s sight) bool {
	if s.long {
		return queue >= d.queue/2
	}
	high := time.Duration(highPart * float64(d.queue))
	return queue >= min(high, max(d.queue-s.grain*3/2, d.queue/2))
}
