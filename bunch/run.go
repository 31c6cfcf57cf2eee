package bunch

// maxParts is the number of entries or unreliable parts of a message of MaxBunchBytes: 60.
const maxParts = (MaxBunchBytes + EntryBytes - 1) / EntryBytes

// A run is a message of several entries that is being assembled.
type run struct {
	open     bool // the first entry has arrived, and the last one has not
	delivery Delivery
	first    bool     // the message opens the channel
	size     int      // bytes of the parts
	cost     int      // bytes of ReceiveLimit that are freed when the message is taken
	pinned   int      // bytes that the parts keep in memory besides their own
	parts    [][]byte // payloads of its entries so far
	pooled   uint64   // bit i: part i is in a block of the connection
}

// addToRun adds a part to a run and delivers the message if it is the last part.
func (c *Conn) addToRun(ch *channel, r *run, s *slot) error {
	d := Delivery(s.flags & deliveryMask)
	if s.flags&flagBegin != 0 {
		if r.open {
			return violation(PartialInitialReliableDestroy, "channel %d: a run begins within a run", ch.number)
		}
		*r = run{open: true, delivery: d, first: s.flags&flagOpen != 0, parts: c.payloads.takeParts()}
	} else if !r.open || d != r.delivery {
		return violation(PartialMergeReliableDestroy, "channel %d: a part without a run", ch.number)
	}

	r.size += len(s.payload)
	r.cost += paid(s, 1)
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
		Open:     r.first,
		Close:    closes,
		Payload:  c.payloads.join(r),
		cost:     int32(r.cost),
		joined:   true,
	}
	*r = run{}
	c.deliver(ch, &m)
}
