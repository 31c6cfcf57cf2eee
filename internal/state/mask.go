package state

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/quivernet/quiver/internal/words"
)

// A Mask is a set of fields of one plan. Bit i stands for field i.
type Mask uint64

// Each yields the fields in m in index order.
func (m Mask) Each(yield func(i int) bool) {
	for ; m != 0; m &= m - 1 {
		if !yield(bits.TrailingZeros64(uint64(m))) {
			return
		}
	}
}

var (
	errNoFields   = errors.New("mask has no fields")
	errEmptyByte  = errors.New("mask has an empty byte")
	errMaskLength = errors.New("mask is truncated")
)

// AppendMask appends m, which must not be empty, for a plan with n fields.
//
// A mask of up to 8 fields is 1 byte and one of up to 16 is 2, lowest fields first. With more
// fields, a first byte says which of the mask's 8 bytes are not 0, and only those follow, lowest
// first. That way a few neighboring fields need only 2 bytes, although all 64 fields need 9.
func AppendMask(b []byte, m Mask, n int) []byte {
	switch {
	case n <= 8:
		return append(b, byte(m))
	case n <= 16:
		return append(b, byte(m), byte(m>>8))
	}
	at := len(b)
	b = append(b, 0)
	for i := range 8 {
		if c := byte(m >> (8 * i)); c != 0 {
			b[at] |= 1 << i
			b = append(b, c)
		}
	}
	return b
}

// ReadMask reads a mask of a plan with n fields from the start of b. It rejects encodings
// that AppendMask would not produce.
func ReadMask(b []byte, n int) (m Mask, rest []byte, err error) {
	switch {
	case n <= 8:
		m, rest, err = readBytes(b, 0b1, true)
	case n <= 16:
		m, rest, err = readBytes(b, 0b11, true)
	case len(b) == 0:
		err = errMaskLength
	default:
		m, rest, err = readBytes(b[1:], b[0], false)
	}
	if err != nil {
		return 0, nil, err
	}
	if m == 0 {
		return 0, nil, errNoFields
	}
	if count := bits.Len64(uint64(m)); count > n {
		return 0, nil, fmt.Errorf("mask has field %d; the plan has only %s", count-1, words.Plural(n, "field", "fields"))
	}
	return m, rest, nil
}

// readBytes reads those of the mask's bytes whose bits are set in present, while the others are 0.
// allowZero says whether a byte that is present may be 0 as well.
func readBytes(b []byte, present byte, allowZero bool) (m Mask, rest []byte, err error) {
	for i := range Mask(present).Each {
		switch {
		case len(b) == 0:
			return 0, nil, errMaskLength
		case b[0] == 0 && !allowZero:
			return 0, nil, errEmptyByte
		}
		m |= Mask(b[0]) << (8 * i)
		b = b[1:]
	}
	return m, b, nil
}
