package state

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"strconv"
)

// maxQuanta is the largest number of quanta that we encode. Up to this number, n*quantum/quantum
// rounds to n despite float64's rounding errors.
const maxQuanta = 1 << 50

// A quantized encodes a float as a whole number of quanta. The quantum is the value of the field's
// quant tag.
//
// Values below low or above high are clamped. NaN becomes 0, or the value in the range that is
// nearest to 0, because returning an error in every tick would help nobody.
type quantized struct {
	noReferences
	offset    // how the number of quanta is encoded if there is a range; width 0 = as a varint
	quantum   float64
	isFloat32 bool // the values are float32

	low, high int64 // in quanta
}

// newQuantized makes the form for floats of type t. s must have a quantum.
func newQuantized(t reflect.Type, s *scale) (form, error) {
	f := &quantized{quantum: s.quantum, isFloat32: t.Kind() == reflect.Float32}
	f.high = f.maxExact()
	f.low = -f.high
	if f.high == 0 {
		return nil, fmt.Errorf("quant=%v is too small or too large for %v", s.quantum, t.Kind())
	}
	if !s.ranged {
		return f, nil
	}
	low, errLow := strconv.ParseFloat(s.low, 64)
	high, errHigh := strconv.ParseFloat(s.high, 64)
	if errLow != nil || errHigh != nil || math.IsNaN(low) || math.IsNaN(high) {
		return nil, fmt.Errorf("range=%s:%s: both ends must be numbers", s.low, s.high)
	}
	if err := f.setRange(low, high); err != nil {
		return nil, err
	}
	return f, nil
}

// maxExact returns the largest number of quanta that decoding and encoding doesn't change. It may
// be less than maxQuanta, because large values of the type may be further apart than the quantum.
func (f *quantized) maxExact() int64 {
	largest := math.MaxFloat64
	if f.isFloat32 {
		largest = math.MaxFloat32
	}
	x := f.round(min(maxQuanta*f.quantum, largest))
	if math.Round(x/f.quantum) > maxQuanta { // the rounding went up
		x = f.towardZero(x)
	}
	n := int64(math.Round(x / f.quantum))
	if math.IsInf(f.fromQuanta(n), 0) {
		n--
	}
	return n
}

// towardZero returns the next value of the type toward 0.
func (f *quantized) towardZero(x float64) float64 {
	if f.isFloat32 {
		return float64(math.Nextafter32(float32(x), 0))
	}
	return math.Nextafter(x, 0)
}

// round rounds x to the precision of the type.
func (f *quantized) round(x float64) float64 {
	if f.isFloat32 {
		return float64(float32(x))
	}
	return x
}

// setRange limits f to values from low to high.
func (f *quantized) setRange(low, high float64) error {
	// Set both at once, because toQuanta clamps to the current fields.
	f.low, f.high = f.toQuanta(low), f.toQuanta(high)
	switch {
	case f.low >= f.high:
		return fmt.Errorf("range=%v:%v: low end %v must be at least one quant (%v) below high end %v",
			low, high, low, f.quantum, high)
	case math.Abs(low/f.quantum) > maxQuanta, math.Abs(high/f.quantum) > maxQuanta,
		!f.exact(f.low), !f.exact(f.high):
		return fmt.Errorf("range=%v:%v is too wide for a %s with quant=%v", low, high, f.typeName(), f.quantum)
	}
	f.offset = newOffset(uint64(f.high - f.low))
	return nil
}

// toQuanta returns x in quanta, rounded and clamped.
func (f *quantized) toQuanta(x float64) int64 {
	n := math.Round(x / f.quantum)
	switch {
	case math.IsNaN(n):
		return max(f.low, min(0, f.high))
	case n <= float64(f.low):
		return f.low
	case n >= float64(f.high):
		return f.high
	}
	return int64(n)
}

// fromQuanta returns the value of n quanta.
func (f *quantized) fromQuanta(n int64) float64 { return f.round(float64(n) * f.quantum) }

// exact reports whether decoding and encoding leaves n quanta unchanged. It doesn't if n is out of
// range, or if values of the type are further apart than the quantum, as large float32 values are.
func (f *quantized) exact(n int64) bool { return f.toQuanta(f.fromQuanta(n)) == n }

func (f *quantized) append(b []byte, v reflect.Value) ([]byte, error) {
	n := f.toQuanta(v.Float())
	if f.width > 0 {
		return f.appendTo(b, uint64(n-f.low)), nil
	}
	return binary.AppendVarint(b, n), nil
}

// nextQuanta decodes a number of quanta.
func (f *quantized) nextQuanta(b []byte) (n int64, rest []byte, err error) {
	if f.width > 0 {
		u, rest, err := f.offset.next(b)
		return f.low + int64(u), rest, err
	}
	u, rest, err := readUvarint(b)
	return unzigzag(u), rest, err
}

// read also rejects numbers of quanta that append never sends.
func (f *quantized) read(b []byte, v reflect.Value) ([]byte, error) {
	n, rest, err := f.nextQuanta(b)
	if err != nil {
		return nil, err
	}
	if !f.exact(n) {
		return nil, fmt.Errorf("invalid %s: %d quanta of %v", f.typeName(), n, f.quantum)
	}
	if v.IsValid() {
		v.SetFloat(f.fromQuanta(n))
	}
	return rest, nil
}

func (f *quantized) minSize() int { return max(f.width, 1) }

func (f *quantized) maxSize() int {
	if f.width > 0 {
		return f.width
	}
	// The zigzag encoding of f.low, which is -f.high, is smaller by one.
	return len(binary.AppendVarint(nil, f.high))
}

func (f *quantized) typeName() string {
	if f.isFloat32 {
		return "float32"
	}
	return "float64"
}

func (f *quantized) String() string {
	s := fmt.Sprintf("%s, quant %v", f.typeName(), f.quantum)
	if f.width > 0 {
		s += fmt.Sprintf(", range %d:%d quanta", f.low, f.high)
	}
	return s
}
