package pace

import "time"

const (
	// deepLife is how long the deepest queue that packets have met is remembered.
	deepLife = 4 * time.Second
	// shallow is the least delay that counts as a queue: clocks and timers blur delays by as much.
	shallow = time.Millisecond
	// leastDeep is the least depth, in packet times, of a queue that drops packets
	// of several senders: most of a queue of five packets is cruising's aim of
	// three and what is sent together. leastSeen is the least delay of such a
	// queue: clocks and interrupts blur delays by a tenth of a millisecond.
	leastDeep, leastSeen = 8, time.Millisecond / 4
	// leastPart is the least part of a round trip that such a queue holds, in
	// steps: a sixteenth. Over a long round trip a millisecond is no queue.
	leastPart = 4
	// highPart is the part of the deepest queue below which a queue had room: a full
	// queue drops near its greatest depth, which the last packets that fit have met. In
	// scenes with short queues nine to ten of ten losses have met more than 0.8 of the
	// deepest queue; of random losses beside a look's queue most have met less than 0.75.
	highPart = 0.75
)

// A sight is what rates and round trips show about the bottleneck at the time a queue is judged.
type sight struct {
	grain  time.Duration // time that a full packet takes at the bottleneck; 0 = unknown
	step   time.Duration // a 64th of the base round trip
	long   bool          // the newest round trips show a queue above the target
	stands bool          // all round trips of the last drainRounds rounds were long, so no packet has met a low queue
}

// A deepest is the deepest queue that packets have met within deepLife. It is
// the measure by which another queue had room or not.
type deepest struct {
	slots [4]time.Duration // the greatest queue in each quarter of deepLife
	slot  int64            // number of the newest slot, from 0 at the epoch
	queue time.Duration    // the greatest queue of all slots
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

// isShallow reports whether no packet met a queue within deepLife. A delay of less than
// 5/4 of a packet's time is no queue: of two packets that are sent at once one waits
// for the other, and the rate may be overestimated by a quarter. Nor is a faint queue
// below leastDeep packet times, leastSeen or leastPart steps, whichever is greatest.
func (d *deepest) isShallow(s sight) bool {
	return d.isFaint() && d.queue < max(leastDeep*s.grain, leastSeen, leastPart*s.step) || d.queue < s.grain*5/4
}

// isFaint reports whether the deepest queue may be no queue: clocks and timers blur delays
// by as much, and packets that the pacer sends together wait for each other. One such burst
// in a start made the random losses of the next four seconds seem to have met a queue. But
// over a short round trip a faint queue may be a whole one: two flows that took its losses
// for random ones lost 3 % permanently, and one of them had nine tenths of the link.
func (d *deepest) isFaint() bool { return d.queue < shallow+burstTime }

// isLow reports whether the queue had room for many packets. None is low while a
// queue stands, even if no deeper one was seen: a flow that begins while many
// others keep the queue full has never seen the path without it. Such flows took a
// tenth of all packets for random losses, and one of fifty had a fifth of the link.
func (d *deepest) isLow(queue time.Duration, s sight) bool {
	return !s.stands && (d.isShallow(s) || queue < d.queue/4)
}

// isHigh reports whether the queue may have been full. It may have been above highPart of
// the deepest queue. It may also have been if it had room for one packet and no more, but
// not below half of the deepest, because a queue of two packets drops what arrives while it
// holds one. The rate may be overestimated, so a packet's time counts half as much again.
// If round trips are long others fill the queue with us, and half of the deepest is enough:
// without that, four CUBICs beside four of ours had 0.44 of the link instead of 0.46.
func (d *deepest) isHigh(queue time.Duration, s sight) bool {
	if s.long {
		return queue >= d.queue/2
	}
	most := time.Duration(highPart * float64(d.queue))
	return queue >= min(most, max(d.queue-s.grain*3/2, d.queue/2))
}
