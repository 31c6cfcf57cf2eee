package bunch

// blackHole notices that large packets vanish while small ones arrive.
type blackHole struct {
	lostLarge  int    // in a row
	firstLost  uint64 // of them
	smallAcked uint64 // one above the newest small packet that arrived
}

// BlackHole reports, once, that 3 packets above 1,163 bytes in a row were lost while smaller ones sent after the first of
// them arrived.
func (c *Conn) BlackHole() bool {
	b := &c.blackHole
	if b.lostLarge < 3 || b.smallAcked <= b.firstLost {
		return false
	}
	*b = blackHole{smallAcked: b.smallAcked}
	return true
}

func (b *blackHole) acked(n uint64, size int) {
	if size > minDatagram {
		b.lostLarge = 0
		return
	}
	b.smallAcked = max(b.smallAcked, n+1)
}

func (b *blackHole) lost(n uint64, size int) {
	if size <= minDatagram {
		return
	}
	if b.lostLarge == 0 {
		b.firstLost = n
	}
	b.lostLarge++
}
