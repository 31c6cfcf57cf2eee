package pace

import "time"

// A stand detects stands: pauses in which the path delivers nothing. A radio that sleeps, scans
// or waits for the medium, or a host that takes a core away, holds up all packets for tens of
// milliseconds, several times a second, and then lets them through at once. Their delay shows
// how long the stand was, and nothing about a queue or the path's rate: a controller that took
// it for a queue used a tenth of a path that stood still for half of the time.
type stand struct {
	least time.Duration // an arrival that is later than this ends a stand; 0 = no arrival does; set by learn
	ended instant       // the arrival that ended the latest stand, by peerClock; 0 = there was none
	lates int           // arrivals in a row that were later than least
}

// note records an arrival and how late it is: see delivery.late. After slowGaps
// late ones in a row the path is slow, and there was no stand.
func (s *stand) note(arrived instant, late time.Duration) {
	if s.least == 0 || late <= s.least {
		s.lates = 0
		return
	}
	if s.lates++; s.lates < slowGaps {
		s.ended = arrived
	} else {
		s.ended = 0
	}
}

// heldUp reports whether the latest stand has held up a packet that was due at that time.
func (s *stand) heldUp(due instant) bool { return due < s.ended }
