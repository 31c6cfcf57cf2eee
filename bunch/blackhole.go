package bunch

// blackHole notices that large packets vanish while small ones arrive. Losses before a large packet that arrived are not
// its business: a queue dropped them, or chance.
type blackHole struct {
	lostLarge  int    // in a row, none that was sent later arrived
	firstLost  uint64 // of them
	smallAcked uint64 // one above the newest small packet that arrived
	largeAcked uint64 // one above the newest large packet that arrived
}

// BlackHole reports, once, that 3 packets above 1,163 bytes in a row were lost while smaller ones sent after the first of
// them arrived, and no larger one did.
func (c *Conn) BlackHole() bool {
	b := &c.blackHole
	if b.lostLarge < 3 || b.smallAcked <= b.firstLost {
		return false
	}
	b.lostLarge = 0
	return true
}

func (b *blackHole) acked(n uint64, size int) {
	if size <= minDatagram {
		b.smallAcked = max(b.smallAcked, n+1)
		return
	}
	b.largeAcked, b.lostLarge = max(b.largeAcked, n+1), 0
}

func (b *blackHole) lost(n uint64, size int) {
	if size <= minDatagram || n < b.largeAcked {
		return
	}
	if b.lostLarge == 0 {
		b.firstLost = n
	}
	b.lostLarge++
}
