package sealed

import "github.com/quivernet/quiver/internal/pace"

// startWith tells the controller, in its Start, how many bytes wait, and how many others of the owner start.
func (s *Session) startWith(waiting int) {
	s.control.Waiting(waiting)
	counter := s.config.Starting
	if counter == nil {
		return
	}
	if !s.starting && waiting > trainPackets*s.size() { // less is a first flight whatever others do
		s.starting = true
		counter.Add(1)
	}
	s.control.Starters(int(counter.Load()), s.records.bytes)
}

// noteStart counts the session no longer when its start has ended, or all that it had to send has.
func (s *Session) noteStart() {
	if s.starting && (s.state == Closed || s.control.State() != pace.Start || s.records.bytes == 0) {
		s.starting = false
		s.config.Starting.Add(-1)
	}
}
