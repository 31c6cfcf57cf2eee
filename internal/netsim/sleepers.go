package netsim

import (
	"time"

	"github.com/quivernet/quiver/internal/bell"
)

// sleepers are the goroutines that wait in ReadFrom of one socket. wake or the timer wakes one of
// them, which wakes the next one when it returns. The socket's mu guards count and armed.
type sleepers struct {
	count int // number of waiting goroutines
	wake  bell.Bell
	timer *time.Timer
	armed time.Time // when timer fires; zero if it isn't set
}

func newSleepers() sleepers {
	s := sleepers{wake: bell.New(), timer: time.NewTimer(time.Hour)}
	s.timer.Stop()
	return s
}

// arm sets the timer to the time at, or stops it if that is zero.
func (s *sleepers) arm(now, at time.Time) {
	s.armed = at
	if at.IsZero() {
		s.timer.Stop()
	} else {
		s.timer.Reset(at.Sub(now))
	}
}

// wakeOne wakes a goroutine, if one is waiting.
func (s *sleepers) wakeOne() {
	if s.count == 0 {
		return
	}
	s.wake.Ring()
}
