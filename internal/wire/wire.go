// Package wire reads and appends the fields of messages. Numbers are varints unless a method says
// otherwise, and a string is preceded by its length.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Any is the limit of a number or count that has no limit.
const Any = math.MaxUint64

var (
	errShort    = errors.New("message is truncated")
	errLong     = errors.New("message has bytes left over")
	errOverflow = errors.New("number overflows 64 bits")
)

// A Reader reads the fields of a message, one after another.
//
// After the first failure it returns only zeros, so a parser can read all fields and check for
// failure once, by calling End. The slices that a Reader returns alias the message.
type Reader struct {
	Left []byte // bytes not read yet: first the whole message; nil after a failure
	Err  error  // the first failure
}

// Fail records err as the failure, unless there already was one. A parser calls it if a field has
// an invalid value.
func (r *Reader) Fail(err error) {
	if r.Err == nil {
		r.Left = nil
		r.Err = err
	}
}

// Uvarint reads a number that must not exceed limit.
func (r *Reader) Uvarint(limit uint64) uint64 {
	v, n := binary.Uvarint(r.Left)
	switch {
	case n == 0:
		r.Fail(errShort)
		return 0
	case n < 0:
		r.Fail(errOverflow)
		return 0
	case v > limit:
		r.Fail(fmt.Errorf("%d is above the limit of %d", v, limit))
		return 0
	}
	r.Left = r.Left[n:]
	return v
}

// Positive reads a number from 1 to limit. If it is 0, Positive fails with zero as the error text.
func (r *Reader) Positive(limit uint64, zero string) uint64 {
	v := r.Uvarint(limit)
	if v == 0 {
		r.Fail(errors.New(zero))
	}
	return v
}

// Varint reads a signed number in zigzag encoding.
func (r *Reader) Varint() int64 {
	v := r.Uvarint(Any)
	return int64(v>>1) ^ -int64(v&1)
}

// Count reads the number of items that follow, which must not exceed limit. Each item has at least
// size bytes. Because Count fails if the rest of the message is too short for them, a parser may
// safely allocate memory for as many items as Count returns.
func (r *Reader) Count(limit uint64, size int) int {
	n := r.Uvarint(limit)
	if n > uint64(len(r.Left)/size) {
		r.Fail(errShort)
		return 0
	}
	return int(n)
}

// Take reads n bytes.
func (r *Reader) Take(n int) []byte {
	if n > len(r.Left) {
		r.Fail(errShort)
		return nil
	}
	p := r.Left[:n:n]
	r.Left = r.Left[n:]
	return p
}

// Bytes reads a length, which must not exceed limit, and that many bytes.
func (r *Reader) Bytes(limit uint64) []byte { return r.Take(r.Count(limit, 1)) }

// Byte reads one byte.
func (r *Reader) Byte() byte {
	if p := r.Take(1); p != nil {
		return p[0]
	}
	return 0
}

// Flag reads a byte that must be 0 or 1.
func (r *Reader) Flag() bool {
	b := r.Byte()
	if b > 1 {
		r.Fail(fmt.Errorf("flag %d is neither 0 nor 1", b))
	}
	return b == 1
}

// Fixed reads a big-endian number of n bytes, where n is at most 8.
func (r *Reader) Fixed(n int) (v uint64) {
	for _, b := range r.Take(n) {
		v = v<<8 | uint64(b)
	}
	return v
}

// Uint64 reads a big-endian number of 8 bytes.
func (r *Reader) Uint64() uint64 { return r.Fixed(8) }

// End returns the first failure. Bytes that were not read are a failure too.
func (r *Reader) End() error {
	if len(r.Left) > 0 {
		r.Fail(errLong)
	}
	return r.Err
}

// AppendFlag appends on in the format that Reader.Flag reads.
func AppendFlag(b []byte, on bool) []byte {
	if on {
		return append(b, 1)
	}
	return append(b, 0)
}

// AppendBytes appends the length of p and p itself, in the format that Reader.Bytes reads.
func AppendBytes[P string | []byte](b []byte, p P) []byte {
	return append(binary.AppendUvarint(b, uint64(len(p))), p...)
}
