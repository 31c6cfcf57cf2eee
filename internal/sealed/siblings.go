package sealed

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// leastPart is the least part of all that compete that must share a queue: an uplink that is full stands before all of them. Of 64 homes that
	// have links alike some see the same by chance.
	leastPart = 1. / 3
	// mostCompared bounds how many are compared, each with all others once a second: peers may say that they compete although they do not.
	mostCompared = 512
)

// Siblings are the sessions of one owner, which may share an uplink, as may their peers. It is safe for concurrent use.
type Siblings struct {
	starting atomic.Int32 // those that start to send bulk

	begin sync.Once
	epoch time.Time // when the first one heard from its peer; begin sets it

	senders competitors // those that lately seemed to have a competitor
	peers   competitors // those whose peer says that it has one: two of them may upload over one home's link
}

// competitors are sessions that compete, or whose peers do. mu guards what is in them, too.
type competitors struct {
	mu  sync.Mutex
	all map[*competitor]struct{}
}

// since returns the time from which all of them count; now is that of the first call. A clock that is set meanwhile changes nothing.
func (s *Siblings) since(now time.Time) time.Time {
	s.begin.Do(func() { s.epoch = now })
	return s.epoch
}

// together returns how many of them move together with c; 0 = too few to share an uplink, or too many to look at. The caller holds mu.
func (s *competitors) together(c *competitor) (n int) {
	if len(s.all) > mostCompared {
		return 0
	}
	for other := range s.all {
		if c.movesWith(other) {
			n++
		}
	}
	if float64(n) < leastPart*float64(len(s.all)) {
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
