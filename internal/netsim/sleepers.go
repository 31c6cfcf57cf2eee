package netsim

import (
	"time"

	"github.com/quivernet/quiver/internal/bell"
)

// sleepers are the goroutines that wait in ReadFrom of one socket, whose mu guards count and armed. One token in wake, or the timer, wakes one
// of them, and a reader that leaves wakes the next.
type sleepers struct {
	count int
	wake  bell.Bell
	timer *time.Timer
	armed time.Time // when timer wakes one; zero = never
}

func newSleepers() sleepers {
	s := sleepers{wake: bell.New(), timer: time.NewTimer(time.Hour)}
	s.timer.Stop()
	return s
}

// arm sets the timer; a zero time stops it.
func (s *sleepers) arm(now, at time.Time) {
	if s.armed = at; at.IsZero() {
		s.timer.Stop()
	} else {
		s.timer.Reset(at.Sub(now))
	}
}

// wakeOne passes a token to a reader, if one sleeps.
func (s *sleepers) wakeOne() {
	if s.count == 0 {
		return
	}
	s.wake.Ring()
}
