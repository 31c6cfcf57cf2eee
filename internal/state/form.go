package state

import (
	"fmt"
	"reflect"
)

// A form encodes and decodes the values of one type. Compile makes the forms of a Plan.
type form interface {
	// append appends the encoding of v to b. After an error, the returned slice may end in
	// part of that encoding.
	append(b []byte, v reflect.Value) ([]byte, error)
	// read decodes a value from the start of b into v, which must be settable. If v is the
	// zero Value, read only skips the encoding. It rejects every encoding that append would
	// not produce. After an error, v may be partly filled in.
	read(b []byte, v reflect.Value) (rest []byte, err error)
	// references calls visit for each reference to an actor in v.
	references(v reflect.Value, visit func(id uint64))

	least() int // size of the smallest encoding, at least 1 byte
	most() int  // size of the largest encoding, at most endless
	String() string
}

// leaf is embedded in the forms whose values hold no references.
type leaf struct{}

func (leaf) references(reflect.Value, func(uint64)) {}

// endless limits the size of a form. Sums and products of sizes are cut off there. Two such
// sizes fit into a 32-bit int, so a sum cannot overflow before it is cut off.
const endless = 1 << 29

// times returns n*size, cut off at endless.
func times(n, size int) int { return int(min(int64(min(n, endless))*int64(size), endless)) }

// take cuts the first n bytes off b.
func take(b []byte, n int) (first, rest []byte, err error) {
	if len(b) < n {
		return nil, nil, fmt.Errorf("it needs %d bytes, %d are left", n, len(b))
	}
	return b[:n:n], b[n:], nil
}
