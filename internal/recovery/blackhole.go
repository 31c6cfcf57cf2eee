package recovery

// holeLosses is how many large packets lost in a row show a black hole (RFC 8899, section
// 5.1.2: MAX_PROBES): too many for chance, and few enough to be lost within a probe timeout.
const holeLosses = 3

// A BlackHole detects that a path silently drops large packets while small ones arrive
// (RFC 8899, section 4.3). It ignores losses before a large packet that arrived,
// because those packets were dropped by a queue or by chance. Its owner decides which
// packets are large, and numbers packets in the order in which they are sent.
type BlackHole struct {
	lostLarge  int    // large packets lost since the last one that arrived
	firstLost  uint64 // the first of those
	smallAcked uint64 // one above the newest small packet that arrived
	largeAcked uint64 // one above the newest large packet that arrived, or that was sent before a black hole was found
}

// Acked records that packet n arrived.
func (b *BlackHole) Acked(n uint64, large bool) {
	if !large {
		b.smallAcked = max(b.smallAcked, n+1)
		return
	}
	b.largeAcked, b.lostLarge = max(b.largeAcked, n+1), 0
}

// Lost records that packet n counts as lost.
func (b *BlackHole) Lost(n uint64, large bool) {
	if !large || n < b.largeAcked {
		return
	}
	if b.lostLarge == 0 {
		b.firstLost = n
	}
	b.lostLarge++
}

// Found reports, once, whether holeLosses large packets in a row were lost, and a small
// one arrived that was sent after the first of them. next is the number of the next
// packet: losses of earlier packets say nothing about the path when it is probed again.
func (b *BlackHole) Found(next uint64) bool {
	if b.lostLarge < holeLosses || b.smallAcked <= b.firstLost {
		return false
	}
	b.lostLarge, b.largeAcked = 0, next
	return true
}
