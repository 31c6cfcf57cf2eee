package state

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"strconv"
)

// mostQuanta is the largest multiple of a quantum that we encode. Up to this number,
// n*quantum/quantum rounds to n in spite of float64's rounding errors.
const mostQuanta = 1 << 50

// A quantised is the form of a float with a quantum, of which it sends a whole multiple.
//
// Values outside of lowest and highest are clamped. NaN becomes 0, or whatever value of the range
// is nearest to 0, because it would help nobody if we returned an error in every tick.
type quantised struct {
	leaf
	offset  // how the multiple is encoded if there is a range; width 0 = as a varint
	quantum float64
	single  bool // the values are float32

	lowest, highest int64 // in quanta
}

// newQuantised makes the form of floats of type t with a scale that has a quantum.
func newQuantised(t reflect.Type, s *scale) (form, error) {
	f := &quantised{quantum: s.quantum, single: t.Kind() == reflect.Float32}
	f.highest = f.furthest()
	f.lowest = -f.highest
	if f.highest == 0 {
		return nil, fmt.Errorf("quant=%v is too small or too large for %v", s.quantum, t.Kind())
	}
	if !s.ranged {
		return f, nil
	}
	low, wrongLow := strconv.ParseFloat(s.low, 64)
	high, wrongHigh := strconv.ParseFloat(s.high, 64)
	if wrongLow != nil || wrongHigh != nil || low != low || high != high {
		return nil, fmt.Errorf("range=%s:%s needs two numbers", s.low, s.high)
	}
	return f.between(low, high)
}

// furthest returns the largest number of quanta that is still the same after it has been decoded
// and encoded again. It may be less than mostQuanta, because large float32 values are further
// apart than the quantum.
func (f *quantised) furthest() int64 {
	top, largest := float64(mostQuanta), math.MaxFloat64
	if f.single {
		largest = math.MaxFloat32
	}
	x := f.round(min(top*f.quantum, largest))
	if math.Round(x/f.quantum) > top {
		x = f.before(x)
	}
	n := int64(math.Round(x / f.quantum))
	if math.IsInf(f.value(n), 0) {
		n--
	}
	return n
}

// before returns the next value of the type towards 0.
func (f *quantised) before(x float64) float64 {
	if f.single {
		return float64(math.Nextafter32(float32(x), 0))
	}
	return math.Nextafter(x, 0)
}

// round rounds x to the precision of the type.
func (f *quantised) round(x float64) float64 {
	if f.single {
		return float64(float32(x))
	}
	return x
}

// between limits f to values from low to high.
func (f *quantised) between(low, high float64) (form, error) {
	// Compute both before setting either, because quanta clamps to what the fields are now.
	lowest, highest := f.quanta(low), f.quanta(high)
	f.lowest, f.highest = lowest, highest
	switch {
	case f.lowest >= f.highest:
		return nil, fmt.Errorf("range=%v:%v needs the lower number first and a quantum or more to the other",
			low, high)
	case math.Abs(low/f.quantum) > mostQuanta, math.Abs(high/f.quantum) > mostQuanta,
		f.quanta(f.value(f.lowest)) != f.lowest, f.quanta(f.value(f.highest)) != f.highest:
		return nil, fmt.Errorf("range=%v:%v is too wide for quanta of %v in its type", low, high, f.quantum)
	}
	f.offset = newOffset(uint64(f.highest - f.lowest))
	return f, nil
}

// quanta returns x in quanta, rounded and clamped.
func (f *quantised) quanta(x float64) int64 {
	n := math.Round(x / f.quantum)
	switch {
	case n != n: // NaN
		return max(f.lowest, min(0, f.highest))
	case n <= float64(f.lowest):
		return f.lowest
	case n >= float64(f.highest):
		return f.highest
	}
	return int64(n)
}

// value returns the value of n quanta.
func (f *quantised) value(n int64) float64 { return f.round(float64(n) * f.quantum) }

func (f *quantised) append(b []byte, v reflect.Value) ([]byte, error) {
	n := f.quanta(v.Float())
	if f.width > 0 {
		return f.appendTo(b, uint64(n-f.lowest)), nil
	}
	return binary.AppendVarint(b, n), nil
}

// nextQuanta decodes a number of quanta.
func (f *quantised) nextQuanta(b []byte) (n int64, rest []byte, err error) {
	if f.width > 0 {
		u, rest, err := f.offset.next(b)
		return f.lowest + int64(u), rest, err
	}
	u, rest, err := readUvarint(b)
	return unzigzag(u), rest, err
}

// read also rejects a number of quanta that no value of the type has, as happens with large
// float32 values.
func (f *quantised) read(b []byte, v reflect.Value) ([]byte, error) {
	n, rest, err := f.nextQuanta(b)
	switch x := f.value(n); {
	case err != nil:
		// Leave v alone.
	case f.quanta(x) != n:
		err = fmt.Errorf("no value has %d quanta of %v", n, f.quantum)
	case v.IsValid():
		v.SetFloat(x)
	}
	return rest, err
}

func (f *quantised) least() int { return max(f.width, 1) }

func (f *quantised) most() int {
	if f.width > 0 {
		return f.width
	}
	// f.lowest is -f.highest, whose zigzag encoding is one smaller.
	return len(binary.AppendVarint(nil, f.highest))
}

func (f *quantised) String() string {
	name := "float64"
	if f.single {
		name = "float32"
	}
	name += fmt.Sprintf(", quant %v", f.quantum)
	if f.width > 0 {
		name += fmt.Sprintf(", range %d:%d quanta", f.lowest, f.highest)
	}
	return name
}
