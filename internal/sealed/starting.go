package sealed

import "sync/atomic"

// starting counts a session among those of its owner that start to send bulk, for as long as it starts.
type starting struct {
	all     *atomic.Int32 // SessionConfig.Starting
	counted bool          // this session is in all
}

// note says whether the session starts to send bulk now.
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

// among returns how many sessions start now, this one included.
func (s *starting) among() int {
	if s.all == nil {
		return 1
	}
	return int(s.all.Load())
}
