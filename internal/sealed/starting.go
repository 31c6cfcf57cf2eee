package sealed

import "sync/atomic"

// starting keeps a session in the count of those of its owner that start to send bulk, while it does.
type starting struct {
	all     *atomic.Int32 // SessionConfig.Starting
	counted bool          // in it
}

// note counts the session when it starts, and not when it does not.
func (s *starting) note(starts bool) {
	switch {
	case s.all == nil || s.counted == starts:
	case starts:
		s.all.Add(1)
	default:
		s.all.Add(-1)
	}
	s.counted = starts
}

// among returns how many start, this session included.
func (s *starting) among() int {
	if s.all == nil {
		return 1
	}
	return int(s.all.Load())
}
