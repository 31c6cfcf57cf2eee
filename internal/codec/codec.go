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
)

// Raw is a value that is not encoded: its bytes travel as they are.
type Raw []byte

// None is a value of nothing.
type None = struct{}

// Never is the type of a field called _ whose tag codec:"..." says why its struct cannot travel, if no other field of that does.
type Never struct{}

// Codec encodes and decodes the values of one type. Its methods take a pointer to a value and are safe from any goroutine.
type Codec struct {
	typ       reflect.Type
	kind      kind
	schema    *schema // nil unless kind is kindMsgpack
	name      string  // in the shape
	validates bool    // it has a Validate method
	picky     bool    // not every value of the type may travel, so Encode checks each
	whole     int     // of kindBinary: the most bytes, from its MaxEncodedSize
}

type kind uint8

const (
	kindMsgpack kind = iota // checked against a schema
	kindNone
	kindRaw
	kindBinary // AppendBinary and UnmarshalBinary
)

// validator is a value that knows whether it is well formed.
type validator interface{ Validate() error }

// Caches of Of and Inside.
var alone, inside sync.Map // reflect.Type → *Codec

// Of returns the codec of t for values that travel alone, or an error that names the part of t that cannot travel.
func Of(t reflect.Type) (*Codec, error) { return cached(&alone, t, describe) }

// Inside returns the codec of t for values that are parts of others: t may be a pointer there, and a value that encodes itself is written
// as msgpack's bytes.
func Inside(t reflect.Type) (*Codec, error) { return cached(&inside, t, describePart) }

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

// describe makes the codec of t for values that travel alone.
func describe(t reflect.Type) (*Codec, error) {
	p := reflect.PointerTo(t)
	c := &Codec{typ: t, validates: p.Implements(reflect.TypeFor[validator]()), whole: unbounded}
	switch {
	case t.Kind() == reflect.Pointer:
		return nil, fmt.Errorf("%v is a pointer; use the value itself", t)
	case t == reflect.TypeFor[None]():
		c.kind, c.name = kindNone, "none"
	case t == reflect.TypeFor[Raw]():
		c.kind, c.name = kindRaw, "raw"
	case p.Implements(binaryAppender) && p.Implements(binaryUnmarshaler):
		return c, c.binary()
	default:
		return c, c.msgpack()
	}
	return c, nil
}

// describePart makes the codec of t for values that are parts of others.
func describePart(t reflect.Type) (*Codec, error) {
	c := &Codec{typ: t, whole: unbounded}
	return c, c.msgpack()
}

// binary makes c the codec of values that write themselves.
func (c *Codec) binary() (err error) {
	if err := selfReading(c.typ); err != nil {
		return err
	}
	if c.whole, err = wholeOf(c.typ); err != nil {
		return err
	}
	c.kind, c.name, c.picky = kindBinary, "binary "+c.typ.String(), c.whole != unbounded
	if c.picky {
		c.name += fmt.Sprintf(", at most %d bytes", c.whole)
	}
	return nil
}

// msgpack makes c the codec of values that are written by a schema.
func (c *Codec) msgpack() (err error) {
	if c.schema, err = schemaOf(c.typ); err != nil {
		return err
	}
	if len(outlineOf(c.schema, "")) > maxLines { // first: picky takes as long as the outline is
		return fmt.Errorf("%v: it has more than %d fields, nested ones included", c.typ, maxLines)
	}
	c.kind, c.name, c.picky = kindMsgpack, c.schema.name, picky(c.schema)
	return nil
}

// Validate calls the Validate method of *p, if it has one.
func (c *Codec) Validate(p any) error {
	if !c.validates {
		return nil
	}
	return p.(validator).Validate()
}

// Decode fills in the zero value at p from all of payload.
func (c *Codec) Decode(payload []byte, p any) error {
	switch c.kind {
	case kindNone:
		return leftOver(len(payload))
	case kindRaw:
		*p.(*Raw) = payload[:len(payload):len(payload)] // what is appended to it goes elsewhere
		return nil
	case kindBinary:
		if err := within(len(payload), c.whole, "bytes"); err != nil {
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

// Refuses reports whether Encode checks each value because the peer would refuse some values of the type.
func (c *Codec) Refuses() bool { return c.picky }

// Name returns what the shape calls the type.
func (c *Codec) Name() string { return c.name }

// AppendOutline appends a line for each part of the type; path is where the type itself stands, whose line is there already.
func (c *Codec) AppendOutline(lines []string, path string) []string {
	return append(lines, outlineOf(c.schema, path)...)
}

// Shape returns a hash over the kinds, names and bounds of all parts of the type. Types with the same shape can decode each other's
// values.
func (c *Codec) Shape() [32]byte {
	lines := c.AppendOutline([]string{c.name}, "")
	return sha256.Sum256([]byte(strings.Join(lines, "\n")))
}

// Size returns the bounds of the encoded size of a value.
func (c *Codec) Size() Size {
	s := sizer{}
	n, err := s.codec(c)
	if err != nil {
		return Size{Least: c.least(), Unbounded: err, Fixed: !s.varies}
	}
	return Size{Least: c.least(), Most: int(min(n, math.MaxInt32)), Fixed: !s.varies}
}

func (c *Codec) least() int {
	switch c.kind {
	case kindNone:
		return 0
	case kindMsgpack:
		return int(min(least(c.schema), math.MaxInt32))
	}
	return 1 // a length of 0
}

// Append appends the value at p to b. Values that write themselves, and a Raw, have their length before them, so
// that values can stand in a row. On an error b is returned as it was.
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

// Next fills in the zero value at p from the start of b, where Append wrote it, and returns the bytes behind it, and how much memory
// the value refers to. It allocates nothing for lengths that b claims before their bytes are there. A Raw aliases b.
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

// nextDelimited decodes a value with its length before it, or a None. The memory of one that reads itself counts as its bytes.
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

func leftOver(n int) error {
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%d bytes are left over", n)
}
