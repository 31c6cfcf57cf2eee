package bunch

const (
	// tailLoss is the least share of lost packets with which the lost pieces at the end of a transfer leave twice.
	tailLoss = 0.005
	// tailCopies is how many copies of such a piece may be in flight.
	tailCopies = 2
)

// repeatTail queues one more copy of the bulk that p sends again, when no new bulk waits and the carrier says that the path loses packets at
// random. Otherwise each round of losses at the end of a transfer takes a round trip, in which the path carries little else.
func (c *Conn) repeatTail(p *packet) {
	if !c.way.Fates || c.way.Loss < tailLoss || c.levels[bulkLevel].fresh.len() > 0 {
		return
	}
	for _, it := range p.items {
		if !it.first && it.channel.priority == Bulk {
			c.requeue(it, func(p *piece) bool { return !p.queued && p.copies < tailCopies })
		}
	}
}
