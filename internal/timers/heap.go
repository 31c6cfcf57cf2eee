package timers

import "time"

// entry is a time that a timer was set to. Its place in memory is the heap's: to look for the first of a thousand one need not look at the timers.
type entry struct {
	at     time.Duration
	timer  *Timer
	number uint // of the Set
}

// stale reports whether the timer was stopped or set anew.
func (e entry) stale() bool { return e.number != e.timer.number }

// heap has the first entry in front: those behind one, at 2n+1 and 2n+2, are not earlier.
type heap []entry

func (h *heap) push(e entry) {
	*h = append(*h, e)
	s := *h
	for n := len(s) - 1; n > 0 && e.at < s[(n-1)/2].at; n = (n - 1) / 2 {
		s[n], s[(n-1)/2] = s[(n-1)/2], e
	}
}

// pop takes out the first entry.
func (h *heap) pop() entry {
	s := *h
	first, last := s[0], len(s)-1
	s[0], s[last] = s[last], entry{}
	*h = s[:last]
	s[:last].sink()
	return first
}

// sink puts the entry in front where it belongs.
func (h heap) sink() {
	for n, child := 0, 1; child < len(h); n, child = child, 2*child+1 {
		if child+1 < len(h) && h[child+1].at < h[child].at {
			child++
		}
		if h[n].at <= h[child].at {
			return
		}
		h[n], h[child] = h[child], h[n]
	}
}
