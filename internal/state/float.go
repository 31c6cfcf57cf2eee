package state

import (
	"encoding/binary"
	"errors"
	"math"
	"reflect"
)

// Every NaN is encoded as this one, so that a change from NaN to NaN is no change.
const (
	quiet32 = 0x7fc00000
	quiet64 = 0x7ff8000000000000
)

var errNaN = errors.New("it is another NaN than the one that travels")

// single is the form of a float32: 4 bytes.
type single struct{ leaf }

func (single) append(b []byte, v reflect.Value) ([]byte, error) {
	x := float32(v.Float())
	if x != x {
		return binary.BigEndian.AppendUint32(b, quiet32), nil
	}
	return binary.BigEndian.AppendUint32(b, math.Float32bits(x)), nil
}

func (single) next(b []byte) (x float32, rest []byte, err error) {
	first, rest, err := take(b, 4)
	if err != nil {
		return 0, nil, err
	}
	u := binary.BigEndian.Uint32(first)
	if x = math.Float32frombits(u); x != x && u != quiet32 {
		err = errNaN
	}
	return x, rest, err
}

func (f single) read(b []byte, v reflect.Value) ([]byte, error) {
	x, rest, err := f.next(b)
	if err == nil {
		v.SetFloat(float64(x))
	}
	return rest, err
}

func (f single) skip(b []byte) ([]byte, error) {
	_, rest, err := f.next(b)
	return rest, err
}

func (single) least() int     { return 4 }
func (single) most() int      { return 4 }
func (single) String() string { return "float32" }

// double is the form of a float64: 8 bytes.
type double struct{ leaf }

func (double) append(b []byte, v reflect.Value) ([]byte, error) {
	x := v.Float()
	if x != x {
		return binary.BigEndian.AppendUint64(b, quiet64), nil
	}
	return binary.BigEndian.AppendUint64(b, math.Float64bits(x)), nil
}

func (double) next(b []byte) (x float64, rest []byte, err error) {
	first, rest, err := take(b, 8)
	if err != nil {
		return 0, nil, err
	}
	u := binary.BigEndian.Uint64(first)
	if x = math.Float64frombits(u); x != x && u != quiet64 {
		err = errNaN
	}
	return x, rest, err
}

func (f double) read(b []byte, v reflect.Value) ([]byte, error) {
	x, rest, err := f.next(b)
	if err == nil {
		v.SetFloat(x)
	}
	return rest, err
}

func (f double) skip(b []byte) ([]byte, error) {
	_, rest, err := f.next(b)
	return rest, err
}

func (double) least() int     { return 8 }
func (double) most() int      { return 8 }
func (double) String() string { return "float64" }
