// Package wire takes fields from the front of messages whose numbers are varints and whose texts have their length before them. It is pure.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Any is the limit of a number or a count that may be as large as it likes.
const Any = math.MaxUint64

var (
	errShort = errors.New("it ends too early")
	errLong  = errors.New("bytes are left over")
)

// Reader takes fields from Left, all that it has not taken yet. After the first failure, which Err keeps, nothing is left and every field
// is zero: who has taken the last field asks End. What it returns aliases the message.
type Reader struct {
	Left []byte
	Err  error
}

// Fail says that a field is not as it must be.
func (r *Reader) Fail(err error) {
	if r.Err == nil {
		r.Left, r.Err = nil, err
	}
}

// Uvarint takes a number of at most limit.
func (r *Reader) Uvarint(limit uint64) uint64 {
	v, n := binary.Uvarint(r.Left)
	switch {
	case n <= 0:
		r.Fail(errShort)
		return 0
	case v > limit:
		r.Fail(fmt.Errorf("%d is above the limit of %d", v, limit))
		return 0
	}
	r.Left = r.Left[n:]
	return v
}

// Positive takes a number from 1 to limit; zero says what a 0 would mean.
func (r *Reader) Positive(limit uint64, zero string) uint64 {
	v := r.Uvarint(limit)
	if v == 0 {
		r.Fail(errors.New(zero))
	}
	return v
}

// Varint takes a number in zigzag.
func (r *Reader) Varint() int64 {
	v := r.Uvarint(Any)
	return int64(v>>1) ^ -int64(v&1)
}

// Count takes a number of at most limit of things that follow, and have size bytes each or more.
func (r *Reader) Count(limit uint64, size int) int {
	n := r.Uvarint(limit)
	if n > uint64(len(r.Left)/size) {
		r.Fail(errShort)
		return 0
	}
	return int(n)
}

// Take takes n bytes.
func (r *Reader) Take(n int) []byte {
	if n > len(r.Left) {
		r.Fail(errShort)
		return nil
	}
	p := r.Left[:n:n]
	r.Left = r.Left[n:]
	return p
}

// Bytes takes a length of at most limit and so many bytes.
func (r *Reader) Bytes(limit uint64) []byte { return r.Take(r.Count(limit, 1)) }

// Byte takes one byte.
func (r *Reader) Byte() byte {
	if p := r.Take(1); p != nil {
		return p[0]
	}
	return 0
}

// Flag takes a byte that is 0 or 1.
func (r *Reader) Flag() bool {
	b := r.Byte()
	if b > 1 {
		r.Fail(fmt.Errorf("flag %d is neither 0 nor 1", b))
	}
	return b == 1
}

// Fixed takes a number of n bytes, at most 8, big endian.
func (r *Reader) Fixed(n int) (v uint64) {
	for _, b := range r.Take(n) {
		v = v<<8 | uint64(b)
	}
	return v
}

// Uint64 takes 8 bytes, big endian.
func (r *Reader) Uint64() uint64 { return r.Fixed(8) }

// End returns the first failure, or that of bytes which are left over.
func (r *Reader) End() error {
	if len(r.Left) > 0 {
		r.Fail(errLong)
	}
	return r.Err
}

// AppendFlag appends what Flag takes.
func AppendFlag(b []byte, on bool) []byte {
	if on {
		return append(b, 1)
	}
	return append(b, 0)
}

// AppendBytes appends what Bytes takes.
func AppendBytes[P string | []byte](b []byte, p P) []byte {
	return append(binary.AppendUvarint(b, uint64(len(p))), p...)
}
