package rpc

import (
	"bytes"
	"encoding"
	"encoding/binary"
	"fmt"
	"reflect"
	"sync"

	"github.com/vmihailenco/msgpack/v5"
)

// Raw is an argument that is not encoded: the bytes travel as they are. A handler may use them until it returns;
// what it keeps it must copy.
type Raw []byte

// None is the argument of a call that has none.
type None = struct{}

// maxPooledBytes is the largest message after which an encoder goes back to its pool: its buffer grows with the
// largest value that it met. It lets every message of the default maximum pass.
const maxPooledBytes = 64 << 10

// validator is an argument that knows whether it is well formed.
type validator interface{ Validate() error }

// codec is how values of one type travel.
type codec struct {
	kind      codecKind
	schema    *schema // of codecMsgpack
	name      string  // in the shape
	validates bool
	picky     bool // not every value of the type may travel, so that what was encoded is checked before it leaves
	whole     int  // bytes of codecBinary, from its MaxEncodedSize; unbounded = any
}

type codecKind uint8

const (
	codecMsgpack codecKind = iota // checked against a schema
	codecNone
	codecRaw
	codecBinary // AppendBinary and UnmarshalBinary
)

// codecs caches a codec for each type that was asked for.
var codecs sync.Map // reflect.Type → *codec

// codecOf returns how values of t travel, or an error that names the part of t that can not.
func codecOf(t reflect.Type) (*codec, error) {
	if c, ok := codecs.Load(t); ok {
		return c.(*codec), nil
	}
	p := reflect.PointerTo(t)
	c := &codec{validates: p.Implements(reflect.TypeFor[validator]()), whole: unbounded}
	switch {
	case t.Kind() == reflect.Pointer:
		return nil, fmt.Errorf("%v is a pointer; use the value itself", t)
	case t == reflect.TypeFor[None]():
		c.kind, c.name = codecNone, "none"
	case t == reflect.TypeFor[Raw]():
		c.kind, c.name = codecRaw, "raw"
	case p.Implements(binaryAppender) && p.Implements(binaryUnmarshaler):
		if err := promoted(t); err != nil {
			return nil, err
		}
		var err error
		if c.whole, err = wholeOf(t); err != nil {
			return nil, err
		}
		c.kind, c.name, c.picky = codecBinary, "binary "+t.String(), c.whole != unbounded
		if c.picky {
			c.name += fmt.Sprintf(", at most %d bytes", c.whole)
		}
	default:
		s, err := schemaOf(t)
		if err != nil {
			return nil, err
		}
		c.schema, c.name = s, s.name
		if err := outlined(c); err != nil {
			return nil, fmt.Errorf("%v: %w", t, err)
		}
		c.picky = s.picky()
	}
	codecs.Store(t, c)
	return c, nil
}

// validate asks *p, when it can answer, whether it is well formed. p is a pointer to the argument.
func (c *codec) validate(p any) error {
	if !c.validates {
		return nil
	}
	return p.(validator).Validate()
}

// decode fills in the zero value at p from all of payload.
func (c *codec) decode(payload []byte, p any) error {
	switch c.kind {
	case codecNone:
		return leftOver(len(payload))
	case codecRaw:
		*p.(*Raw) = payload
		return nil
	case codecBinary:
		if err := within(len(payload), c.whole, "bytes"); err != nil {
			return err
		}
		return p.(encoding.BinaryUnmarshaler).UnmarshalBinary(payload)
	}
	n, err := c.schema.measure(payload)
	if err != nil {
		return err
	}
	if err := leftOver(len(payload) - n); err != nil {
		return err
	}
	_, err = c.schema.read(payload, reflect.ValueOf(p).Elem())
	return err
}

func leftOver(n int) error {
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%d bytes are left over", n)
}

// encoder writes a message into a buffer that it keeps for the next one.
type encoder struct {
	buf     []byte
	msgpack *msgpack.Encoder
}

var encoders = sync.Pool{New: func() any {
	e := &encoder{}
	e.msgpack = msgpack.NewEncoder(e)
	e.msgpack.UseArrayEncodedStructs(true)
	e.msgpack.UseCompactInts(true)
	return e
}}

func getEncoder() *encoder { return encoders.Get().(*encoder) }

// release ends the use of e and its buffer.
func (e *encoder) release() {
	if cap(e.buf) > 2*maxPooledBytes || len(e.buf) > maxPooledBytes {
		return
	}
	e.buf = e.buf[:0]
	encoders.Put(e)
}

// Write implements io.Writer for msgpack.
func (e *encoder) Write(p []byte) (int, error) {
	e.buf = append(e.buf, p...)
	return len(p), nil
}

// WriteByte implements io.ByteWriter for msgpack.
func (e *encoder) WriteByte(b byte) error {
	e.buf = append(e.buf, b)
	return nil
}

// call appends a call of m with the argument at p.
func (e *encoder) call(m *method, p any) error {
	e.buf = binary.AppendUvarint(e.buf, uint64(m.id))
	if err := e.value(m.codec, p); err != nil {
		return fmt.Errorf("rpc: %v: argument %v: %w", m, m.arg, err)
	}
	return nil
}

// keep returns the argument at p as a value that outlives the call.
func keep[A any](p *A) any {
	if raw, ok := any(p).(*Raw); ok {
		return Raw(bytes.Clone(*raw))
	}
	return *p
}

// value appends the value at p. One that the peer would refuse is refused here.
func (e *encoder) value(c *codec, p any) (err error) {
	start := len(e.buf)
	switch c.kind {
	case codecNone:
	case codecRaw:
		e.buf = append(e.buf, *p.(*Raw)...)
	case codecBinary:
		var b []byte
		if b, err = p.(encoding.BinaryAppender).AppendBinary(e.buf); err == nil {
			e.buf = b
		}
	default:
		err = e.msgpack.Encode(p)
	}
	if err != nil || !c.picky {
		return err
	}
	if c.kind == codecBinary {
		return within(len(e.buf)-start, c.whole, "bytes")
	}
	_, err = c.schema.measure(e.buf[start:])
	return err
}

// AppendValue appends one value to b as an argument of that type travels: v is a pointer to it, or the value itself.
// Values that write themselves, and Raw, have their length before them, so that values can stand in a row.
// On an error b is returned as it was.
func AppendValue(b []byte, v any) ([]byte, error) {
	c, p, err := codecOfValue(v)
	if err != nil {
		return b, fmt.Errorf("rpc: AppendValue: %w", err)
	}
	e := getEncoder()
	defer e.release()
	if err := e.value(c, p); err != nil {
		return b, fmt.Errorf("rpc: AppendValue(%T): %w", v, err)
	}
	if c.kind == codecBinary || c.kind == codecRaw {
		b = binary.AppendUvarint(b, uint64(len(e.buf)))
	}
	return append(b, e.buf...), nil
}

// codecOfValue returns the codec of v and a pointer to it.
func codecOfValue(v any) (*codec, any, error) {
	t := reflect.TypeOf(v)
	if t == nil {
		return nil, nil, fmt.Errorf("nil has no type")
	}
	if t.Kind() == reflect.Pointer {
		if reflect.ValueOf(v).IsNil() {
			return nil, nil, fmt.Errorf("%v is nil", t)
		}
		c, err := codecOf(t.Elem())
		return c, v, err
	}
	c, err := codecOf(t)
	if err != nil {
		return nil, nil, err
	}
	p := reflect.New(t)
	p.Elem().Set(reflect.ValueOf(v))
	return c, p.Interface(), nil
}

// DecodeValue reads one value that [AppendValue] wrote at the start of b into the one that v points to, and returns
// what follows it. Nothing that b claims is believed before its bytes are there. A Raw aliases b.
func DecodeValue(b []byte, v any) (rest []byte, err error) {
	t := reflect.TypeOf(v)
	if t == nil || t.Kind() != reflect.Pointer || reflect.ValueOf(v).IsNil() {
		return nil, fmt.Errorf("rpc: DecodeValue(%T): must be a pointer to a value", v)
	}
	c, err := codecOf(t.Elem())
	if err != nil {
		return nil, fmt.Errorf("rpc: DecodeValue: %w", err)
	}
	into := reflect.ValueOf(v).Elem()
	into.SetZero()
	if c.kind == codecMsgpack {
		if _, err = c.schema.measure(b); err == nil {
			rest, err = c.schema.read(b, into)
		}
	} else {
		rest, err = c.decodeDelimited(b, v)
	}
	if err != nil {
		return nil, fmt.Errorf("rpc: DecodeValue(%T): %w", v, err)
	}
	return rest, nil
}

// decodeDelimited decodes a value with its length before it, or nothing.
func (c *codec) decodeDelimited(b []byte, p any) (rest []byte, err error) {
	if c.kind == codecNone {
		return b, nil
	}
	size, k := binary.Uvarint(b)
	if k <= 0 || size > uint64(len(b)-k) {
		return nil, fmt.Errorf("its length does not fit the %d bytes left", len(b))
	}
	end := k + int(size)
	return b[end:], c.decode(b[k:end:end], p)
}
