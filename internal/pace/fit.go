package pace

const (
	// fit is the part of a short queue that a look fills after one whose packets it has dropped. Cruising steers for a third of it, so that such a
	// look loses nothing by itself. Otherwise who has most of the path would drop everybody's packets with a look of a quarter of that, and be
	// the only one who does not yield: eight that began together on 1 Gbit/s over an eighth of the product stayed unequal.
	fit = 0.5
	// leastFit is the least that a look adds all the same: a smaller rise cannot be told from noise.
	leastFit = 0.1
)

// fitting is how large looks may be, since a short queue has dropped packets of one.
type fitting struct {
	dropped instant // when that was; 0 = never
	times   float64 // how many times fit the next look may fill
}

// drop notes that a short queue has dropped packets of a look.
func (f *fitting) drop(t instant) { *f = fitting{dropped: t, times: 1} }

// found doubles how much looks may fill, after one that has found more while nobody else seems to be there: so room is soon found again.
func (f *fitting) found(others bool) {
	if !others {
		f.times *= 2
	}
}

// most returns the most that a look may add, as a part of the rate, for a short queue to hold it; 0 = no bound. How many bytes that queue has follows
// from the greatest rate that was ever believed of the path: so all add the same, and who has little of the path the most for it.
func (f *fitting) most(t instant, d *delay, fastest, rate float64) float64 {
	if f.dropped == 0 || t-f.dropped > minimumLife || !d.short() {
		return 0
	}
	bytes := fit * f.times * d.depth.Seconds() * fastest
	return max(bytes/(rate*d.reach().Seconds()), leastFit)
}

// fits reports whether a look that adds no more than most loses nothing by itself: not when that is leastFit, nor when it may fill twice fit.
func (f *fitting) fits(most float64) bool { return most > leastFit && f.times <= 1 }
