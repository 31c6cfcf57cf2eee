package pace

import "time"

// A stand is a detector of stands, which are pauses in which the path delivers nothing.
//
// A radio that sleeps, scans or waits for the medium does this, and so does a host that takes
// away a core. They hold up all packets for tens of milliseconds, several times a second, and
// then let them through all at once. The delay of those packets shows how long the stand was,
// but says nothing about a queue or about the path's rate. A controller that took it for a queue
// used a tenth of a path that stood still half of the time.
type stand struct {
	threshold time.Duration // how late an arrival must be to end a stand; 0 = none can; set by learn
	ended     instant       // the arrival that ended the latest stand, by peerClock; 0 = there was none
	lates     int           // how many arrivals in a row have been later than threshold
}

// note adds an arrival and how late it is; see delivery.late. If slowGaps arrivals in a row are
// late, the path is slow, and it wasn't a stand.
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

// heldUp reports whether the latest stand has held up a packet that was due at a certain time.
func (s *stand) heldUp(due instant) bool { return due < s.ended }
