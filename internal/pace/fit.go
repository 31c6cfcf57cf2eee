package pace

const (
	// fitPart is the part of a short queue that looks may fill once the queue has dropped
	// packets of a look. Cruise steers for a third of the queue, so such a look loses
	// nothing by itself.
	//
	// A look of a quarter of the rate would be too much. The look of the controller with
	// the largest share would make the queue drop everybody's packets, and this
	// controller alone would not yield. With such looks, eight controllers that began
	// together on 1 Gbit/s, over a queue of an eighth of the product, stayed unequal.
	fitPart = 0.5
	// minFit is the minimum that a look adds all the same. A smaller rise cannot be told
	// from noise.
	minFit = 0.1
)

// A fitting limits looks after a short queue dropped packets of one.
type fitting struct {
	dropped instant // when a short queue last dropped them; 0 = never
	times   float64 // multiple of fitPart that the next look may fill
}

// drop records that a short queue dropped packets of a look.
func (f *fitting) drop(t instant) { *f = fitting{dropped: t, times: 1} }

// found doubles the part that looks may fill, after a look that found more rate while
// nobody else seems to use the path.
func (f *fitting) found(others bool) {
	if !others {
		f.times *= 2
	}
}

// maxExtra returns the maximum that a look may add, as a part of the rate, for a short
// queue to hold it; 0 = no limit.
//
// The bytes of that queue follow from the fastest rate ever estimated for the path. So
// all controllers add about the same number of bytes, which is a larger part of a small
// share.
func (f *fitting) maxExtra(t instant, d *delay, fastest, rate float64) float64 {
	if f.dropped == 0 || t-f.dropped > minimumLife || !d.short() {
		return 0
	}
	bytes := fitPart * f.times * d.depth.Seconds() * fastest
	return max(bytes/(rate*d.reach().Seconds()), minFit)
}

// fits reports whether a look that adds no more than maxExtra loses nothing by itself. It
// may lose packets if maxExtra is minFit, or if the look may fill more than fitPart.
func (f *fitting) fits(maxExtra float64) bool { return maxExtra > minFit && f.times <= 1 }
