package state

import (
	"fmt"
	"math/bits"
	"reflect"
	"strconv"
)

// An offset encodes a number's distance from the low end of its range, big-endian and in as many
// bytes as the highest one needs.
type offset struct {
	highest uint64
	width   int // in bytes
}

// newOffset returns the offset for numbers up to highest.
func newOffset(highest uint64) offset {
	return offset{highest: highest, width: (bits.Len64(highest) + 7) / 8}
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
	if err == nil && n > o.highest {
		err = fmt.Errorf("%d above the lowest value of its range, which holds %d above it", n, o.highest)
	}
	return n, rest, err
}

// A ranged is the form of an int or uint with a range, to which it clamps values.
type ranged struct {
	integer
	offset
	lowest, topmost uint64
}

// newRanged makes the form of ints of type t from low to high, the two texts of a range tag.
func newRanged(t reflect.Type, low, high string) (form, error) {
	f := &ranged{integer: integerOf(t)}
	var wrongLow, wrongHigh error
	if f.signed {
		var lo, hi int64
		lo, wrongLow = strconv.ParseInt(low, 10, t.Bits())
		hi, wrongHigh = strconv.ParseInt(high, 10, t.Bits())
		f.lowest, f.topmost = uint64(lo), uint64(hi)
	} else {
		f.lowest, wrongLow = strconv.ParseUint(low, 10, t.Bits())
		f.topmost, wrongHigh = strconv.ParseUint(high, 10, t.Bits())
	}
	if wrongLow != nil || wrongHigh != nil {
		return nil, fmt.Errorf("range=%s:%s needs two numbers that fit %v", low, high, t.Kind())
	}
	if !f.below(f.lowest, f.topmost) {
		return nil, fmt.Errorf("range=%s:%s needs the lower number first and another one behind it", low, high)
	}
	f.offset = newOffset(f.topmost - f.lowest)
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
	case f.below(n, f.lowest):
		n = f.lowest
	case f.below(f.topmost, n):
		n = f.topmost
	}
	return f.appendTo(b, n-f.lowest), nil
}

func (f *ranged) read(b []byte, v reflect.Value) ([]byte, error) {
	n, rest, err := f.next(b)
	if err == nil {
		f.set(v, f.lowest+n)
	}
	return rest, err
}

func (f *ranged) least() int { return f.width }
func (f *ranged) most() int  { return f.width }

func (f *ranged) String() string {
	if f.signed {
		return fmt.Sprintf("%v, range %d:%d", f.typ.Kind(), int64(f.lowest), int64(f.topmost))
	}
	return fmt.Sprintf("%v, range %d:%d", f.typ.Kind(), f.lowest, f.topmost)
}
