package recovery

// holeLosses is the number of consecutive losses of large packets that show a black hole
// (RFC 8899, section 5.1.2: MAX_PROBES). They are too many for chance, and few enough to be
// lost within a probe timeout.
const holeLosses = 3

// A BlackHole detects that a path silently drops large packets while small ones arrive (RFC
// 8899, section 4.3). Its owner decides which packets are large. The owner numbers packets
// in the order in which they are sent.
//
// Losses before a large packet that arrived do not count. A queue or chance caused them.
type BlackHole struct {
	lostLarge  int    // large packets lost since the last large one that arrived
	firstLost  uint64 // the first of the packets in lostLarge
	smallAcked uint64 // one above the newest small packet that arrived
	largeAcked uint64 // lost packets below this number do not count
}

// Acked records that packet n arrived.
func (b *BlackHole) Acked(n uint64, large bool) {
	if !large {
		b.smallAcked = max(b.smallAcked, n+1)
		return
	}
	b.largeAcked = max(b.largeAcked, n+1)
	b.lostLarge = 0
}

// Lost records that packet n was declared lost.
func (b *BlackHole) Lost(n uint64, large bool) {
	if !large || n < b.largeAcked {
		return
	}
	if b.lostLarge == 0 {
		b.firstLost = n
	}
	b.lostLarge++
}

// Found reports whether there is a black hole: holeLosses consecutive large packets were
// lost, and a small one sent after the first of them arrived. It reports each black hole
// once.
//
// next is the number of the next packet. Losses of earlier packets say nothing about the
// path when it is probed again.
func (b *BlackHole) Found(next uint64) bool {
	if b.lostLarge < holeLosses || b.smallAcked <= b.firstLost {
		return false
	}
	b.lostLarge = 0
	b.largeAcked = next
	return true
}
