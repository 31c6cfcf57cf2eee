package sealed

// Stats counts the events of a session.
type Stats struct {
	Sent, SentBytes         uint64 // sealed packets
	Received, ReceivedBytes uint64 // packets that opened
	Feedbacks               uint64 // feedback frames sent
	Acked, Lost, Spurious   uint64 // packets sent; Spurious ones were declared lost and acked later
	Blocked                 uint64 // times that the socket accepted no more packets

	Drops [drops]uint64 // received packets that were dropped, by reason; index kept is not used
}

// Dropped returns the number of received packets that were dropped for any reason.
func (s Stats) Dropped() (n uint64) {
	for _, d := range s.Drops {
		n += d
	}
	return n
}

// Stats returns a copy of the counters.
func (s *Session) Stats() Stats { return s.stats }
