package pace

import "time"

// A stand detects stands: pauses in which the path delivers nothing.
//
// A radio that sleeps, scans or waits for the medium, or a host that takes a core away,
// holds up all packets for tens of milliseconds, several times a second. Then it lets
// them through at once. Their delay shows the length of the stand, and nothing about a
// queue or the path's rate. A controller that took it for a queue used a tenth of a path
// that stood still for half of the time.
type stand struct {
	// Lateness beyond which an arrival ends a stand; 0 = no arrival does; set by learn.
	threshold time.Duration
	ended     instant // arrival that ended the latest stand, by peerClock; 0 = there was none
	lates     int     // consecutive arrivals later than threshold
}

// note records an arrival and its lateness; see delivery.late. After slowGaps consecutive
// late arrivals the path is slow, and there was no stand.
func (s *stand) note(arrived instant, late time.Duration) {
	if s.threshold == 0 || late <= s.threshold {
		s.lates = 0
		return
	}
	s.lates++
	if s.lates < slowGaps {
		s.ended = arrived
	} else {
		s.ended = 0
	}
}

// heldUp reports whether the latest stand held up a packet that was due at the given
// time.
func (s *stand) heldUp(due instant) bool { return due < s.ended }
