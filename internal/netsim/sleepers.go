package netsim

import (
	"time"

	"github.com/quivernet/quiver/internal/bell"
)

// sleepers are the goroutines that wait in ReadFrom of one socket. The socket's mu guards
// count and armed. A token in wake, or the timer, wakes one of them. A reader that returns
// wakes the next.
type sleepers struct {
	count int // number of waiting goroutines
	wake  bell.Bell
	timer *time.Timer
	armed time.Time // when timer fires; zero = never
}

func newSleepers() sleepers {
	s := sleepers{wake: bell.New(), timer: time.NewTimer(time.Hour)}
	s.timer.Stop()
	return s
}

// arm sets the timer for the time at. A zero time stops it.
func (s *sleepers) arm(now, at time.Time) {
	s.armed = at
	if at.IsZero() {
		s.timer.Stop()
	} else {
		s.timer.Reset(at.Sub(now))
	}
}

// wakeOne wakes a goroutine, if one waits.
func (s *sleepers) wakeOne() {
	if s.count == 0 {
		return
	}
	s.wake.Ring()
}
