package codec

import (
	"encoding"
	"sync"

	"github.com/vmihailenco/msgpack/v5"
)

// maxPooledBytes is the size of the largest buffer that is returned to the pool with its encoder,
// so that the pool does not keep those of rare large messages. It is twice the default maximum of
// a message (bunch.MaxBunchBytes), because append makes more room than a message needs.
const maxPooledBytes = 128 << 10

// An Encoder encodes a message into a buffer that it reuses for the next one.
type Encoder struct {
	Buf     []byte
	msgpack *msgpack.Encoder
}

// encoders is a pool of the encoders that are not in use.
var encoders = sync.Pool{New: func() any {
	e := &Encoder{}
	e.msgpack = msgpack.NewEncoder(e)
	e.msgpack.UseArrayEncodedStructs(true)
	e.msgpack.UseCompactInts(true)
	return e
}}

// NewEncoder returns an encoder with an empty buffer. The caller must call Release.
func NewEncoder() *Encoder { return encoders.Get().(*Encoder) }

// Release ends the use of e and of its buffer.
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

// Encode appends the value at p. It returns an error for a value that the peer would refuse.
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

// appendBinary passes a value only the room after the buffer's content, so that a mistake
// in its AppendBinary cannot change the content. Then it appends the result, which
// usually is in that room already: memory of the value's own must not become the buffer.
func (e *Encoder) appendBinary(p encoding.BinaryAppender) error {
	b, err := p.AppendBinary(e.Buf[len(e.Buf):])
	if err == nil {
		e.Buf = append(e.Buf, b...)
	}
	return err
}
