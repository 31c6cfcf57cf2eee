package desk

import (
	"fmt"

	"github.com/quivernet/quiver/examples/savegame/manifest"
)

// A bitmap has a bit for each chunk of a manifest, the first in the lowest bit of the first byte, and ends with its last one.

func toBitmap(indices []int) (b []byte) {
	for _, i := range indices {
		for len(b) <= i/8 {
			b = append(b, 0)
		}
		b[i/8] |= 1 << (i % 8)
	}
	return b
}

// fromBitmap returns the indices, ascending and all below count.
func fromBitmap(b []byte, count int) (indices []int, err error) {
	for i := range 8 * len(b) {
		if b[i/8]&(1<<(i%8)) == 0 {
			continue
		}
		if i >= count {
			return nil, fmt.Errorf("%w %d of %d", manifest.ErrChunk, i, count)
		}
		indices = append(indices, i)
	}
	return indices, nil
}

// hearBitmap hears the bitmap of so many chunks.
func (t *talk) hearBitmap(count int) ([]int, error) {
	b, err := t.hear(manifest.ErrManifest, (count+7)/8)
	if err != nil {
		return nil, err
	}
	return fromBitmap(b, count)
}
