package state

import (
	"encoding/binary"
	"fmt"
	"reflect"
)

// boolean is the form of a bool: a byte, 0 or 1.
type boolean struct{ leaf }

func (boolean) append(b []byte, v reflect.Value) ([]byte, error) {
	if v.Bool() {
		return append(b, 1), nil
	}
	return append(b, 0), nil
}

func (boolean) read(b []byte, v reflect.Value) ([]byte, error) {
	first, rest, err := take(b, 1)
	switch {
	case err != nil:
	case first[0] > 1:
		err = fmt.Errorf("a bool is 0 or 1, not %d", first[0])
	case v.IsValid():
		v.SetBool(first[0] == 1)
	}
	return rest, err
}

func (boolean) least() int     { return 1 }
func (boolean) most() int      { return 1 }
func (boolean) String() string { return "bool" }

// octet is the form of an int8 or uint8: one byte. A varint would take two for half of the values.
type octet struct {
	leaf
	signed bool
}

func (f octet) append(b []byte, v reflect.Value) ([]byte, error) {
	if f.signed {
		return append(b, byte(v.Int())), nil
	}
	return append(b, byte(v.Uint())), nil
}

func (f octet) read(b []byte, v reflect.Value) ([]byte, error) {
	first, rest, err := take(b, 1)
	switch {
	case err != nil || !v.IsValid():
	case f.signed:
		v.SetInt(int64(int8(first[0])))
	default:
		v.SetUint(uint64(first[0]))
	}
	return rest, err
}

func (octet) least() int { return 1 }
func (octet) most() int  { return 1 }

func (f octet) String() string {
	if f.signed {
		return "int8"
	}
	return "uint8"
}

// signed is the form of a larger int: a varint in zigzag.
type signed struct {
	leaf
	typ reflect.Type
}

func (signed) append(b []byte, v reflect.Value) ([]byte, error) {
	return binary.AppendVarint(b, v.Int()), nil
}

func (f signed) read(b []byte, v reflect.Value) ([]byte, error) {
	u, rest, err := readUvarint(b)
	switch n := unzigzag(u); {
	case err != nil:
	case f.typ.OverflowInt(n):
		err = fmt.Errorf("%d does not fit %v", n, f.typ.Kind())
	case v.IsValid():
		v.SetInt(n)
	}
	return rest, err
}

func (signed) least() int       { return 1 }
func (f signed) most() int      { return (f.typ.Bits() + 6) / 7 }
func (f signed) String() string { return f.typ.Kind().String() }

// unsigned is the form of a larger uint: a varint.
type unsigned struct {
	leaf
	typ reflect.Type
}

func (unsigned) append(b []byte, v reflect.Value) ([]byte, error) {
	return binary.AppendUvarint(b, v.Uint()), nil
}

func (f unsigned) read(b []byte, v reflect.Value) ([]byte, error) {
	n, rest, err := readUvarint(b)
	switch {
	case err != nil:
	case f.typ.OverflowUint(n):
		err = fmt.Errorf("%d does not fit %v", n, f.typ.Kind())
	case v.IsValid():
		v.SetUint(n)
	}
	return rest, err
}

func (unsigned) least() int       { return 1 }
func (f unsigned) most() int      { return (f.typ.Bits() + 6) / 7 }
func (f unsigned) String() string { return f.typ.Kind().String() }

// reference is the form of a reference to an actor: its id, 0 for none.
type reference struct{ unsigned }

func (reference) references(v reflect.Value, i int, visit func(int, uint64)) {
	if id := v.Uint(); id != 0 {
		visit(i, id)
	}
}

func (reference) String() string { return "reference" }
