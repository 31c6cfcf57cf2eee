package fragment

// Stats counts packets and blocks by their fate.
type Stats struct {
	Packets   uint64 // given to Receive
	Fragments uint64 // stored, or a block by themselves
	Blocks    uint64 // returned, including regular packets

	Duplicates uint64 // packets received before
	Stale      uint64 // packets of blocks that are too old or were dropped
	Ahead      uint64 // packets too far ahead
	Refused    uint64 // packets that are damaged, malformed, or over a limit

	Passed  uint64 // incomplete blocks dropped because newer ones needed their place
	Expired uint64 // incomplete blocks dropped at the end of their Lifetime
	Evicted uint64 // incomplete blocks dropped for room within MaxBytes
}

func (s *Stats) refuse(err error) {
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
