package bunch

const (
	// tailLoss is the least share of lost packets at which what was lost leaves twice at the end.
	tailLoss = 0.005
	// tailCopies of a lost piece may be in flight.
	tailCopies = 2
)

// repeatTail has the bulk that p sends again leave once more, when nothing waits that was never sent and the carrier says that
// the path loses packets at random: each round of losses at the end of a transfer takes a round trip, in which the path is
// idle but for these few.
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
