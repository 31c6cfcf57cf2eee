package pace

const (
	// fitPart is the part of a short queue that looks may fill after the queue dropped packets of a
	// look. Since we cruise with a third of the queue filled, such a look alone loses nothing.
	//
	// A look with a quarter more than the rate would be too large. If the flow with the largest
	// share did that, the queue would drop packets of all flows, and all of them would yield except
	// for the one that looked. Eight controllers that begin together at 1 Gbit/s, over a queue of
	// an eighth of the bandwidth-delay product, would never become equal.
	fitPart = 0.5

	// minFit is the minimum that a look adds. A smaller rise couldn't be told from noise.
	minFit = 0.1
)

// A fitting limits looks on a path whose short queue dropped packets of a look.
type fitting struct {
	dropped instant // when it last did so; 0 = never
	times   float64 // the next look may fill this many times fitPart
}

// drop is called when a short queue dropped packets of a look.
func (f *fitting) drop(t instant) { *f = fitting{dropped: t, times: 1} }

// found is called after a look that found more rate. Unless others seem to use the path, the next
// look may fill twice as much.
func (f *fitting) found(others bool) {
	if !others {
		f.times *= 2
	}
}

// maxExtra returns how much a look may add, as a part of the rate, for a short queue to hold it. 0
// means no limit.
//
// It computes the size of the queue in bytes from the highest rate ever estimated for the path.
// Therefore all controllers add about the same number of bytes, which is a larger part of a small
// share than of a large one.
func (f *fitting) maxExtra(t instant, d *delay, fastest, rate float64) float64 {
	if f.dropped == 0 || t-f.dropped > minimumLife || !d.short() {
		return 0
	}
	bytes := fitPart * f.times * d.depth.Seconds() * fastest
	return max(bytes/(rate*d.reach().Seconds()), minFit)
}

// fits reports whether a look that adds no more than maxExtra can't overflow the queue on its own.
// It can if maxExtra is only minFit, or if the look may fill more than fitPart.
func (f *fitting) fits(maxExtra float64) bool { return maxExtra > minFit && f.times <= 1 }
