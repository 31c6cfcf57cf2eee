package bunch

import "time"

const (
	// tailLoss is the loss rate at or above which the lost pieces at the end of
	// a transfer are sent twice.
	tailLoss = 0.005
	// tailCopies is the maximum number of copies in flight of a piece at the end of a transfer.
	tailCopies = 2
	// playLoss is the loss rate at or above which small calls are sent twice. A single
	// loss keeps the rate above it for about 170 packets: it raises sentPackets.loss
	// to 1/lossSpan, which then falls by 1/lossSpan of itself with each ack.
	playLoss = 0.002
	// repeatQueue is the longest queueing delay, judged by the shortest recent round trip,
	// at which calls are still sent twice when there is no bulk. A longer delay means a
	// standing queue, perhaps of the calls themselves. With a limit of 10 ms, jitter would
	// count as a queue.
	repeatQueue = 25 * time.Millisecond
	// maxRepeats and repeatBytes limit how much play a packet repeats. The few small calls
	// of a tick fit. A flood of play needs the whole path for itself, so repeating it would
	// do harm.
	maxRepeats  = 8
	repeatBytes = 256
)

// repeats holds small reliable bunches of play that were sent once. They are sent a second
// time in the next packet that has other bunches. If the first packet is lost, they are
// then late by only the gap between the two packets rather than by more than a round trip.
type repeats struct {
	items [maxRepeats]item // the first n are in use
	n     int
}

// note adds the bunches of p, a packet that is being sent, for the next packet to repeat.
func (r *repeats) note(p *packet) {
	bytes := 0
	for _, it := range p.items {
		size := int(it.end - it.off)
		if !it.first || it.channel.priority == Bulk || r.n == maxRepeats || bytes+size > repeatBytes {
			continue
		}
		r.items[r.n] = it
		r.n++
		bytes += size
	}
}

// fillRepeats places the repeats in a packet that is sent anyway: one that already has
// bunches or will have bulk. Until there is such a packet, they wait.
//
// Repeats that don't fit are dropped. If calls alone are building a queue, all repeats are
// dropped.
func (c *Conn) fillRepeats() {
	lv := &c.levels[bulkLevel]
	bulk := c.bulkOpen() && (lv.resend.len() > 0 || c.build.fresh.bulk && lv.fresh.len() > 0)
	if c.build.bunches == 0 && !bulk {
		return
	}
	queueing := c.gate.Recent > c.gate.Min+repeatQueue
	if bulk || !queueing {
		c.repeats.placeOn(c)
	}
	c.repeats = repeats{}
}

// placeOn places the repeats that were neither acked nor lost since they were noted, until
// c's packet is full.
func (r *repeats) placeOn(c *Conn) {
	for _, it := range r.items[:r.n] {
		if c.build.full() {
			return
		}
		if it.sequence < it.channel.first {
			continue // acked
		}
		e := it.channel.out.at(it.sequence)
		if i := e.onlyCopy(it); i >= 0 {
			c.place(it.channel, it.sequence, e, i)
		}
	}
}

// repeatTail queues one more copy of the bulk that p resends, if no new bulk is queued and
// the carrier reports a loss rate of at least tailLoss. Without the second copy, each round
// of losses at the end of a transfer takes a round trip, during which the path carries
// little else.
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
