package timers

import "time"

// An entry is the time to which a timer is set. The heap holds entries rather than timers, because
// they are adjacent in memory, which makes it faster to compare their times.
type entry struct {
	at    time.Duration
	timer *Timer
}

// A heap is a binary heap with the earliest entry first. The children of n, at 2n+1 and 2n+2, are
// not earlier than n. Each timer knows the index of its entry.
type heap []entry

// put puts e at index n.
func (h heap) put(n int, e entry) {
	h[n] = e
	e.timer.place = n + 1
}

// fix moves the entry at n, whose time changed, to its place in the heap.
func (h heap) fix(n int) {
	e := h[n]
	for n > 0 && e.at < h[(n-1)/2].at {
		h.put(n, h[(n-1)/2])
		n = (n - 1) / 2
	}
	for child := 2*n + 1; child < len(h); child = 2*n + 1 {
		if child+1 < len(h) && h[child+1].at < h[child].at {
			child++
		}
		if e.at <= h[child].at {
			break
		}
		h.put(n, h[child])
		n = child
	}
	h.put(n, e)
}

// set adds an entry or replaces its timer's entry.
func (h *heap) set(e entry) {
	if e.timer.place == 0 {
		*h = append(*h, e)
		e.timer.place = len(*h)
	}
	n := e.timer.place - 1
	(*h)[n] = e
	h.fix(n)
}

// remove removes the entry at n and returns its timer.
func (h *heap) remove(n int) *Timer {
	s := *h
	t := s[n].timer
	t.place = 0
	last := len(s) - 1
	s[n] = s[last]
	s[last] = entry{}
	*h = s[:last]
	if n < last {
		h.fix(n)
	}
	return t
}
