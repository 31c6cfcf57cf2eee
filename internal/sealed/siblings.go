package sealed

import (
	"sync"
	"sync/atomic"
	"time"
)

// leastPart is the least part of all that compete that must share a queue: an uplink that is full stands before all of them. Of 64 homes that have
// links alike some see the same by chance.
const leastPart = 1. / 3

// Siblings are the sessions of one owner, which may share an uplink. It is safe for concurrent use.
type Siblings struct {
	starting atomic.Int32 // those that start to send bulk

	begin sync.Once
	epoch time.Time // when the first one heard from its peer; begin sets it

	mu        sync.Mutex
	competing map[*competitor]struct{} // those that lately seemed to have a competitor; mu guards what is in them, too
}

// since returns the time from which all of them count; now is that of the first call. A clock that is set meanwhile changes nothing.
func (s *Siblings) since(now time.Time) time.Time {
	s.begin.Do(func() { s.epoch = now })
	return s.epoch
}

// together returns how many of those that compete move together with c; 0 = too few to share the uplink. The caller holds mu.
func (s *Siblings) together(c *competitor) (n int) {
	for other := range s.competing {
		if c.movesWith(other) {
			n++
		}
	}
	if float64(n) < leastPart*float64(len(s.competing)) {
		return 0
	}
	return n
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
