package recovery

// holeLosses is the number of consecutive lost large packets that show a black hole (RFC 8899,
// section 5.1.2: MAX_PROBES). Three losses rarely happen by chance, and yet they happen within a
// probe timeout if there is a black hole.
const holeLosses = 3

// A BlackHole detects that a path silently drops large packets while small ones get through (RFC
// 8899, section 4.3). Its owner decides what is large, and numbers packets in the order in which
// they are sent.
//
// If a large packet arrives, earlier losses don't count, because they were due to a full queue or
// to chance.
type BlackHole struct {
	lostLarge  int    // number of large packets lost since one arrived
	firstLost  uint64 // the first of them
	smallAcked uint64 // one more than the largest number of a small packet that arrived
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

// Lost is called when packet n is declared lost.
func (b *BlackHole) Lost(n uint64, large bool) {
	if !large || n < b.largeAcked {
		return
	}
	if b.lostLarge == 0 {
		b.firstLost = n
	}
	b.lostLarge++
}

// Detect reports whether there is a black hole, but only once for each. There is one if holeLosses
// large packets in a row were lost and a small one that was sent after the first of them arrived.
//
// next is the number of the next packet. After a black hole was detected, losses of earlier
// packets no longer count.
func (b *BlackHole) Detect(next uint64) bool {
	if b.lostLarge < holeLosses || b.smallAcked <= b.firstLost {
		return false
	}
	b.lostLarge = 0
	b.largeAcked = next
	return true
}
