package bits

import (
	"errors"
	"fmt"
)

// Errors of a Reader.
var (
	ErrShort    = errors.New("bits: stream ends too early")
	ErrRange    = errors.New("bits: value out of its range")
	ErrPadding  = errors.New("bits: padding is not zero")
	ErrCheck    = errors.New("bits: check does not match")
	ErrTrailing = errors.New("bits: bytes after the end")
)

// A Reader reads a bit stream. After the first error, every read returns zero and leaves
// the position unchanged.
type Reader struct {
	data []byte
	pos  int // in bits
	err  error
}

// NewReader returns a Reader of the stream in data.
func NewReader(data []byte) Reader { return Reader{data: data} }

// Err returns the first error, or nil.
func (r *Reader) Err() error { return r.err }

// Left returns the number of bits not read yet.
func (r *Reader) Left() int { return len(r.data)*8 - r.pos }

// fail records the first error.
func (r *Reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// Bits reads n bits, where n is 1 to 32.
func (r *Reader) Bits(n int) uint32 {
	if n < 1 || n > 32 {
		panic(fmt.Sprintf("bits: a field of %d bits; 1 to 32 are possible", n))
	}
	if n > r.Left() {
		r.fail(ErrShort)
	}
	if r.err != nil {
		return 0
	}
	var v uint64
	first, shift := r.pos/8, r.pos%8
	for i := 0; i*8 < shift+n; i++ {
		v |= uint64(r.data[first+i]) << (8 * i)
	}
	r.pos += n
	return uint32(v >> shift & (1<<n - 1))
}

// Int reads a value from least to most. It fails with ErrRange if the value is out of
// range.
func (r *Reader) Int(least, most int32) int32 {
	v := r.Bits(Required(least, most))
	if v > uint32(most)-uint32(least) {
		r.fail(ErrRange)
	}
	if r.err != nil {
		return 0
	}
	return int32(v + uint32(least))
}

// Uint32 reads 32 bits.
func (r *Reader) Uint32() uint32 { return r.Bits(32) }

// Align skips to the next byte boundary. It fails with ErrPadding if a skipped bit is not
// zero.
func (r *Reader) Align() {
	if n := -r.pos & 7; n > 0 && r.Bits(n) != 0 {
		r.fail(ErrPadding)
	}
}

// Raw aligns and returns the next n bytes, which alias the stream.
func (r *Reader) Raw(n int) []byte {
	if n < 0 {
		panic(fmt.Sprintf("bits: %d bytes", n))
	}
	r.Align()
	if n > r.Left()/8 {
		r.fail(ErrShort)
	}
	if r.err != nil {
		return nil
	}
	first := r.pos / 8
	r.pos += n * 8
	return r.data[first : first+n : first+n]
}

// Check aligns and reads 32 bits. It fails with ErrCheck if they are not Hash(text).
func (r *Reader) Check(text string) {
	r.Align()
	if r.Bits(32) != Hash(text) {
		r.fail(ErrCheck)
	}
}

// Finish aligns and returns the first error. The error is ErrTrailing if bytes are left
// over.
func (r *Reader) Finish() error {
	r.Align()
	if r.Left() > 0 {
		r.fail(ErrTrailing)
	}
	return r.err
}
