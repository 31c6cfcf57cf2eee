package state

import (
	"encoding/binary"
	"fmt"
	"reflect"

	"github.com/quivernet/quiver/internal/words"
)

// A list is the form of a slice with at most bound elements. An empty slice is read as nil.
type list struct {
	sequence
	typ   reflect.Type
	bound int
}

func (f *list) append(b []byte, v reflect.Value) ([]byte, error) {
	if err := checkBound(v.Len(), f.bound, "elements"); err != nil {
		return b, err
	}
	return f.sequence.append(binary.AppendUvarint(b, uint64(v.Len())), v)
}

// read sets v to a new slice, so an earlier value that shares the old slice stays unchanged.
func (f *list) read(b []byte, v reflect.Value) ([]byte, error) {
	n, rest, err := readCount(b, f.bound, "elements")
	switch {
	case err != nil:
		return nil, err
	case times(n, f.elem.minSize()) > len(rest):
		return nil, fmt.Errorf("%s cannot fit in the remaining %s", words.Plural(n, "element", "elements"), words.Bytes(len(rest)))
	case v.IsValid() && n == 0:
		v.SetZero()
	case v.IsValid():
		v.Set(reflect.MakeSlice(f.typ, n, n))
	}
	return f.sequence.read(rest, v, n)
}

func (*list) minSize() int { return 1 }

func (f *list) maxSize() int {
	return min(uvarintSize(uint64(f.bound))+times(f.bound, f.elem.maxSize()), maxFormSize)
}

func (f *list) String() string { return fmt.Sprintf("[max %d](%v)", f.bound, f.elem) }
