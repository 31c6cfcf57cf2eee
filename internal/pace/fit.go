package pace

const (
	// fit is the part of a short queue that looks may fill once the queue has dropped
	// packets of a look. Cruise steers for a third of the queue, so such a look loses
	// nothing by itself. A look of a quarter of the rate would not do: the look of
	// the controller with the largest share would cause everybody's packets to be
	// dropped, and it alone would not yield. Eight controllers that began together on
	// 1 Gbit/s, over a queue of an eighth of the product, stayed unequal.
	fit = 0.5
	// leastFit is the least that a look adds all the same: a smaller rise
	// cannot be told from noise.
	leastFit = 0.1
)

// A fitting limits looks after a short queue has dropped packets of one.
type fitting struct {
	dropped instant // when a short queue last did so; 0 = never
	times   float64 // factor of fit that the next look may fill
}

// drop records that a short queue has dropped packets of a look.
func (f *fitting) drop(t instant) { *f = fitting{dropped: t, times: 1} }

// found doubles how much looks may fill, after a look that has found more rate
// while nobody else seems to use the path.
func (f *fitting) found(others bool) {
	if !others {
		f.times *= 2
	}
}

// most returns the most that a look may add, as a part of the rate, so that a
// short queue holds it; 0 = no limit. The bytes of that queue follow from the
// fastest rate that was ever believed of the path. So all controllers add about
// the same number of bytes, which is a larger part of a small share.
func (f *fitting) most(t instant, d *delay, fastest, rate float64) float64 {
	if f.dropped == 0 || t-f.dropped > minimumLife || !d.short() {
		return 0
	}
	bytes := fit * f.times * d.depth.Seconds() * fastest
	return max(bytes/(rate*d.reach().Seconds()), leastFit)
}

// fits reports whether a look that adds no more than most loses nothing by itself.
// It may lose packets if most is leastFit, or if the look may fill more than fit.
func (f *fitting) fits(most float64) bool { return most > leastFit && f.times <= 1 }
