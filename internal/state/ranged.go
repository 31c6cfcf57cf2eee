package state

import (
	"fmt"
	"math/bits"
	"reflect"
	"strconv"
)

// An offset encodes a number's distance from the low end of its range, big-endian and in as many
// bytes as the greatest distance needs.
type offset struct {
	greatest uint64
	width    int // in bytes
}

// newOffset returns the offset for distances up to greatest.
func newOffset(greatest uint64) offset {
	return offset{greatest: greatest, width: (bits.Len64(greatest) + 7) / 8}
}

func (o offset) appendTo(b []byte, n uint64) []byte {
	for i := o.width - 1; i >= 0; i-- {
		b = append(b, byte(n>>(8*i)))
	}
	return b
}

func (o offset) next(b []byte) (n uint64, rest []byte, err error) {
	first, rest, err := take(b, o.width)
	for _, c := range first {
		n = n<<8 | uint64(c)
	}
	if err == nil && n > o.greatest {
		err = fmt.Errorf("value is %d above the low end of its range; the limit is %d", n, o.greatest)
	}
	return n, rest, err
}

// A ranged is the form of an int or uint with a range, to which it clamps values.
type ranged struct {
	integer
	offset
	low, high uint64
}

// newRanged makes the form of ints of type t from low to high, the two texts of a range tag.
func newRanged(t reflect.Type, low, high string) (form, error) {
	f := &ranged{integer: integerOf(t)}
	var wrongLow, wrongHigh error
	if f.signed {
		var lo, hi int64
		lo, wrongLow = strconv.ParseInt(low, 10, t.Bits())
		hi, wrongHigh = strconv.ParseInt(high, 10, t.Bits())
		f.low, f.high = uint64(lo), uint64(hi)
	} else {
		f.low, wrongLow = strconv.ParseUint(low, 10, t.Bits())
		f.high, wrongHigh = strconv.ParseUint(high, 10, t.Bits())
	}
	if wrongLow != nil || wrongHigh != nil {
		return nil, fmt.Errorf("range=%s:%s: both ends must be values of %v", low, high, t.Kind())
	}
	if !f.below(f.low, f.high) {
		return nil, fmt.Errorf("range=%s:%s: low end %s must be below high end %s", low, high, low, high)
	}
	f.offset = newOffset(f.high - f.low)
	return f, nil
}

// below reports whether a is less than b, as values of the type.
func (f *ranged) below(a, b uint64) bool {
	if f.signed {
		return int64(a) < int64(b)
	}
	return a < b
}

func (f *ranged) append(b []byte, v reflect.Value) ([]byte, error) {
	n := f.get(v)
	switch {
	case f.below(n, f.low):
		n = f.low
	case f.below(f.high, n):
		n = f.high
	}
	return f.appendTo(b, n-f.low), nil
}

func (f *ranged) read(b []byte, v reflect.Value) ([]byte, error) {
	n, rest, err := f.next(b)
	if err == nil {
		f.set(v, f.low+n)
	}
	return rest, err
}

func (f *ranged) minSize() int { return f.width }
func (f *ranged) maxSize() int { return f.width }

func (f *ranged) String() string {
	if f.signed {
		return fmt.Sprintf("%v, range %d:%d", f.typ.Kind(), int64(f.low), int64(f.high))
	}
	return fmt.Sprintf("%v, range %d:%d", f.typ.Kind(), f.low, f.high)
}
