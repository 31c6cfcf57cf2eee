package relevancy

import "time"

// Round spreads the work of one visit to each of many items over the Flushes of a period.
type Round struct{ owed time.Duration } // time that passed, once for each item; a period of it is one item's turn

// Take returns how many of n items are due when passed time has passed since the last call.
func (r *Round) Take(n int, passed, period time.Duration) int {
	r.owed += min(passed, period) * time.Duration(n)
	due := r.owed / period
	r.owed -= due * period
	return min(int(due), n)
}

// Sweep visits each item of a list once in a period, some of them in each Flush, and begins anew behind the last one.
type Sweep struct {
	round Round
	left  int // items that this Flush has still to visit
	at    int // index of the item that was visited last
}

// Begin decides how many of n items this Flush visits, when passed time has passed since the last one.
func (s *Sweep) Begin(n int, passed, period time.Duration) { s.left = s.round.Take(n, passed, period) }

// More reports whether this Flush has items left to visit, of n.
func (s *Sweep) More(n int) bool { return s.left > 0 && n > 0 }

// Next returns the index of the item to visit next, of n. It counts as visited, even when the visit panics.
func (s *Sweep) Next(n int) int {
	s.left--
	s.at = (s.at + 1) % n
	return s.at
}

// Upcoming returns the index that Next returns next, or one above the last.
func (s *Sweep) Upcoming() int { return s.at + 1 }

// GoOn makes Next go on with index i: the items have moved.
func (s *Sweep) GoOn(i int) { s.at = i - 1 }

// Removed notes that the item with index i leaves the list, so that the sweep misses none of those behind it.
func (s *Sweep) Removed(i int) {
	if i <= s.at {
		s.at--
	}
}
