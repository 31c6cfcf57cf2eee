package pace

const (
	// fitPart is what part of a short queue looks may fill, once the queue has dropped packets
	// of one. Since we cruise at a third of the queue, such a look loses nothing by itself.
	//
	// To look with a quarter of the rate would be too much. With the largest share, such a look
	// makes the queue drop everybody's packets, and everybody yields except for the one who
	// looked. Eight controllers that began together on 1 Gbit/s, over a queue of an eighth of
	// the bandwidth-delay product, never became equal that way.
	fitPart = 0.5

	// minFit is what a look adds in any case. We couldn't tell a smaller rise from noise.
	minFit = 0.1
)

// A fitting limits looks on a path whose short queue has dropped packets of one.
type fitting struct {
	dropped instant // when it last did that; 0 = never
	times   float64 // how many times fitPart the next look may fill
}

// drop is called when a short queue has dropped packets of a look.
func (f *fitting) drop(t instant) { *f = fitting{dropped: t, times: 1} }

// found is called after a look that has found more rate. If nobody else seems to use the path,
// the next look may fill twice as much.
func (f *fitting) found(others bool) {
	if !others {
		f.times *= 2
	}
}

// maxExtra returns how much a look may add so that a short queue holds it, as a part of the
// rate. There is no limit if it's 0.
//
// The queue's size in bytes follows from the highest rate that we have ever estimated for the
// path. Because of that, all controllers add about the same number of bytes, which is a larger
// part of a small share than of a large one.
func (f *fitting) maxExtra(t instant, d *delay, fastest, rate float64) float64 {
	if f.dropped == 0 || t-f.dropped > minimumLife || !d.short() {
		return 0
	}
	bytes := fitPart * f.times * d.depth.Seconds() * fastest
	return max(bytes/(rate*d.reach().Seconds()), minFit)
}

// fits reports whether a look that adds no more than maxExtra loses nothing by itself. It might,
// if that is only minFit, or if the look may fill more than fitPart.
func (f *fitting) fits(maxExtra float64) bool { return maxExtra > minFit && f.times <= 1 }
