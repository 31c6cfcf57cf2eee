package pace

import "time"

// stand notices pauses in which the path delivered nothing. A radio that sleeps, scans or waits for the medium, and a host that
// takes a core away, hold all packets up for tens of milliseconds, several times a second, and then let them through at once. What
// those packets tell is for how long, and nothing of a queue or of the path's rate: taken for that it left a tenth of a path that stood
// still for half of the time.
type stand struct {
	least time.Duration // an arrival that is late by more follows one; 0 = none is looked for
	ended instant       // the latest one did, with an arrival by the receiver's clock
	lates int           // such arrivals in a row
}

// note takes an arrival, and by how much longer than the one before it was under way. After slowGaps in a row the path is slow.
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

// heldUp reports that a packet which was due then was there before the path went on.
func (s *stand) heldUp(due instant) bool { return due < s.ended }
