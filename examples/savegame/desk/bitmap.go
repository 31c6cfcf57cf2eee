package desk

import (
	"fmt"

	"github.com/quivernet/quiver/examples/savegame/manifest"
)

// A bitmap has a bit for each chunk of a manifest, eight in a byte, the lowest for the first.

// toBitmap returns the bits of ascending indices.
func toBitmap(indices []int) (b []byte) {
	for _, i := range indices {
		b = append(b, make([]byte, i/8+1-len(b))...)
		b[i/8] |= 1 << (i % 8)
	}
	return b
}

// fromBitmap returns the indices, ascending and all below count.
func fromBitmap(b []byte, count int) (indices []int, err error) {
	for i := range 8 * len(b) {
		if b[i/8]>>(i%8)&1 == 0 {
			continue
		}
		if i >= count {
			return nil, fmt.Errorf("%w %d of %d", manifest.ErrChunk, i, count)
		}
		indices = append(indices, i)
	}
	return indices, nil
}
