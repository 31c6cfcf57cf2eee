package recovery

const (
	// standBatches is the number of consecutive batches of round trips (see RTT.Recent) for which a
	// queue must stand before we drain to find out whose it is. With fewer, queues that are about
	// to disappear would cause drains. With more, play would wait longer behind a queue of ours.
	standBatches = 4

	// fallenShare is the part of its peak below which a rate has fallen rather than varied.
	fallenShare = 7. / 8
)

// A watch looks for reasons to drain before the minimum RTT expires: a queue that stands, or a rate
// that keeps falling.
type watch struct {
	batch    int     // RTT.Rounds when standing was last updated
	standing int     // consecutive batches of round trips that showed a queue
	peak     float64 // highest rate since the start began or the last drain ended
}

// addBatch is called when a batch of round trips is full. queue is true if all of them met a queue
// that may be ours.
func (w *watch) addBatch(batch int, queue bool) {
	w.batch = batch
	w.standing++
	if !queue {
		w.standing = 0
	}
}

// stoodLong reports whether a queue has stood long enough for a drain.
func (w *watch) stoodLong() bool { return w.standing >= standBatches }

// addRate is called with the rate after each sample.
func (w *watch) addRate(rate float64) { w.peak = max(w.peak, rate) }

// hasFallen reports whether the rate has fallen well below its peak.
func (w *watch) hasFallen(rate float64) bool { return rate < w.peak*fallenShare }

// renew is called with the rate when a drain has ended.
func (w *watch) renew(rate float64) {
	w.standing = 0
	w.peak = rate
}
