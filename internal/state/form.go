package state

import (
	"fmt"
	"reflect"
)

// form is how values of one type travel.
type form interface {
	// append appends v to b. On an error, what it returns may end with a part of v.
	append(b []byte, v reflect.Value) ([]byte, error)
	// read fills in the settable v from the start of b, or only steps over the value when v is the zero Value. It accepts only what append
	// writes. On an error v may be partly filled in.
	read(b []byte, v reflect.Value) (rest []byte, err error)
	// references calls visit for every reference in v.
	references(v reflect.Value, visit func(id uint64))

	least() int // bytes, 1 or more
	most() int  // bytes, up to endless
	String() string
}

// leaf is part of the forms that refer to nothing.
type leaf struct{}

func (leaf) references(reflect.Value, func(uint64)) {}

// endless is as large as the size of a form gets: sums and products of sizes are cut to it, so that they do not overflow; two of
// it fit an int of 32 bits.
const endless = 1 << 29

func times(n, size int) int { return int(min(int64(min(n, endless))*int64(size), endless)) }

// take cuts the first n bytes off b.
func take(b []byte, n int) (first, rest []byte, err error) {
	if len(b) < n {
		return nil, nil, fmt.Errorf("it needs %d bytes, %d are left", n, len(b))
	}
	return b[:n:n], b[n:], nil
}
