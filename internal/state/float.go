package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
)

// Every NaN is encoded as the quiet NaN, so replacing one NaN with another doesn't change a field.
const (
	quiet32 = 0x7fc00000
	quiet64 = 0x7ff8000000000000
)

var errNaN = errors.New("NaN is not the quiet NaN")

// A float is the form of a float32 or float64: 4 or 8 bytes.
type float struct {
	noReferences
	bits int
}

func (f float) append(b []byte, v reflect.Value) ([]byte, error) {
	x := v.Float()
	switch {
	case f.bits == 32 && x != x:
		return binary.BigEndian.AppendUint32(b, quiet32), nil
	case f.bits == 32:
		return binary.BigEndian.AppendUint32(b, math.Float32bits(float32(x))), nil
	case x != x:
		return binary.BigEndian.AppendUint64(b, quiet64), nil
	}
	return binary.BigEndian.AppendUint64(b, math.Float64bits(x)), nil
}

func (f float) read(b []byte, v reflect.Value) ([]byte, error) {
	first, rest, err := take(b, f.bits/8)
	if err != nil {
		return nil, err
	}
	x, quiet := f.parse(first)
	if x != x && !quiet {
		return nil, errNaN
	}
	if v.IsValid() {
		v.SetFloat(x)
	}
	return rest, nil
}

// parse returns the value and whether its bits are those of the quiet NaN.
func (f float) parse(b []byte) (x float64, quiet bool) {
	if f.bits == 32 {
		u := binary.BigEndian.Uint32(b)
		return float64(math.Float32frombits(u)), u == quiet32
	}
	u := binary.BigEndian.Uint64(b)
	return math.Float64frombits(u), u == quiet64
}

func (f float) minSize() int   { return f.bits / 8 }
func (f float) maxSize() int   { return f.bits / 8 }
func (f float) String() string { return fmt.Sprintf("float%d", f.bits) }
