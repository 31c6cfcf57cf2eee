package desk

import (
	"fmt"
	"math/big"
	"slices"

	"github.com/quivernet/quiver/examples/savegame/manifest"
)

// A bitmap is a number, as math/big has its bytes, with a bit for each chunk of a manifest, the lowest for the first.

func toBitmap(indices []int) []byte {
	var bits big.Int
	for _, i := range slices.Backward(indices) { // the largest first, so that it grows once
		bits.SetBit(&bits, i, 1)
	}
	return bits.Bytes()
}

// fromBitmap returns the indices, ascending and all below count.
func fromBitmap(b []byte, count int) (indices []int, err error) {
	bits := new(big.Int).SetBytes(b)
	if n := bits.BitLen(); n > count {
		return nil, fmt.Errorf("%w %d of %d", manifest.ErrChunk, n-1, count)
	}
	for i := range bits.BitLen() {
		if bits.Bit(i) == 1 {
			indices = append(indices, i)
		}
	}
	return indices, nil
}
