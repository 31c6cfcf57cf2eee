package state

import (
	"encoding/binary"
	"errors"
	"math"
	"reflect"
)

// A unit is the form of a direction: three floats whose length doesn't matter.
//
// We unfold the octahedron |x|+|y|+|z| = 1 to a square and send a point on it as two int16
// (Cigolle and others, "A Survey of Efficient Representations for Independent Unit Vectors",
// 2014). The decoded vector has length 1, and its direction is off by at most 0.004 degrees.
// UE: FVector_NetQuantizeNormal, which takes 6 bytes.
type unit struct {
	noReferences
	fields []int  // indexes of x, y, z in a struct; nil for an array
	name   string // name of the float type, for String
}

// steps is the number of steps from the center of the square to a side.
const steps = 1<<15 - 1

// noDirection is both coordinates of a point just outside of the square. It represents vectors that
// have no direction, because they are zero or contain a NaN or an infinity.
const noDirection = -steps - 1

var errUnit = errors.New("value is not a direction")

// component returns x, y or z of v.
func (f *unit) component(v reflect.Value, i int) reflect.Value {
	if f.fields != nil {
		return v.Field(f.fields[i])
	}
	return v.Index(i)
}

func (f *unit) append(b []byte, v reflect.Value) ([]byte, error) {
	p, q := fold(f.component(v, 0).Float(), f.component(v, 1).Float(), f.component(v, 2).Float())
	b = binary.BigEndian.AppendUint16(b, uint16(p))
	return binary.BigEndian.AppendUint16(b, uint16(q)), nil
}

// fold returns the point on the square for the direction of x, y, z.
func fold(x, y, z float64) (p, q int16) {
	largest := max(math.Abs(x), math.Abs(y), math.Abs(z)) // NaN if one of them is
	if !(largest > 0) || math.IsInf(largest, 0) {
		return noDirection, noDirection
	}
	// Scale first, so that the sum does not overflow.
	x, y, z = x/largest, y/largest, z/largest
	sum := math.Abs(x) + math.Abs(y) + math.Abs(z)
	x, y = x/sum, y/sum
	if z < 0 { // Copysign regards the sign of a zero too, so it picks one of two sides
		x, y = math.Copysign(1-math.Abs(y), x), math.Copysign(1-math.Abs(x), y)
	}
	return int16(math.Round(x * steps)), int16(math.Round(y * steps))
}

// unfold returns the direction of a point on the square as a vector of length 1.
func unfold(p, q int16) (x, y, z float64) {
	if p == noDirection {
		return 0, 0, 0
	}
	x, y = float64(p), float64(q)
	z = steps - math.Abs(x) - math.Abs(y)
	if z < 0 {
		x, y = math.Copysign(steps-math.Abs(y), x), math.Copysign(steps-math.Abs(x), y)
	}
	length := math.Sqrt(x*x + y*y + z*z)
	return x / length, y / length, z / length
}

func (f *unit) read(b []byte, v reflect.Value) ([]byte, error) {
	first, rest, err := take(b, 4)
	if err != nil {
		return nil, err
	}
	p := int16(binary.BigEndian.Uint16(first))
	q := int16(binary.BigEndian.Uint16(first[2:]))
	if (p == noDirection) != (q == noDirection) {
		return nil, errUnit
	}
	if v.IsValid() {
		x, y, z := unfold(p, q)
		f.component(v, 0).SetFloat(x)
		f.component(v, 1).SetFloat(y)
		f.component(v, 2).SetFloat(z)
	}
	return rest, nil
}

func (*unit) minSize() int     { return 4 }
func (*unit) maxSize() int     { return 4 }
func (f *unit) String() string { return "unit " + f.name }
