package sealed

// Stats counts what a session did.
type Stats struct {
	Sent, SentBytes         uint64 // sealed packets
	Received, ReceivedBytes uint64 // that opened
	Payloads, PayloadBytes  uint64 // sent
	Taken, TakenBytes       uint64 // payloads received
	Feedbacks               uint64 // sent
	Probes                  uint64
	Acked, Lost, Spurious   uint64 // packets
	Blocked                 uint64 // the socket took no more

	// Packets that were dropped on arrival.
	Size    uint64 // too short or too long
	Version uint64 // of a version that is not ours
	Old     uint64 // below the replay window
	Replay  uint64
	Key     uint64 // of a key that is not held
	Forged  uint64 // that did not open
}

// Dropped returns how many packets were dropped on arrival for whatever reason.
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
