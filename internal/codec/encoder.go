package codec

import (
	"encoding"
	"sync"

	"github.com/vmihailenco/msgpack/v5"
)

// maxPooledBytes is the capacity of the largest buffer returned to the pool with its encoder.
// It keeps buffers of rare large messages out of the pool. It is twice the default maximum
// message size (bunch.MaxBunchBytes), because append allocates more than a message needs.
const maxPooledBytes = 128 << 10

// An Encoder encodes a message into a buffer that it reuses for later messages.
type Encoder struct {
	Buf     []byte
	msgpack *msgpack.Encoder
}

// encoders is a pool of unused encoders.
var encoders = sync.Pool{New: func() any {
	e := &Encoder{}
	e.msgpack = msgpack.NewEncoder(e)
	e.msgpack.UseArrayEncodedStructs(true)
	e.msgpack.UseCompactInts(true)
	return e
}}

// NewEncoder returns an encoder with an empty buffer. The caller must call Release.
func NewEncoder() *Encoder { return encoders.Get().(*Encoder) }

// Release ends the use of e and its buffer.
func (e *Encoder) Release() {
	if cap(e.Buf) > maxPooledBytes {
		return
	}
	e.Buf = e.Buf[:0]
	encoders.Put(e)
}

// Write implements io.Writer for msgpack.
func (e *Encoder) Write(p []byte) (int, error) {
	e.Buf = append(e.Buf, p...)
	return len(p), nil
}

// WriteByte implements io.ByteWriter for msgpack.
func (e *Encoder) WriteByte(b byte) error {
	e.Buf = append(e.Buf, b)
	return nil
}

// Encode appends the value at p. It fails if the peer would refuse the value.
func (e *Encoder) Encode(c *Codec, p any) (err error) {
	start := len(e.Buf)
	switch c.kind {
	case kindNone:
	case kindRaw:
		e.Buf = append(e.Buf, *p.(*Raw)...)
	case kindBinary:
		err = e.appendBinary(p.(encoding.BinaryAppender))
	default:
		err = e.msgpack.Encode(p)
	}
	if err != nil || !c.picky {
		return err
	}
	if c.kind == kindBinary {
		return within(len(e.Buf)-start, c.whole, "bytes")
	}
	_, _, err = measure(c.schema, e.Buf[start:])
	return err
}

// appendBinary passes the value only the free part of the buffer, so that a mistake in
// AppendBinary cannot change the content. It then appends the result, which usually is in
// that free part already. It never adopts the returned slice, because that may be the value's
// own memory.
func (e *Encoder) appendBinary(p encoding.BinaryAppender) error {
	b, err := p.AppendBinary(e.Buf[len(e.Buf):])
	if err == nil {
		e.Buf = append(e.Buf, b...)
	}
	return err
}
