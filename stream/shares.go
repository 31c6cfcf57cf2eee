package stream

// share is one transfer's place among those of a connection: bytes sent over weight. Of those that can send, the one
// with the smallest goes next, so that over any stretch each gets its weight's part of the bytes to within one part
// of content. It is what deficit round robin approximates, without a quantum to choose.
type share struct {
	weight int
	spent  float64 // bytes over weight
}

// shares is the clock of one connection's transfers: where the last one that was served stood.
type shares struct{ now float64 }

// join puts a transfer that begins, or that had nothing to send, level with the others: what it did not use is gone.
func (s *shares) join(f *share) { f.spent = max(f.spent, s.now) }

// serve charges f for bytes.
func (s *shares) serve(f *share, bytes int) {
	s.now = max(s.now, f.spent)
	f.spent += float64(bytes) / float64(max(1, f.weight))
}
