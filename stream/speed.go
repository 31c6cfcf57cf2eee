package stream

import "time"

const (
	// speedTime is the time over which a speed is measured. It is long enough to include
	// several reports of the receiver. It is short enough that the remaining time which a game
	// derives from the speed is soon right after a change.
	speedTime = 5 * time.Second
	// speedStep is the minimum time between a mark and the second mark before it.
	speedStep = time.Second
	// minSpeedTime is the minimum time that a transfer must last before it has a speed.
	// Content that arrives in the first moment would give a huge speed.
	minSpeedTime = time.Second / 2
)

// speed measures how fast the Acked of one transfer grows. The zero speed is not started, and
// has a speed of 0. The lock of the transfer guards it.
type speed struct {
	begin  time.Time // set by start
	resume int64     // Acked at begin

	// marks is a ring, and count is the number of marks ever made. A note overwrites the
	// newest mark, unless speedStep has passed since the second newest. In that case it adds a
	// mark. Two marks in a row therefore cover speedStep or more, and the ring reaches back at
	// least speedTime.
	marks [2*int(speedTime/speedStep) + 2]speedMark
	count int

	ended bool    // the transfer is complete; set by end
	mean  float64 // bytes or elements per second from start to end; set by end
}

// speedMark is the value of Acked at one time.
type speedMark struct {
	after time.Duration // since begin
	acked int64
}

// start begins the measurement. acked is the value of Acked at now, which is more than 0 if
// the transfer is resumed.
func (s *speed) start(now time.Time, acked int64) {
	*s = speed{begin: now, resume: acked, count: 1}
	s.marks[0].acked = acked
}

// mark returns the last-th newest mark. mark(1) is the newest.
func (s *speed) mark(last int) *speedMark { return &s.marks[(s.count-last)%len(s.marks)] }

// note records the value of Acked at now, if it has changed.
func (s *speed) note(now time.Time, acked int64) {
	after := now.Sub(s.begin)
	switch {
	case s.count == 0 || acked == s.mark(1).acked:
		return
	case s.count == 1 || after-s.mark(2).after >= speedStep:
		s.count++
	}
	*s.mark(1) = speedMark{after, acked}
}

// end is called when the transfer is complete. From then on, the speed is the mean over the
// whole transfer.
func (s *speed) end(now time.Time, acked int64) {
	took := now.Sub(s.begin).Seconds()
	if s.count > 0 && took > 0 {
		s.mean = float64(acked-s.resume) / took
	}
	s.ended = true
}

// at returns the speed at now, which is the growth of Acked per second.
func (s *speed) at(now time.Time) float64 {
	if s.ended || s.count == 0 {
		return s.mean
	}

	// Measure from the newest mark that is at least speedTime old, or else from the first. No
	// mark is made while nothing arrives, so the mark found may be much older. Count what was
	// acked since then as if it had taken at most 6 s. Otherwise, a transfer that continues
	// after a pause would look slow.
	after := now.Sub(s.begin)
	from := s.mark(1)
	for last := 2; last <= min(s.count, len(s.marks)) && after-from.after < speedTime; last++ {
		from = s.mark(last)
	}
	took := min(after-from.after, speedTime+speedStep)
	if took < minSpeedTime {
		return 0
	}
	return float64(s.mark(1).acked-from.acked) / took.Seconds()
}
