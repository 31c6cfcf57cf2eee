package sealed

// Stats counts what a session did.
type Stats struct {
	Sent, SentBytes         uint64 // sealed packets
	Received, ReceivedBytes uint64 // packets that opened
	Feedbacks               uint64 // feedback frames sent
	Acked, Lost, Spurious   uint64 // packets sent; those in Spurious counted as lost and were acked later
	Blocked                 uint64 // how often the socket accepted no more packets

	Drops [drops]uint64 // received packets that were dropped, by reason; index kept is not used
}

// Dropped returns how many received packets were dropped, for all reasons together.
func (s Stats) Dropped() (n uint64) {
	for _, d := range s.Drops {
		n += d
	}
	return n
}

// Stats returns a copy of the counters.
func (s *Session) Stats() Stats { return s.stats }
