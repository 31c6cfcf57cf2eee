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
	payload []byte
	state   slotState
	flags   byte
	pieced  bool   // payload is a block of the connection
	total   uint16 // bytes, 0 until the last piece came
	n       uint8
	have    [maxPieces]extent // in order, disjoint
}

// extent is a range of bytes.
type extent struct{ off, end uint16 }

// add notes that [off, end) arrived and returns how many bytes of it are new; ok is false when the pieces are too many.
func (s *slot) add(off, end uint16) (fresh int, ok bool) {
	fresh = int(end - off)
	merged := extent{off, end}
	kept := s.have[:0]
	for _, h := range s.have[:s.n] {
		lo, hi := max(h.off, off), min(h.end, end)
		if lo < hi {
			fresh -= int(hi - lo)
		}
		if h.end < merged.off || h.off > merged.end {
			kept = append(kept, h)
			continue
		}
		merged = extent{min(h.off, merged.off), max(h.end, merged.end)}
	}
	if len(kept) == maxPieces {
		return 0, false
	}
	kept = append(kept, merged)
	for i := len(kept) - 1; i > 0 && kept[i].off < kept[i-1].off; i-- {
		kept[i], kept[i-1] = kept[i-1], kept[i]
	}
	s.n = uint8(len(kept))
	return fresh, true
}

// complete reports whether all bytes up to the last piece's end are there.
func (s *slot) complete() bool {
	return s.total > 0 && s.n == 1 && s.have[0] == extent{0, s.total}
}

// fits reports whether the piece [off, end) agrees with those that came before.
func (s *slot) fits(off, end uint16, last bool) bool {
	if s.total != 0 {
		return end <= s.total && (!last || end == s.total)
	}
	return end > off && (!last || s.n == 0 || s.have[s.n-1].end <= end)
}
