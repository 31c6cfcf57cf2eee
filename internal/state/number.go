package state

import (
	"encoding/binary"
	"fmt"
	"reflect"
)

// A boolean is the form of a bool: a byte that is 0 or 1.
type boolean struct{ noReferences }

func (boolean) append(b []byte, v reflect.Value) ([]byte, error) {
	if v.Bool() {
		return append(b, 1), nil
	}
	return append(b, 0), nil
}

func (boolean) read(b []byte, v reflect.Value) ([]byte, error) {
	first, rest, err := take(b, 1)
	if err != nil {
		return nil, err
	}
	if first[0] > 1 {
		return nil, fmt.Errorf("bool is %d instead of 0 or 1", first[0])
	}
	if v.IsValid() {
		v.SetBool(first[0] == 1)
	}
	return rest, nil
}

func (boolean) minSize() int   { return 1 }
func (boolean) maxSize() int   { return 1 }
func (boolean) String() string { return "bool" }

// An integer is what the forms of ints and uints have in common. It treats every value as 64 bits,
// whatever its type.
type integer struct {
	noReferences
	typ    reflect.Type
	signed bool
}

// integerOf returns the integer of an int or uint type.
func integerOf(t reflect.Type) integer { return integer{typ: t, signed: t.Kind() <= reflect.Int64} }

// get returns the 64 bits of a value.
func (f *integer) get(v reflect.Value) uint64 {
	if f.signed {
		return uint64(v.Int())
	}
	return v.Uint()
}

// set sets v to a value of 64 bits, or does nothing if v is the zero Value, because the value is
// being skipped.
func (f *integer) set(v reflect.Value, n uint64) {
	if !v.IsValid() {
		return
	}
	if f.signed {
		v.SetInt(int64(n))
	} else {
		v.SetUint(n)
	}
}

func (f *integer) String() string { return f.typ.Kind().String() }

// An octet is the form of an int8 or uint8, which it sends as one byte, since a varint would need
// two for half of the values.
type octet struct{ integer }

func (f *octet) append(b []byte, v reflect.Value) ([]byte, error) {
	return append(b, byte(f.get(v))), nil
}

func (f *octet) read(b []byte, v reflect.Value) ([]byte, error) {
	first, rest, err := take(b, 1)
	if err == nil {
		f.set(v, uint64(first[0])) // reflect stores the low byte, so an int8 gets its sign
	}
	return rest, err
}

func (*octet) minSize() int { return 1 }
func (*octet) maxSize() int { return 1 }

// A varint is the form of a larger int or uint, which it zigzag-encodes if signed.
type varint struct{ integer }

func (f *varint) append(b []byte, v reflect.Value) ([]byte, error) {
	if f.signed {
		return binary.AppendVarint(b, v.Int()), nil
	}
	return binary.AppendUvarint(b, v.Uint()), nil
}

func (f *varint) read(b []byte, v reflect.Value) ([]byte, error) {
	n, rest, err := readUvarint(b)
	if err != nil {
		return nil, err
	}
	if f.signed {
		n = uint64(unzigzag(n))
	}
	if f.signed && f.typ.OverflowInt(int64(n)) {
		return nil, fmt.Errorf("%d overflows %v", int64(n), f.typ.Kind())
	}
	if !f.signed && f.typ.OverflowUint(n) {
		return nil, fmt.Errorf("%d overflows %v", n, f.typ.Kind())
	}
	f.set(v, n)
	return rest, nil
}

func (*varint) minSize() int   { return 1 }
func (f *varint) maxSize() int { return (f.typ.Bits() + 6) / 7 }

// A reference is the form of a reference to an actor: the actor's ID, or 0 for none.
type reference struct{ varint }

func (*reference) references(v reflect.Value, visit func(uint64)) {
	if id := v.Uint(); id != 0 {
		visit(id)
	}
}

func (*reference) String() string { return "reference" }
