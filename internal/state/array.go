package state

import (
	"fmt"
	"reflect"
)

// A sequence is the common part of the forms of arrays and slices, whose elements are encoded back
// to back.
type sequence struct {
	elem form
	raw  bool // each element is one byte, encoded as itself
}

func (f *sequence) append(b []byte, v reflect.Value) (_ []byte, err error) {
	if f.raw && (v.Kind() == reflect.Slice || v.CanAddr()) {
		return append(b, v.Bytes()...), nil
	}
	for i := range v.Len() {
		if b, err = f.elem.append(b, v.Index(i)); err != nil {
			return b, err
		}
	}
	return b, nil
}

// read decodes n elements into v, which has n elements. If v is the zero Value, it skips
// them.
func (f *sequence) read(b []byte, v reflect.Value, n int) (_ []byte, err error) {
	if f.raw {
		first, rest, err := take(b, n)
		if v.IsValid() {
			copy(v.Bytes(), first)
		}
		return rest, err
	}
	for i := range n {
		element := v
		if v.IsValid() {
			element = v.Index(i)
		}
		if b, err = f.elem.read(b, element); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func (f *sequence) references(v reflect.Value, visit func(uint64)) {
	for k := range v.Len() {
		f.elem.references(v.Index(k), visit)
	}
}

// An array is the form of an array with one or more elements.
type array struct {
	sequence
	length int
}

func (f *array) read(b []byte, v reflect.Value) ([]byte, error) {
	return f.sequence.read(b, v, f.length)
}

func (f *array) minSize() int   { return times(f.length, f.elem.minSize()) }
func (f *array) maxSize() int   { return times(f.length, f.elem.maxSize()) }
func (f *array) String() string { return fmt.Sprintf("[%d](%v)", f.length, f.elem) }
