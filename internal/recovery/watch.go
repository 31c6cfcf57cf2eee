package recovery

const (
	// standBatches is how many batches of round trips in a row (see RTT.Recent) a queue must stand
	// before we drain to find out whose it is.
	standBatches = 4

	// fallen is the part of its peak below which a rate has fallen rather than varied.
	fallen = 7. / 8
)

// A watch looks out for what should make us drain before the minimum RTT expires: a queue that
// stands, or a rate that keeps falling.
type watch struct {
	batch    int     // RTT.Rounds when standing was last updated
	standing int     // batches of round trips in a row that showed a queue
	peak     float64 // highest rate since the start began or the last drain ended
}

// addBatch is called when a batch of round trips is full. queue says whether all of them met a
// queue that may be ours.
func (w *watch) addBatch(batch int, queue bool) {
	w.batch = batch
	w.standing++
	if !queue {
		w.standing = 0
	}
}

// stoodLong reports whether a queue has stood for so long that we want to know whose it is.
func (w *watch) stoodLong() bool { return w.standing >= standBatches }

// addRate is called with the rate after each sample.
func (w *watch) addRate(rate float64) { w.peak = max(w.peak, rate) }

// hasFallen reports whether the rate is so far below its peak that it has fallen.
func (w *watch) hasFallen(rate float64) bool { return rate < w.peak*fallen }

// renew is called when a drain has ended, with the rate.
func (w *watch) renew(rate float64) {
	w.standing = 0
	w.peak = rate
}
