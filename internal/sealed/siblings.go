package sealed

import "sync/atomic"

// Siblings are the sessions of one owner, which may share an uplink. It is safe for concurrent use.
type Siblings struct {
	starting atomic.Int32 // those that start to send bulk
}

// among counts a session among those of its siblings that do something.
type among struct {
	all     *atomic.Int32 // of Siblings; nil = the session has none
	counted bool          // this session is in all
}

// note says whether the session does it now.
func (a *among) note(does bool) {
	switch {
	case a.all == nil || a.counted == does:
	case does:
		a.all.Add(1)
	default:
		a.all.Add(-1)
	}
	a.counted = does
}

// count returns how many sessions do it now, this one included.
func (a *among) count() int {
	if a.all == nil {
		return 1
	}
	return int(a.all.Load())
}
