package bunch

type slotState uint8

const (
	empty slotState = iota
	partly
	full
	taken // an unordered entry whose message was handed out
)

// slot holds one entry that arrived, whole or in pieces.
type slot struct {
	payload []byte // when partly: as long as the entry
	number  uint64
	have    [maxPieces]extent // what arrived of it, in order, disjoint
	n       uint8             // how many extents there are
	flags   byte
	state   slotState
	pooled  bool   // payload is a block of the connection
	pinned  uint16 // bytes that payload keeps in memory besides its own
}

// extent is a range of bytes.
type extent struct{ off, end uint16 }

// add notes that [off, end) arrived; ok is false when the pieces are too many.
func (s *slot) add(off, end uint16) (ok bool) {
	merged := extent{off, end}
	kept := s.have[:0]
	for _, h := range s.have[:s.n] {
		if h.end < merged.off || h.off > merged.end {
			kept = append(kept, h)
			continue
		}
		merged = extent{min(h.off, merged.off), max(h.end, merged.end)}
	}
	if len(kept) == maxPieces {
		return false
	}
	kept = append(kept, merged)
	for i := len(kept) - 1; i > 0 && kept[i].off < kept[i-1].off; i-- {
		kept[i], kept[i-1] = kept[i-1], kept[i]
	}
	s.n = uint8(len(kept))
	return true
}

// complete reports whether all bytes are there.
func (s *slot) complete() bool {
	return s.n == 1 && s.have[0] == extent{0, uint16(len(s.payload))}
}

// loose reports whether the entry is there and its message may overtake earlier ones.
func (s *slot) loose() bool {
	return s.state == full && s.flags&(deliveryMask|flagOpen|flagClose) == byte(ReliableUnordered)
}
