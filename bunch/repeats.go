package bunch

import "time"

const (
	// tailLoss is the loss rate at or above which we send the lost pieces at the end of a
	// transfer twice.
	tailLoss = 0.005

	// tailCopies is the maximum number of copies of such a piece in flight.
	tailCopies = 2

	// playLoss is the loss rate at or above which we send small calls twice. A single loss keeps
	// the rate above this for about 170 packets, because it raises sentPackets.lossRate to
	// 1/lossSpan, and each ack then lowers the rate by 1/lossSpan of its value.
	playLoss = 0.002

	// repeatQueue is the maximum queueing delay, judged by the shortest recent round trip, at
	// which we still send calls twice without bulk beside them. A longer delay means that there's
	// a standing queue, which may well be due to the calls. With a limit of only 10 ms, jitter
	// would count as a queue.
	repeatQueue = 25 * time.Millisecond

	// maxRepeats and repeatBytes limit how much play a packet repeats, which is enough for the
	// few small calls of a tick. A flood of play isn't repeated, because it needs the whole path
	// itself and repeats would only do harm.
	maxRepeats  = 8
	repeatBytes = 256
)

// repeats holds small reliable bunches of play (the game's own traffic) that were sent once.
// They're sent again in the next packet that has other bunches, so that if the first packet is
// lost, they're late only by the time between the two packets, instead of by more than a round
// trip.
type repeats struct {
	items [maxRepeats]item // the first n are in use
	n     int
}

// note is called when p is being sent. It picks the bunches for the next packet to repeat.
func (r *repeats) note(p *sentPacket) {
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

// fillRepeats adds the repeats to a packet that is sent anyway, because it has other bunches or
// will have bulk. Otherwise the repeats wait for the next packet.
//
// Repeats that don't fit are dropped. All of them are dropped if the calls alone seem to cause a
// queue.
func (c *Conn) fillRepeats() {
	lv := &c.levels[bulkLevel]
	newBulk := c.build.allowed.bulk && lv.unsent.len() > 0
	bulk := c.bulkOpen() && (lv.resend.len() > 0 || newBulk)
	if c.build.bunches == 0 && !bulk {
		return
	}
	queueing := c.congestion.Recent > c.congestion.Min+repeatQueue
	if bulk || !queueing {
		c.repeats.placeOn(c)
	}
	c.repeats = repeats{}
}

// placeOn adds the repeats to the packet until it's full, except for those that have been
// acknowledged or declared lost in the meantime.
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

// repeatTail queues a second copy of the bulk that p retransmits at the end of a transfer, which is
// when no new bulk is queued. Otherwise, each round of losses would take a round trip during which
// the path carries little else. It only does so if the carrier reports a loss rate of at least
// tailLoss.
func (c *Conn) repeatTail(p *sentPacket) {
	if !c.path.Fates || c.path.Loss < tailLoss || c.levels[bulkLevel].unsent.len() > 0 {
		return
	}
	for _, it := range p.items {
		if !it.first && it.channel.priority == Bulk {
			c.requeue(it, func(p *piece) bool { return !p.queued && p.copies < tailCopies })
		}
	}
}
