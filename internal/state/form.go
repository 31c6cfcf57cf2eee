package state

import (
	"fmt"
	"reflect"

	"github.com/quivernet/quiver/internal/words"
)

// A form encodes and decodes the values of one type. Compile makes the forms of a Plan.
type form interface {
	// append appends the encoding of v to b. After an error, the returned slice may end in part of
	// that encoding.
	append(b []byte, v reflect.Value) ([]byte, error)
	// read decodes a value from the start of b into v, which must be settable. If v is the
	// zero Value, read only skips the encoding. It rejects every encoding that append would
	// not produce. After an error, v may be partly filled in.
	read(b []byte, v reflect.Value) (rest []byte, err error)
	// references calls visit for each reference to an actor in v.
	references(v reflect.Value, visit func(id uint64))

	minSize() int // size of the smallest encoding, at least 1 byte
	maxSize() int // size of the largest encoding, at most maxFormSize
	String() string
}

// noReferences is embedded in the forms whose values contain no references.
type noReferences struct{}

func (noReferences) references(reflect.Value, func(uint64)) {}

// maxFormSize is the limit at which sums and products of sizes are cut off. Two such sizes fit into
// a 32-bit int, so a sum can't overflow before it is cut off.
const maxFormSize = 1 << 29

// times returns n*size, cut off at maxFormSize.
func times(n, size int) int { return int(min(int64(min(n, maxFormSize))*int64(size), maxFormSize)) }

// take cuts the first n bytes off b.
func take(b []byte, n int) (first, rest []byte, err error) {
	if len(b) < n {
		return nil, nil, fmt.Errorf("field needs %s; the message has only %d left", words.Bytes(n), len(b))
	}
	return b[:n:n], b[n:], nil
}
