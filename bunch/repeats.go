package bunch

import "time"

const (
	// tailLoss is the least share of lost packets with which the lost pieces at the end of a transfer leave twice.
	tailLoss = 0.005
	// tailCopies is how many copies of a piece at the end of a transfer may be in flight.
	tailCopies = 2
	// playLoss is the least share of lost packets with which small calls leave twice: after one lost packet the next 170 do.
	playLoss = 0.002
	// repeatQueue is the longest queueing time, the least of the latest round trips, with which calls leave twice though no bulk is there: a longer
	// queue stands, and may be theirs. With 10 ms jitter would count as one.
	repeatQueue = 25 * time.Millisecond
	// mostRepeats and repeatBytes bound the play that a packet repeats: the few small calls of a tick. A flood of play needs its path
	// for itself.
	mostRepeats = 8
	repeatBytes = 256
)

// repeats holds small reliable bunches of play that have left once. They leave a second time in the next packet that has other bunches: when
// the first packet is lost, they are late by the time between the two, and not by a round trip and more.
type repeats struct {
	items [mostRepeats]item // the first n are in use
	n     int
}

// note adds the bunches of p, a packet that leaves now, which the next packet repeats.
func (r *repeats) note(p *packet) {
	bytes := 0
	for _, it := range p.items {
		size := int(it.end - it.off)
		if !it.first || it.channel.priority == Bulk || r.n == mostRepeats || bytes+size > repeatBytes {
			continue
		}
		r.items[r.n] = it
		r.n++
		bytes += size
	}
}

// fillRepeats places the repeats that were neither acked nor lost meanwhile. It does so only in a packet that leaves anyway: one that holds
// bunches already, or that bulk will follow. Repeats that do not fit are dropped, and all of them while calls alone meet a queue.
func (c *Conn) fillRepeats() {
	lv := &c.levels[bulkLevel]
	bulk := c.bulkOpen() && (lv.resend.len() > 0 || c.build.fresh.bulk && lv.fresh.len() > 0)
	if c.build.bunches == 0 && !bulk {
		return
	}
	if !bulk && c.gate.Recent > c.gate.Min+repeatQueue {
		c.repeats = repeats{}
		return
	}
	for _, it := range c.repeats.items[:c.repeats.n] {
		if it.sequence < it.channel.first || c.build.full() {
			continue
		}
		e := it.channel.out.at(it.sequence)
		if i := e.onlyCopy(it); i >= 0 {
			c.place(it.channel, it.sequence, e, i)
		}
	}
	c.repeats = repeats{}
}

// repeatTail queues one more copy of the bulk that p sends again, when no new bulk waits and the carrier says that the path loses packets at
// random. Otherwise each round of losses at the end of a transfer takes a round trip, in which the path carries little else.
func (c *Conn) repeatTail(p *packet) {
	if !c.path.Fates || c.path.Loss < tailLoss || c.levels[bulkLevel].fresh.len() > 0 {
		return
	}
	for _, it := range p.items {
		if !it.first && it.channel.priority == Bulk {
			c.requeue(it, func(p *piece) bool { return !p.queued && p.copies < tailCopies })
		}
	}
}
