package fragment

import "fmt"

// Fragments is a block cut into fragments, which alias the block.
type Fragments struct {
	sequence uint16
	block    []byte
}

// Split cuts a block into fragments. The caller numbers its blocks: sequence increases by
// one for each block and wraps. The error for a block that is empty or larger than MaxBlock
// wraps ErrBlockSize.
func Split(sequence uint16, block []byte) (Fragments, error) {
	if len(block) == 0 || len(block) > MaxBlock {
		return Fragments{}, fmt.Errorf("%w: block %d has %d bytes; it must have 1 to %d (%d fragments of %d)",
			ErrBlockSize, sequence, len(block), MaxBlock, MaxCount, Size)
	}
	return Fragments{sequence: sequence, block: block}, nil
}

// Len returns the number of fragments.
func (f Fragments) Len() int { return (len(f.block) + Size - 1) / Size }

// At returns the fragment with index i, 0 to Len()-1.
func (f Fragments) At(i int) Fragment {
	end := min((i+1)*Size, len(f.block))
	return Fragment{Sequence: f.sequence, Index: i, Count: f.Len(), Data: f.block[i*Size : end : end]}
}
