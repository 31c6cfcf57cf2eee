package netsim

import (
	"time"

	"github.com/quivernet/quiver/internal/bell"
)

// sleepers are the goroutines that wait in ReadFrom of one socket, whose mu guards count and
// armed. A token in wake, or the timer, wakes one of them; a reader that returns wakes the next.
type sleepers struct {
	count int // number of goroutines that wait
	wake  bell.Bell
	timer *time.Timer
	armed time.Time // when timer fires; zero = never
}

func newSleepers() sleepers {
	s := sleepers{wake: bell.New(), timer: time.NewTimer(time.Hour)}
	s.timer.Stop()
	return s
}

// arm sets the timer for the time at; a zero time stops it.
func (s *sleepers) arm(now, at time.Time) {
	if s.armed = at; at.IsZero() {
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
