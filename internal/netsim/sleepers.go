package netsim

import "time"

// sleepers are the goroutines that wait in ReadFrom of one socket, whose mu guards all fields. One token in wake wakes one of them, and a reader
// that leaves wakes the next.
type sleepers struct {
	count int
	wake  chan struct{} // capacity 1
	armed time.Time     // when they wake up by themselves; zero = never
	spare *time.Timer   // stopped, for the next reader; nil = none
}

// begin counts a reader that goes to sleep until a time, and returns the timer that wakes it; nil when the time is zero, which is never.
func (s *sleepers) begin(now, until time.Time) (timer *time.Timer) {
	s.count++
	s.armed = until
	if until.IsZero() {
		return nil
	}
	timer, s.spare = s.spare, nil
	if timer == nil {
		return time.NewTimer(until.Sub(now))
	}
	timer.Reset(until.Sub(now))
	return timer
}

// end counts a reader that has woken up, and keeps its timer for the next.
func (s *sleepers) end(timer *time.Timer) {
	s.count--
	if timer != nil {
		timer.Stop()
		s.spare = timer
	}
}

// wakeOne passes a token to a reader, if one sleeps.
func (s *sleepers) wakeOne() {
	if s.count == 0 {
		return
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// wakeBefore wakes a reader if they would sleep beyond a time.
func (s *sleepers) wakeBefore(at time.Time) {
	if s.armed.IsZero() || at.Before(s.armed) {
		s.wakeOne()
	}
}
