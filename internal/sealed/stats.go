package sealed

// Stats counts what a session did.
type Stats struct {
	Sent, SentBytes         uint64 // sealed packets
	Received, ReceivedBytes uint64 // packets that opened
	Feedbacks               uint64 // sent
	Acked, Lost, Spurious   uint64 // packets; those in Spurious counted as lost and arrived
	Blocked                 uint64 // how often the socket took no more

	Drops [drops]uint64 // packets that were dropped on arrival, by reason; the first is for none
}

// Dropped returns how many packets were dropped on arrival, for all reasons together.
func (s Stats) Dropped() (n uint64) {
	for _, d := range s.Drops {
		n += d
	}
	return n
}

// Stats returns a copy of the counters.
func (s *Session) Stats() Stats { return s.stats }
