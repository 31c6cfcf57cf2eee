package codec

import (
	"encoding"
	"sync"

	"github.com/vmihailenco/msgpack/v5"
)

// maxPooledBytes is the capacity of the largest buffer that may return to the pool along with its
// encoder, so that a rare large message doesn't leave its buffer there. It is twice the default
// maximum message size (bunch.MaxBunchBytes), because append allocates more than a message
// needs.
const maxPooledBytes = 128 << 10

// An Encoder encodes a message into a buffer. Encoders and their buffers are pooled, so that
// encoding a message usually allocates nothing.
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

// Release returns e and its buffer to the pool. The caller must not use either afterwards.
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
		// A None has no content.
	case kindRaw:
		e.Buf = append(e.Buf, *p.(*Raw)...)
	case kindBinary:
		err = e.appendBinary(p.(encoding.BinaryAppender))
	default:
		err = e.msgpack.Encode(p)
	}
	if err != nil || !c.refusable {
		return err
	}
	if c.kind == kindBinary {
		return checkBound(len(e.Buf)-start, c.maxEncoded, "bytes")
	}

	// The peer is going to check the message like this, so let the sender find out first.
	_, _, err = measure(c.schema, e.Buf[start:])
	return err
}

// appendBinary appends a value by its own AppendBinary.
//
// The value gets to see only the free part of the buffer, so that a mistake in its method can't
// change what the buffer already holds. We append whatever slice it returns, which is usually in
// that free part anyway, but never adopt it, because it may be the value's own memory.
func (e *Encoder) appendBinary(p encoding.BinaryAppender) error {
	b, err := p.AppendBinary(e.Buf[len(e.Buf):])
	if err == nil {
		e.Buf = append(e.Buf, b...)
	}
	return err
}
