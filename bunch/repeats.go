package bunch

import "time"

const (
	// tailLoss is the least loss rate with which the lost pieces at the end of a transfer are sent twice.
	tailLoss = 0.005
	// tailCopies is how many copies of a piece at the end of a transfer may be in flight.
	tailCopies = 2
	// playLoss is the least loss rate with which small calls are sent twice: after one lost packet that is so for the next 170.
	playLoss = 0.002
	// repeatQueue is the longest queueing time, by the least of the latest round trips, with which calls are sent twice while there
	// is no bulk. A longer one is a standing queue, perhaps of the calls themselves. With 10 ms, jitter would count as a queue.
	repeatQueue = 25 * time.Millisecond
	// mostRepeats and repeatBytes limit the play that a packet repeats: the few small calls of a tick. A flood of play
	// needs the path for itself.
	mostRepeats = 8
	repeatBytes = 256
)

// repeats holds small reliable bunches of play that were sent once. They are sent a second time in the next packet that has other
// bunches. So if the first packet is lost, they are late by the time between the two, and not by more than a round trip.
type repeats struct {
	items [mostRepeats]item // the first n are in use
	n     int
}

// note adds the bunches of p, a packet that is being sent, for the next packet to repeat.
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

// fillRepeats places the repeats that were neither acked nor lost meanwhile. It does so only in a packet that is sent
// anyway: one that already has bunches, or that will have bulk. Repeats that do not fit are dropped, and so are all of them
// if calls alone make a queue.
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

// repeatTail queues one more copy of the bulk that p sends again, if no new bulk is queued and the carrier reports random loss.
// Otherwise each round of losses at the end of a transfer takes a round trip, in which the path carries little else.
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
