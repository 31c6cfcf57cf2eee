package chunk

import mathbits "math/bits"

// dues is the set of chunks whose ack is due, a ring of maxPipeline bits indexed by chunk id.
//
// It makes finding the next ack cheap. Searching the records of all chunks would take as long as
// handling ten slices, and a peer that sends slices of old chunks causes an ack for each of them.
type dues [maxPipeline / 64]uint64

// word returns the word that contains the bit for id, at position id modulo 64.
func (d *dues) word(id uint16) *uint64 { return &d[id/64%uint16(len(d))] }

func (d *dues) set(id uint16) { *d.word(id) |= 1 << (id % 64) }

func (d *dues) clear(id uint16) { *d.word(id) &^= 1 << (id % 64) }

// next returns the smallest n >= ahead for which the bit of first+n is set, or maxPipeline if there
// is none.
//
// The last word examined may be the first word again, whose lower bits belong to ids before first.
// Counted from first, they are at maxPipeline or later, so min excludes them.
func (d *dues) next(first uint16, ahead int) (n int) {
	for ahead < maxPipeline {
		id := first + uint16(ahead)
		if word := *d.word(id) >> (id % 64); word != 0 {
			return min(ahead+mathbits.TrailingZeros64(word), maxPipeline)
		}
		ahead += 64 - int(id%64)
	}
	return maxPipeline
}
