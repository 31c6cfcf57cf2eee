package timers

import "time"

// entry is a time that a timer is set to. To find the first of a thousand one compares entries, and does not look at the timers.
type entry struct {
	at    time.Duration
	timer *Timer
}

// heap has the first entry in front: those behind one, at 2n+1 and 2n+2, are not earlier. Each timer knows its place.
type heap []entry

func (h heap) put(n int, e entry) { h[n], e.timer.place = e, n+1 }

// fix moves the entry at n, whose time has changed, to where it belongs.
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

// set adds an entry, or puts it in place of the one that its timer has.
func (h *heap) set(e entry) {
	if e.timer.place == 0 {
		*h = append(*h, e)
		e.timer.place = len(*h)
	}
	n := e.timer.place - 1
	(*h)[n] = e
	h.fix(n)
}

// remove takes out the entry at n, and returns its timer.
func (h *heap) remove(n int) *Timer {
	s, t := *h, (*h)[n].timer
	last := len(s) - 1
	s[n], s[last] = s[last], entry{}
	*h, t.place = s[:last], 0
	if n < last {
		h.fix(n)
	}
	return t
}
