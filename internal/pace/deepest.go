package pace

import "time"

const (
	// deepLife is the time for which the deepest queue that packets met is remembered.
	deepLife = 4 * time.Second
	// shallowDepth is the minimum delay that counts as a queue. Clocks and timers blur delays
	// by as much.
	shallowDepth = time.Millisecond
	// minDeepPackets is the minimum depth, in packet times, of a queue that drops packets
	// of several senders. Most of a queue of five packets is cruising's aim of three and
	// the packets that are sent together.
	//
	// minDeepDelay is the minimum delay of such a queue. Clocks and interrupts blur
	// delays by a tenth of a millisecond.
	minDeepPackets, minDeepDelay = 8, time.Millisecond / 4
	// minDeepSteps is the minimum part of a round trip that such a queue holds, in steps:
	// a sixteenth. Over a long round trip a millisecond is no queue.
	minDeepSteps = 4
	// highPart is the part of the deepest queue below which a queue had room. A full
	// queue drops near its maximum depth, which the last packets that fit met.
	//
	// In scenes with short queues, nine to ten of ten losses met more than 0.8 of the
	// deepest queue. Of random losses beside a look's queue, most met less than 0.75.
	highPart = 0.75
)

// A sight holds what rates and round trips show about the bottleneck at the time a queue
// is judged.
type sight struct {
	grain time.Duration // time that a full packet takes at the bottleneck; 0 = unknown
	step  time.Duration // a 64th of the base round trip
	long  bool          // the newest round trips show a queue above the target
	// All round trips of the last drainRounds rounds were long, so no packet met a low
	// queue.
	stands bool
}

// A deepest is the deepest queue that packets met within deepLife. Other queues are
// compared with it to tell whether they had room.
type deepest struct {
	slots [4]time.Duration // maximum queue in each quarter of deepLife
	slot  int64            // number of the newest slot, from 0 at the epoch
	queue time.Duration    // maximum queue of all slots
}

// note adds a queue that a packet met.
func (d *deepest) note(t instant, queue time.Duration) {
	slot := int64(t / (deepLife / 4))
	for i := max(d.slot+1, slot-3); i <= slot; i++ {
		d.slots[i%4] = 0
	}
	d.slot = max(d.slot, slot)
	d.slots[d.slot%4] = max(d.slots[d.slot%4], queue)
	d.queue = max(d.slots[0], d.slots[1], d.slots[2], d.slots[3])
}

// isShallow reports whether no packet met a queue within deepLife.
//
// A delay of less than 5/4 of a packet's time is no queue. Of two packets that are sent
// at once, one waits for the other, and the rate may be overestimated by a quarter. Nor
// is a faint queue a queue if it is below minDeepPackets packet times, minDeepDelay or
// minDeepSteps steps, whichever is greatest.
func (d *deepest) isShallow(s sight) bool {
	return d.queue < s.grain*5/4 ||
		d.isFaint() && d.queue < max(minDeepPackets*s.grain, minDeepDelay, minDeepSteps*s.step)
}

// isFaint reports whether the deepest queue may be no queue. Clocks and timers blur
// delays by as much, and packets that the pacer sends together wait for each other. One
// such burst in a start made the random losses of the next four seconds seem to have met
// a queue.
//
// But over a short round trip a faint queue may be a whole one. Two flows that took its
// losses for random ones lost 3 % permanently, and one of them had nine tenths of the
// link.
func (d *deepest) isFaint() bool { return d.queue < shallowDepth+burstTime }

// isLow reports whether the queue had room for many packets.
//
// No queue is low while a queue stands, even if no deeper one was seen. A flow that
// begins while many others keep the queue full has never seen the path without that
// queue. Such flows took a tenth of all packets for random losses, and one of fifty had a
// fifth of the link.
func (d *deepest) isLow(queue time.Duration, s sight) bool {
	return !s.stands && (d.isShallow(s) || queue < d.queue/4)
}

// isHigh reports whether the queue may have been full. There are two cases.
//
// The queue was above highPart of the deepest queue.
//
// Or the queue had room for no more than one packet, and was not below half of the
// deepest. A queue of two packets drops arrivals while it holds one. The rate may be
// overestimated, so a packet's time counts half as much again.
//
// If round trips are long, others fill the queue with us, and half of the deepest is
// enough. Without this rule, four CUBICs beside four of ours had 0.44 of the link instead
// of 0.46.
func (d *deepest) isHigh(queue time.Duration, s sight) bool {
	if s.long {
		return queue >= d.queue/2
	}
	high := time.Duration(highPart * float64(d.queue))
	return queue >= min(high, max(d.queue-s.grain*3/2, d.queue/2))
}
