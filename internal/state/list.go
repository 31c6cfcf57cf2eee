package state

import (
	"encoding/binary"
	"fmt"
	"reflect"
)

// list is the form of a slice with at most bound elements. An empty slice is read as nil.
type list struct {
	typ   reflect.Type
	elem  form
	bound int
	raw   bool // each element is one byte, encoded as itself
}

func (f *list) append(b []byte, v reflect.Value) (_ []byte, err error) {
	n := v.Len()
	if err := within(n, f.bound, "elements"); err != nil {
		return b, err
	}
	b = binary.AppendUvarint(b, uint64(n))
	if f.raw {
		return append(b, v.Bytes()...), nil
	}
	for i := range n {
		if b, err = f.elem.append(b, v.Index(i)); err != nil {
			return b, err
		}
	}
	return b, nil
}

// next reads the number of elements. It is an error if rest is too short to hold them.
func (f *list) next(b []byte) (n int, rest []byte, err error) {
	n, rest, err = readCount(b, f.bound, "elements")
	if err == nil && times(n, f.elem.least()) > len(rest) {
		err = fmt.Errorf("%d elements do not fit the %d bytes left", n, len(rest))
	}
	return n, rest, err
}

// read sets v to a new slice, so that an earlier value that shares the old one stays as it was.
func (f *list) read(b []byte, v reflect.Value) ([]byte, error) {
	n, rest, err := f.next(b)
	switch {
	case err != nil:
		return nil, err
	case v.IsValid() && n == 0:
		v.SetZero()
	case v.IsValid():
		v.Set(reflect.MakeSlice(f.typ, n, n))
	}
	if f.raw {
		if v.IsValid() {
			copy(v.Bytes(), rest)
		}
		return rest[n:], nil
	}
	for i := range n {
		if rest, err = f.elem.read(rest, element(v, i)); err != nil {
			return nil, err
		}
	}
	return rest, nil
}

func (f *list) references(v reflect.Value, i int, visit func(int, uint64)) {
	for k := range v.Len() {
		f.elem.references(v.Index(k), i, visit)
	}
}

func (*list) least() int { return 1 }

func (f *list) most() int {
	return min(uvarintSize(uint64(f.bound))+times(f.bound, f.elem.most()), endless)
}

func (f *list) String() string { return fmt.Sprintf("[max %d](%v)", f.bound, f.elem) }
