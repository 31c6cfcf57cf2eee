package pace

import "time"

const (
	// deepLife is for how long we remember the deepest queue that packets have met.
	deepLife = 4 * time.Second

	// shallowDepth is how long a delay must be to count as a queue. Clocks and timers blur
	// delays by as much.
	shallowDepth = time.Millisecond

	// minDeepPackets is how deep a queue must be, in packet times, that drops packets of several
	// senders. In a queue of five packets, most would be cruising's aim of three and packets that
	// are sent together. minDeepDelay is how long the delay of such a queue must be. Clocks and
	// interrupts blur delays by a tenth of a millisecond.
	minDeepPackets, minDeepDelay = 8, time.Millisecond / 4

	// minDeepSteps is what part of a round trip such a queue must hold, in steps: a sixteenth.
	// If the round trip is long, a millisecond is no queue.
	minDeepSteps = 4

	// highPart is the part of the deepest queue below which a queue had room. A full queue drops
	// packets near its full depth, and the last ones that fit have met it.
	//
	// In scenes with short queues, at least nine of ten losses have met more than 0.8 of the
	// deepest queue. Of the random losses beside a look's queue, most have met less than 0.75.
	highPart = 0.75
)

// A sight is what rates and round trips show about the bottleneck when a queue is judged.
type sight struct {
	grain  time.Duration // how long a full packet takes at the bottleneck; 0 = unknown
	step   time.Duration // a 64th of the base round trip
	long   bool          // the newest round trips show a queue above the target
	stands bool          // all those of the last drainRounds rounds did, so no packet met a low queue
}

// A deepest is a windowed maximum of the queues that packets have met, over deepLife. We compare
// other queues with it to tell if they had room.
type deepest struct {
	slots [4]time.Duration // deepest queue in each quarter of deepLife
	slot  int64            // number of the newest slot, counted from the epoch
	queue time.Duration    // deepest in all slots
}

// note adds a queue that a packet has met.
func (d *deepest) note(t instant, queue time.Duration) {
	slot := int64(t / (deepLife / 4))
	for i := max(d.slot+1, slot-3); i <= slot; i++ {
		d.slots[i%4] = 0
	}
	d.slot = max(d.slot, slot)
	d.slots[d.slot%4] = max(d.slots[d.slot%4], queue)
	d.queue = max(d.slots[0], d.slots[1], d.slots[2], d.slots[3])
}

// isShallow reports whether no packet has met a queue within deepLife.
//
// If two packets are sent at once, one has to wait for the other, and we may overestimate the
// rate by a quarter, so a delay of less than 5/4 of a packet time is no queue. Nor is a faint
// one, unless it exceeds minDeepPackets packet times, minDeepDelay and minDeepSteps steps.
func (d *deepest) isShallow(s sight) bool {
	return d.queue < s.grain*5/4 ||
		d.isFaint() && d.queue < max(minDeepPackets*s.grain, minDeepDelay, minDeepSteps*s.step)
}

// isFaint reports whether the deepest queue may be no queue at all, since clocks and timers blur
// delays by as much, and packets that the pacer sends together wait for each other. A single
// such burst in a start made it seem as if the random losses of the next four seconds had met a
// queue.
//
// But over a short round trip, a faint queue may be all there is. Two flows that took its losses
// for random ones went on losing 3 %, and one of them had nine tenths of the link.
func (d *deepest) isFaint() bool { return d.queue < shallowDepth+burstTime }

// isLow reports whether the queue had room for many packets.
//
// No queue is low while one stands, even if we have seen none that is deeper. A flow that begins
// while many others keep the queue full has never seen the path without it. Such flows took the
// loss of a tenth of all packets for random, and one of fifty had a fifth of the link.
func (d *deepest) isLow(queue time.Duration, s sight) bool {
	return !s.stands && (d.isShallow(s) || queue < d.queue/4)
}

// isHigh reports whether the queue may have been full. It may if it was above highPart of the
// deepest.
//
// It also may if there was room for no more than one packet, unless that's less than half of the
// deepest, because a queue of two packets drops arrivals while it holds one. As the rate may be
// overestimated, a packet time counts for half as much again.
//
// If round trips are long, others are filling the queue with us, and half of the deepest is
// enough. Before we had this rule, four CUBICs beside four of ours had 0.44 of the link instead
// of 0.46.
func (d *deepest) isHigh(queue time.Duration, s sight) bool {
	if s.long {
		return queue >= d.queue/2
	}
	high := time.Duration(highPart * float64(d.queue))
	return queue >= min(high, max(d.queue-s.grain*3/2, d.queue/2))
}
