package recovery

// holeLosses is how many large packets in a row must be lost to show a black hole (RFC 8899,
// section 5.1.2: MAX_PROBES). It takes too many to happen by chance, and few enough to be lost
// within a probe timeout.
const holeLosses = 3

// A BlackHole detects that a path silently drops large packets while small ones get through (RFC
// 8899, section 4.3). Its owner decides what is large, and numbers packets in the order in which
// they are sent.
//
// When a large packet arrives, losses before it don't count. Those were due to a queue, or to
// chance.
type BlackHole struct {
	lostLarge  int    // how many large packets were lost since one has arrived
	firstLost  uint64 // the first of those
	smallAcked uint64 // one more than the newest small packet that has arrived
	largeAcked uint64 // losses of packets below this number don't count
}

// Acked is called when packet n has arrived.
func (b *BlackHole) Acked(n uint64, large bool) {
	if !large {
		b.smallAcked = max(b.smallAcked, n+1)
		return
	}
	b.largeAcked = max(b.largeAcked, n+1)
	b.lostLarge = 0
}

// Lost is called when packet n was declared lost.
func (b *BlackHole) Lost(n uint64, large bool) {
	if !large || n < b.largeAcked {
		return
	}
	if b.lostLarge == 0 {
		b.firstLost = n
	}
	b.lostLarge++
}

// Detect reports whether there is a black hole, and does so only once for each. There is one if
// holeLosses large packets in a row were lost, while a small one has arrived that was sent after
// the first of them.
//
// next is the number of the next packet. Losses of earlier ones won't count when the path is
// probed again.
func (b *BlackHole) Detect(next uint64) bool {
	if b.lostLarge < holeLosses || b.smallAcked <= b.firstLost {
		return false
	}
	b.lostLarge = 0
	b.largeAcked = next
	return true
}
