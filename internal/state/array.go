package state

import (
	"fmt"
	"reflect"
)

// array is the form of an array with one or more elements.
type array struct {
	elem   form
	length int
	raw    bool // each element is one byte, encoded as itself
}

func (f *array) append(b []byte, v reflect.Value) (_ []byte, err error) {
	if f.raw && v.CanAddr() {
		return append(b, v.Bytes()...), nil
	}
	for i := range f.length {
		if b, err = f.elem.append(b, v.Index(i)); err != nil {
			return b, err
		}
	}
	return b, nil
}

func (f *array) read(b []byte, v reflect.Value) (_ []byte, err error) {
	if f.raw {
		first, rest, err := take(b, f.length)
		if v.IsValid() {
			copy(v.Bytes(), first)
		}
		return rest, err
	}
	for i := range f.length {
		if b, err = f.elem.read(b, element(v, i)); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func (f *array) references(v reflect.Value, i int, visit func(int, uint64)) {
	for k := range f.length {
		f.elem.references(v.Index(k), i, visit)
	}
}

func (f *array) least() int     { return times(f.length, f.elem.least()) }
func (f *array) most() int      { return times(f.length, f.elem.most()) }
func (f *array) String() string { return fmt.Sprintf("[%d](%v)", f.length, f.elem) }
