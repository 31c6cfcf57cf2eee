package fragment

// Stats counts packets and blocks by what happened to them.
type Stats struct {
	Packets   uint64 // packets passed to Receive
	Fragments uint64 // packets accepted, including regular ones
	Blocks    uint64 // blocks returned, including regular packets

	// Packets rejected.
	Duplicates uint64 // received before
	Stale      uint64 // of a block that is too old or was dropped
	Ahead      uint64 // of a block too far ahead
	Refused    uint64 // damaged, malformed, or over a limit

	// Incomplete blocks dropped.
	Passed  uint64 // because newer blocks moved the window
	Expired uint64 // at the end of their Lifetime
	Evicted uint64 // to keep within MaxBytes
}

// countRefused counts a packet that Receive rejects with err.
func (s *Stats) countRefused(err error) {
	switch err {
	case ErrDuplicate:
		s.Duplicates++
	case ErrStale:
		s.Stale++
	case ErrAhead:
		s.Ahead++
	default:
		s.Refused++
	}
}
