package recovery

// holeLosses in a row are no chance, and few enough to be noticed within a probe timeout (RFC 8899, 3: MAX_PROBES).
const holeLosses = 3

// BlackHole notices that a path swallows large packets without a word while small ones arrive (RFC 8899, section 4.3).
// Losses before a large packet that arrived are not its business: a queue dropped them, or chance. What is large, its
// owner decides. Packets have rising numbers.
type BlackHole struct {
	lostLarge  int    // in a row, none that was sent later arrived
	firstLost  uint64 // of them
	smallAcked uint64 // one above the newest small packet that arrived
	largeAcked uint64 // one above the newest large packet that arrived
}

// Acked notes that packet n arrived.
func (b *BlackHole) Acked(n uint64, large bool) {
	if !large {
		b.smallAcked = max(b.smallAcked, n+1)
		return
	}
	b.largeAcked, b.lostLarge = max(b.largeAcked, n+1), 0
}

// Lost notes that packet n counts as lost.
func (b *BlackHole) Lost(n uint64, large bool) {
	if !large || n < b.largeAcked {
		return
	}
	if b.lostLarge == 0 {
		b.firstLost = n
	}
	b.lostLarge++
}

// Found reports, once, that 3 large packets in a row were lost while a small one sent after the first of them arrived, and
// no large one did.
func (b *BlackHole) Found() bool {
	if b.lostLarge < holeLosses || b.smallAcked <= b.firstLost {
		return false
	}
	b.lostLarge = 0
	return true
}
