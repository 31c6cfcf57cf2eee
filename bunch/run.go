package bunch

// maxParts is how many entries, or unreliable parts, a message of MaxBunchBytes takes: 60.
const maxParts = (MaxBunchBytes + EntryBytes - 1) / EntryBytes

// A run is a message of several entries, of which the last hasn't been processed yet.
type run struct {
	open     bool // the first entry was processed
	delivery Delivery
	opens    bool     // the message opens the channel
	size     int      // bytes of the parts
	cost     int      // bytes of ReceiveLimit that are given back when the message is taken
	pinned   int      // bytes that the parts keep in memory in addition to their own
	parts    [][]byte // payloads of the entries so far
	pooled   uint64   // bit i is set if part i is in a pooled block
}

// addToRun adds an entry to a run. If it's the last one, the message is delivered.
func (c *Conn) addToRun(ch *channel, r *run, s *slot) error {
	d := Delivery(s.flags & deliveryMask)
	if s.flags&flagBegin != 0 {
		if r.open {
			return violation(PartialInitialReliableDestroy, "channel %d: a run begins within a run", ch.number)
		}
		*r = run{open: true, delivery: d, opens: s.flags&flagOpen != 0, parts: c.payloads.takeParts()}
	} else if !r.open || d != r.delivery {
		return violation(PartialMergeReliableDestroy, "channel %d: a part without a run", ch.number)
	}

	r.size += len(s.payload)
	r.cost += refund(s, 1)
	r.pinned += int(s.pinned)
	if r.size > c.limits.MaxBunch || len(r.parts) == maxParts {
		return violation(PartialTooLarge, "channel %d: a message of %d bytes or more in %d parts or more, at most %d bytes (MaxBunch)",
			ch.number, r.size, len(r.parts)+1, c.limits.MaxBunch)
	}

	if s.pooled {
		r.pooled |= 1 << len(r.parts)
	}
	r.parts = append(r.parts, s.payload)
	if s.flags&flagEnd == 0 {
		return nil
	}
	c.deliverRun(ch, r, s.flags&flagClose != 0)
	return nil
}

// deliverRun joins the parts of a run and delivers the message.
func (c *Conn) deliverRun(ch *channel, r *run, closes bool) {
	m := Message{
		Delivery: r.delivery,
		Open:     r.opens,
		Close:    closes,
		Payload:  c.payloads.join(r),
		cost:     int32(r.cost),
		joined:   true,
	}
	*r = run{}
	c.deliver(ch, &m)
}
