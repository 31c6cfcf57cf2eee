package state

import (
	"encoding/binary"
	"errors"
	"math"
	"reflect"
)

// unit is a direction: three floats, of which only where they point travels. The octahedron |x|+|y|+|z| = 1 is unfolded to
// a square (Cigolle and others, "A Survey of Efficient Representations for Independent Unit Vectors", 2014) and a point of
// it told by two int16. What is read has length 1 and points at most 0.004 degrees aside. UE FVector_NetQuantizeNormal takes
// 6 bytes for it.
type unit struct {
	leaf
	fields []int // indexes of x, y, z in a struct; nil for an array
	name   string
}

// steps is how many steps the square has from its middle to a side. One more stands, on both axes, for the vector without
// a direction.
const steps = 1<<15 - 1

// nowhere stands for the zero vector, and for those with a NaN or an infinity.
const nowhere = -steps - 1

var errUnit = errors.New("it is no direction")

func (f *unit) part(v reflect.Value, i int) reflect.Value {
	if f.fields != nil {
		return v.Field(f.fields[i])
	}
	return v.Index(i)
}

func (f *unit) append(b []byte, v reflect.Value) ([]byte, error) {
	p, q := fold(f.part(v, 0).Float(), f.part(v, 1).Float(), f.part(v, 2).Float())
	b = binary.BigEndian.AppendUint16(b, uint16(p))
	return binary.BigEndian.AppendUint16(b, uint16(q)), nil
}

// fold returns where on the square the direction of x, y, z is.
func fold(x, y, z float64) (p, q int16) {
	largest := max(math.Abs(x), math.Abs(y), math.Abs(z)) // NaN when one is
	if !(largest > 0) || math.IsInf(largest, 0) {
		return nowhere, nowhere
	}
	x, y, z = x/largest, y/largest, z/largest // so that the sum does not overflow
	sum := math.Abs(x) + math.Abs(y) + math.Abs(z)
	x, y = x/sum, y/sum
	if z < 0 { // also of a zero the sign counts: it says on which of two sides of the square this edge lies
		x, y = math.Copysign(1-math.Abs(y), x), math.Copysign(1-math.Abs(x), y)
	}
	return int16(math.Round(x * steps)), int16(math.Round(y * steps))
}

// unfold returns the direction of a point on the square, of length 1.
func unfold(p, q int16) (x, y, z float64) {
	if p == nowhere {
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
	p, q := int16(binary.BigEndian.Uint16(first)), int16(binary.BigEndian.Uint16(first[2:]))
	if (p == nowhere) != (q == nowhere) {
		return nil, errUnit
	}
	if v.IsValid() {
		x, y, z := unfold(p, q)
		f.part(v, 0).SetFloat(x)
		f.part(v, 1).SetFloat(y)
		f.part(v, 2).SetFloat(z)
	}
	return rest, nil
}

func (*unit) least() int       { return 4 }
func (*unit) most() int        { return 4 }
func (f *unit) String() string { return "unit " + f.name }
