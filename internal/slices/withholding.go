package slices

// meanWithheld is the average number of slices between two that are withheld.
const meanWithheld = 500

// A withholding picks the slices that we withhold. That is, we don't send them at first, but only
// when we would resend them if they had been lost, which the peer can't distinguish.
//
// This is our defense against a peer that acks slices it hasn't received, to get us to send faster
// than the path allows (RFC 9000, section 21.4). The packets of package chunk have no numbers that
// we could skip. Sooner or later, such a peer acks a slice that we have withheld.
//
// At the end of a transfer, a withheld slice is sent after all others, so that the transfer doesn't
// take longer. A peer that has made up acks isn't caught by that slice.
type withholding struct {
	random func(n int) int // nil if no slices are withheld
	left   int             // number of slices until one is withheld, counting that one; 0 if not drawn yet

	current uint64 // number of the withheld slice's record in the flight, plus one; 0 if there is none
	bytes   int    // content of that slice; 0 if there is none
	count   uint64 // slices withheld so far
}

// pick is called when a slice is about to be sent for the first time, and reports whether to
// withhold it. Only one slice is withheld at a time, and others don't count meanwhile. If the slice
// is the last one in the queue, none would follow it.
func (w *withholding) pick(last bool) bool {
	if w.random == nil || w.current != 0 {
		return false
	}
	if w.left == 0 {
		w.left = 2 + w.random(2*meanWithheld-2) // not 1, since the next slice may be the one just released
	}
	if w.left > 1 {
		w.left--
		return false
	}
	if last {
		return false
	}
	w.left = 0
	return true
}
