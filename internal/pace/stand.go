package pace

import "time"

// A stand detects stands, which are pauses in which the path delivers nothing.
//
// A radio that sleeps, scans or waits for the medium causes them, and so does a hypervisor that
// takes away a core. They hold up all packets for tens of milliseconds, several times a second, and
// then deliver them all at once. The delay of those packets shows how long the stand was, but says
// nothing about a queue or about the path's rate. A controller that took it for a queue would use a
// tenth of a path that stands still half of the time.
type stand struct {
	threshold time.Duration // lateness that ends a stand; 0 = none does; set by Controller.learn
	ended     instant       // arrival that ended the latest stand, by peerClock; 0 = none
	lates     int           // how many arrivals in a row were later than threshold
}

// note adds an arrival and how late it is; see delivery.late. If slowGaps arrivals in a row are
// late, the path didn't stand still but is slow.
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

// heldUp reports whether the latest stand held up a packet that was due at the given time.
func (s *stand) heldUp(due instant) bool { return due < s.ended }
