package sealed

// Stats counts what a session did.
type Stats struct {
	Sent, SentBytes         uint64 // sealed packets
	Received, ReceivedBytes uint64 // packets that opened
	Taken                   uint64 // payloads received
	Feedbacks               uint64 // sent
	Acked, Lost, Spurious   uint64 // packets; those in Spurious counted as lost and arrived
	Blocked                 uint64 // how often the socket took no more

	// Packets that were dropped on arrival.
	Size    uint64 // too short or too long
	Version uint64 // of another version
	Old     uint64 // below the replay window
	Replay  uint64 // received before
	Key     uint64 // of a generation whose key this end does not have
	Forged  uint64 // did not open
}

// Dropped returns how many packets were dropped on arrival, for all reasons together.
func (s Stats) Dropped() uint64 {
	return s.Size + s.Version + s.Old + s.Replay + s.Key + s.Forged
}

func (s *Stats) drop(why drop) {
	switch why {
	case dropSize:
		s.Size++
	case dropVersion:
		s.Version++
	case dropOld:
		s.Old++
	case dropReplay:
		s.Replay++
	case dropKey:
		s.Key++
	case dropForged:
		s.Forged++
	}
}

// Stats returns a copy of the counters.
func (s *Session) Stats() Stats { return s.stats }
