package stream

import "time"

const (
	// speedTime is the time over which a speed is measured: a few reports of a receiver must fall into it, and after a change a bar that shows
	// what is left should not mislead for long.
	speedTime = 5 * time.Second
	// speedStep is the least time between a mark and the last but one before it.
	speedStep = time.Second
	// speedLeast is the time before which there is no speed: what came at once would make a huge one.
	speedLeast = time.Second / 2
)

// speed measures how fast the Acked of one transfer grows. It has no clock: each call tells it the time. What guards the transfer guards it. The
// zero speed has not begun, and is 0.
type speed struct {
	begin  time.Time
	resume int64 // Acked at begin

	// A ring of marks, and how many there ever were. A note overwrites the last one, unless it comes speedStep or more after the last but one: then
	// it adds a mark. So the ring reaches back speedTime at least.
	marks [2*int(speedTime/speedStep) + 2]speedMark
	count int

	ended bool    // the transfer is complete
	mean  float64 // of all of it, once it has ended
}

// speedMark says how much was acked after some time.
type speedMark struct {
	after time.Duration // since begin
	acked int64
}

// start begins at what was acked then, and forgets what was before.
func (s *speed) start(now time.Time, acked int64) {
	*s = speed{begin: now, resume: acked, count: 1}
	s.marks[0].acked = acked
}

// mark returns one of the last marks: 1 is the last.
func (s *speed) mark(last int) *speedMark { return &s.marks[(s.count-last)%len(s.marks)] }

// note notes what is acked now, if it is more than before.
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

// end notes that all was acked.
func (s *speed) end(now time.Time, acked int64) {
	if took := now.Sub(s.begin).Seconds(); s.count > 0 && took > 0 {
		s.mean = float64(acked-s.resume) / took
	}
	s.ended = true
}

// at returns the speed, in what was acked a second.
func (s *speed) at(now time.Time) float64 {
	if s.ended || s.count == 0 {
		return s.mean
	}

	// Since the newest mark that is older than speedTime, or the first. No mark is made while nothing moves, so that may be much older; what was
	// acked since then counts as if it had come in the last 6 s.
	after, from := now.Sub(s.begin), s.mark(1)
	for last := 2; last <= min(s.count, len(s.marks)) && after-from.after < speedTime; last++ {
		from = s.mark(last)
	}
	took := min(after-from.after, speedTime+speedStep)
	if took < speedLeast {
		return 0
	}
	return float64(s.mark(1).acked-from.acked) / took.Seconds()
}
