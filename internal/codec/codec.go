package codec

import (
	"crypto/sha256"
	"encoding"
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"strings"
	"sync"

	"github.com/quivernet/quiver/internal/wire"
	"github.com/quivernet/quiver/internal/words"
)

// Raw is a value whose encoding is the value itself.
type Raw []byte

// None is a value without content; its encoding is empty.
type None = struct{}

// Never marks a struct that cannot be encoded. Such a struct has a field _ of type Never, whose
// tag codec:"..." gives the error text. The field has no effect if any other field of the struct
// can be encoded.
type Never struct{}

// A Codec encodes and decodes the values of one type. Its methods take values by pointer and
// may be called concurrently.
type Codec struct {
	typ        reflect.Type
	kind       kind
	schema     *schema // set for kindMsgpack only
	name       string  // name in Shape
	validates  bool    // the type has a Validate method
	refusable  bool    // the peer refuses some values of the type, so Encode must check each one
	maxEncoded int     // for kindBinary, the bound from MaxEncodedSize in bytes
}

// kind says how a Codec encodes its type.
type kind uint8

const (
	kindMsgpack kind = iota // as msgpack, checked against a schema
	kindNone                // None
	kindRaw                 // Raw
	kindBinary              // by the type's AppendBinary and UnmarshalBinary
)

// validator is a value that can check itself.
type validator interface{ Validate() error }

// These are the caches of Of and Inside.
var ofCache, insideCache sync.Map // reflect.Type → *Codec

// Of returns the codec of t for values encoded on their own. Its error names the part of t
// that cannot be encoded.
func Of(t reflect.Type) (*Codec, error) { return cached(&ofCache, t, describe) }

// Inside returns the codec of t for values that are parts of other values. Unlike for Of, t may
// be a pointer, and a value that encodes itself becomes a byte string of msgpack.
func Inside(t reflect.Type) (*Codec, error) { return cached(&insideCache, t, describePart) }

// cached returns the codec of t from cache. If there is none yet, it calls describe to make one.
func cached(cache *sync.Map, t reflect.Type, describe func(reflect.Type) (*Codec, error)) (*Codec, error) {
	if c, ok := cache.Load(t); ok {
		return c.(*Codec), nil
	}
	c, err := describe(t)
	if err != nil {
		return nil, err
	}
	cache.Store(t, c)
	return c, nil
}

// describe makes the codec of t for values encoded on their own.
func describe(t reflect.Type) (*Codec, error) {
	p := reflect.PointerTo(t)
	c := &Codec{typ: t, validates: p.Implements(reflect.TypeFor[validator]()), maxEncoded: unbounded}
	switch {
	case t.Kind() == reflect.Pointer:
		return nil, fmt.Errorf("%v is a pointer: use the value itself", t)
	case t == reflect.TypeFor[None]():
		c.kind, c.name = kindNone, "none"
	case t == reflect.TypeFor[Raw]():
		c.kind, c.name = kindRaw, "raw"
	case p.Implements(binaryAppender) && p.Implements(binaryUnmarshaler):
		if err := c.describeBinary(); err != nil {
			return nil, err
		}
	default:
		if err := c.describeMsgpack(); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// describePart makes the codec of t for values that are parts of other values.
func describePart(t reflect.Type) (*Codec, error) {
	c := &Codec{typ: t, maxEncoded: unbounded}
	if err := c.describeMsgpack(); err != nil {
		return nil, err
	}
	return c, nil
}

// describeBinary makes c the codec of a type that has AppendBinary and UnmarshalBinary.
func (c *Codec) describeBinary() (err error) {
	if err := checkSelfDecoding(c.typ); err != nil {
		return err
	}
	c.maxEncoded, err = maxEncodedSizeOf(c.typ)
	if err != nil {
		return err
	}
	c.kind = kindBinary
	c.name = "binary " + c.typ.String()
	c.refusable = c.maxEncoded != unbounded
	if c.refusable {
		c.name += fmt.Sprintf(", at most %d bytes", c.maxEncoded)
	}
	return nil
}

// describeMsgpack makes c the codec of a type that is encoded as msgpack.
func (c *Codec) describeMsgpack() (err error) {
	c.schema, err = schemaOf(c.typ)
	if err != nil {
		return err
	}
	// This must come before canBeRefused, which would take too long for a longer outline.
	if len(outlineOf(c.schema, "")) > maxLines {
		return fmt.Errorf("%v has more than %d fields, counting nested ones", c.typ, maxLines)
	}
	c.kind = kindMsgpack
	c.name = c.schema.name
	c.refusable = canBeRefused(c.schema)
	return nil
}

// Validate calls the Validate method of p, if it has one.
func (c *Codec) Validate(p any) error {
	if !c.validates {
		return nil
	}
	return p.(validator).Validate()
}

// Decode decodes all of payload into *p, which must be zero. A Raw aliases payload.
func (c *Codec) Decode(payload []byte, p any) error {
	switch c.kind {
	case kindNone:
		return leftOver(len(payload))
	case kindRaw:
		*p.(*Raw) = payload[:len(payload):len(payload)] // so that an append reallocates
		return nil
	case kindBinary:
		if err := checkBound(len(payload), c.maxEncoded, "bytes"); err != nil {
			return err
		}
		return p.(encoding.BinaryUnmarshaler).UnmarshalBinary(payload)
	}
	n, _, err := measure(c.schema, payload)
	if err != nil {
		return err
	}
	if err := leftOver(len(payload) - n); err != nil {
		return err
	}
	_, err = read(c.schema, payload, reflect.ValueOf(p).Elem())
	return err
}

// Refuses reports whether the peer would refuse some values of the type. If so, Encode checks
// each value.
func (c *Codec) Refuses() bool { return c.refusable }

// Name returns the name of the type in its Shape.
func (c *Codec) Name() string { return c.name }

// AppendOutline appends one line for each part of the type, though none for the type itself.
// path is the path of the type, with which the path of each part begins.
func (c *Codec) AppendOutline(lines []string, path string) []string {
	return append(lines, outlineOf(c.schema, path)...)
}

// Shape returns a hash of the kinds, names and bounds of all parts of the type. Two ends can
// decode each other's values if their types have the same shape.
func (c *Codec) Shape() [32]byte {
	lines := c.AppendOutline([]string{c.name}, "")
	return sha256.Sum256([]byte(strings.Join(lines, "\n")))
}

// Size returns the minimum and maximum size of an encoded value.
func (c *Codec) Size() Size {
	s := sizer{}
	n, err := s.codecSize(c)
	if err != nil {
		return Size{Least: c.least(), Unbounded: err, Fixed: !s.needsBound}
	}
	return Size{Least: c.least(), Most: int(min(n, math.MaxInt32)), Fixed: !s.needsBound}
}

// least returns the minimum number of bytes that Append writes.
func (c *Codec) least() int {
	switch c.kind {
	case kindNone:
		return 0
	case kindMsgpack:
		return int(min(least(c.schema), math.MaxInt32))
	}
	return 1 // a Raw or a kindBinary without bytes still has its length
}

// Append appends the encoding of *p to b, so that Next can decode one value after another. Since a
// Raw or a value that encodes itself doesn't say where it ends, Append puts its length first. On
// failure, Append returns b unchanged.
func (c *Codec) Append(b []byte, p any) ([]byte, error) {
	e := NewEncoder()
	defer e.Release()
	if err := e.Encode(c, p); err != nil {
		return b, err
	}
	if c.kind == kindBinary || c.kind == kindRaw {
		b = binary.AppendUvarint(b, uint64(len(e.Buf)))
	}
	return append(b, e.Buf...), nil
}

// Next decodes a value encoded by Append from the start of b into *p, which must be zero. It
// returns the remaining bytes and the size of the memory that the value refers to. A Raw
// aliases b.
//
// The memory that Next allocates is limited by the number of bytes in b, whatever lengths they
// claim.
func (c *Codec) Next(b []byte, p any) (rest []byte, memory int, err error) {
	if c.kind != kindMsgpack {
		return c.nextDelimited(b, p)
	}
	if _, memory, err = measure(c.schema, b); err != nil {
		return nil, 0, err
	}
	rest, err = read(c.schema, b, reflect.ValueOf(p).Elem())
	return rest, memory, err
}

// nextDelimited is Next for a None and for values preceded by their length. We can't know how much
// memory a value uses that decodes itself, so nextDelimited returns the encoded size instead.
func (c *Codec) nextDelimited(b []byte, p any) (rest []byte, memory int, err error) {
	if c.kind == kindNone {
		return b, 0, nil
	}
	r := wire.Reader{Left: b}
	payload := r.Bytes(wire.Any)
	if r.Err != nil {
		return nil, 0, r.Err
	}
	return r.Left, len(payload), c.Decode(payload, p)
}

// leftOver returns an error unless n, the number of bytes after a value, is 0.
func leftOver(n int) error {
	if n == 0 {
		return nil
	}
	return fmt.Errorf("value has %s left over", words.Bytes(n))
}
