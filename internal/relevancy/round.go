package relevancy

import "time"

// A Round spreads one visit to each of many items over the Flushes of a period.
type Round struct {
	elapsed time.Duration // time since the last visits, summed over the items; a period of it is one visit
}

// Take returns the number of n items that are due. passed is the time since the last call.
func (r *Round) Take(n int, passed, period time.Duration) int {
	r.elapsed += min(passed, period) * time.Duration(n)
	due := r.elapsed / period
	r.elapsed -= due * period
	return min(int(due), n)
}

// A Sweep visits each item of a list once in a period, some of them in each Flush. It starts
// again after the last item.
type Sweep struct {
	round     Round
	remaining int // number of items that this Flush still has to visit
	last      int // index of the last visited item
}

// Begin decides how many of n items this Flush visits. passed is the time since the last
// Flush.
func (s *Sweep) Begin(n int, passed, period time.Duration) {
	s.remaining = s.round.Take(n, passed, period)
}

// More reports whether this Flush still has to visit one of n items.
func (s *Sweep) More(n int) bool { return s.remaining > 0 && n > 0 }

// Next returns the index of the next of n items to visit. The item counts as visited even if
// the visit panics.
func (s *Sweep) Next(n int) int {
	s.remaining--
	s.last = (s.last + 1) % n
	return s.last
}

// Upcoming returns the next result of Next, but n instead of 0.
func (s *Sweep) Upcoming() int { return s.last + 1 }

// GoOn makes Next continue with index i because the items have moved.
func (s *Sweep) GoOn(i int) { s.last = i - 1 }

// Removed is called when the item at index i is removed from the list, so that the sweep doesn't
// skip an item.
func (s *Sweep) Removed(i int) {
	if i <= s.last {
		s.last--
	}
}
