package rpc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// Limits of one decoded value. The msgpack decoder makes room for whatever length the wire claims, so a payload is
// walked against its schema first: then every element is known to be there.
const (
	// maxDepth bounds the nesting of recursive types.
	maxDepth = 64
	// memoryFree and memoryRatio bound the memory of a value of n bytes to memoryFree + n*memoryRatio: a nil takes one
	// byte on the wire and 24 as a slice, an entry of a small map takes room for eight.
	memoryFree  = 64 << 10
	memoryRatio = 64
)

var (
	errShort = errors.New("it ends too early")
	errUTF8  = errors.New("it is not valid UTF-8")
	errDepth = fmt.Errorf("it is nested deeper than %d", maxDepth)
)

// walk checks one value at the start of a payload.
type walk struct {
	b      []byte // what is left
	memory int    // bytes that decoding may still allocate
	keys   int    // maps whose keys are being walked, one inside the other
	sizing bool   // bounded is about to measure the next value
}

// measure returns how many bytes the value of s at the start of b takes, and checks that decoding it is safe: that
// every byte is there, every number fits and the memory stays within its limit.
func (s *schema) measure(b []byte) (int, error) {
	w := walk{b: b, memory: memoryFree + memoryRatio*len(b)}
	if err := w.value(s, 0); err != nil {
		return 0, err
	}
	return len(b) - len(w.b), nil
}

func (w *walk) value(s *schema, depth int) error {
	if depth > maxDepth {
		return errDepth
	}
	if len(w.b) == 0 {
		return errShort
	}
	if s.whole != unbounded && !w.sizing {
		return w.bounded(s, depth)
	}
	w.sizing = false
	switch s.form {
	case formBool:
		return w.boolean()
	case formInt, formUint:
		return w.number(s)
	case formFloat:
		return w.float(s)
	case formString:
		return w.text(s)
	case formBytes:
		return w.orNil(func() error { return w.bytes(s) })
	case formByteArray:
		return w.bytes(s)
	case formTime:
		return w.time()
	case formOpaque:
		if s.nullable {
			return w.orNil(func() error { return w.bytes(s) })
		}
		return w.bytes(s)
	}
	return w.composite(s, depth)
}

func (w *walk) composite(s *schema, depth int) error {
	switch s.form {
	case formPointer:
		return w.orNil(func() error {
			if err := w.spend(s.elem.size); err != nil {
				return err
			}
			return w.value(s.elem, depth+1)
		})
	case formSlice:
		return w.orNil(func() error { return w.slice(s, depth) })
	case formMap:
		return w.orNil(func() error { return w.mapping(s, depth) })
	case formArray:
		if err := w.arrayLen(s.length); err != nil {
			return err
		}
		return w.repeat(s.elem, s.length, depth)
	}
	if err := w.arrayLen(len(s.fields)); err != nil {
		return err
	}
	for _, f := range s.fields {
		if err := w.value(f.schema, depth+1); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return nil
}

func (w *walk) slice(s *schema, depth int) error {
	n, err := w.length(msgpcode.FixedArrayLow, msgpcode.Array16, msgpcode.Array32)
	if err == nil {
		err = within(n, s.max, "elements")
	}
	if err != nil {
		return err
	}
	if err := w.spendEach(n, s.elem.size); err != nil {
		return err
	}
	return w.repeat(s.elem, n, depth)
}

func (w *walk) mapping(s *schema, depth int) error {
	n, err := w.length(msgpcode.FixedMapLow, msgpcode.Map16, msgpcode.Map32)
	if err == nil {
		err = within(n, s.max, "entries")
	}
	if err != nil {
		return err
	}
	// Go keeps entries in groups of eight slots, at most 7/8 full, and doubles.
	const header, slots = 48, 8
	if err := w.spend(header); err != nil {
		return err
	}
	if err := w.spendEach(max(2*n, slots), s.key.size+s.elem.size+1); err != nil {
		return err
	}
	for i := range n {
		w.keys++
		if err := w.value(s.key, depth+1); err != nil {
			return fmt.Errorf("key %d: %w", i, err)
		}
		w.keys--
		if err := w.value(s.elem, depth+1); err != nil {
			return fmt.Errorf("value %d: %w", i, err)
		}
	}
	return nil
}

func (w *walk) repeat(s *schema, n, depth int) error {
	for i := range n {
		if err := w.value(s, depth+1); err != nil {
			return fmt.Errorf("element %d: %w", i, err)
		}
	}
	return nil
}

// orNil takes a nil, or what present takes.
func (w *walk) orNil(present func() error) error {
	if w.b[0] == msgpcode.Nil {
		w.b = w.b[1:]
		return nil
	}
	return present()
}

func (w *walk) boolean() error {
	if c := w.b[0]; c != msgpcode.True && c != msgpcode.False {
		return wrongCode(c, "a bool")
	}
	w.b = w.b[1:]
	return nil
}

// number takes an integer of any width whose value fits s.
func (w *walk) number(s *schema) error {
	c := w.b[0]
	w.b = w.b[1:]
	if msgpcode.IsFixedNum(c) {
		return fits(s, int64(int8(c)), false)
	}
	if c < msgpcode.Uint8 || c > msgpcode.Int64 {
		return wrongCode(c, "an integer")
	}
	signed := c >= msgpcode.Int8
	width := 1 << (c - msgpcode.Uint8)
	if signed {
		width = 1 << (c - msgpcode.Int8)
	}
	if len(w.b) < width {
		return errShort
	}
	var raw [8]byte
	copy(raw[8-width:], w.b)
	w.b = w.b[width:]
	n := int64(binary.BigEndian.Uint64(raw[:]))
	if signed {
		shift := 64 - 8*width
		return fits(s, n<<shift>>shift, false)
	}
	return fits(s, n, n < 0)
}

// fits checks that n fits s; huge means that n is an unsigned number above the largest int64.
func fits(s *schema, n int64, huge bool) error {
	switch {
	case s.form == formUint && s.bits == 64 && (huge || n >= 0):
		return nil
	case huge:
	case s.form == formUint && n >= 0 && n>>s.bits == 0:
		return nil
	case s.form == formInt && n>>(s.bits-1) == n>>63:
		return nil
	}
	if huge {
		return fmt.Errorf("%d does not fit %s", uint64(n), s.name)
	}
	return fmt.Errorf("%d does not fit %s", n, s.name)
}

// float takes a float. A key that is not a number would never be found in its map, nor deleted.
func (w *walk) float(s *schema) error {
	want := msgpcode.Float
	if s.bits == 64 {
		want = msgpcode.Double
	}
	if w.b[0] != want {
		return wrongCode(w.b[0], s.name)
	}
	start := w.b
	if err := w.take(1+s.bits/8, nil); err != nil || w.keys == 0 {
		return err
	}
	if f := floatAt(start, s.bits); f != f {
		return errors.New("it is NaN, which can not be a key")
	}
	return nil
}

// time takes a timestamp: the extension -1 of 4, 8 or 12 bytes.
func (w *walk) time() error {
	const extension = 0xff // -1
	head, size := 2, 0
	switch w.b[0] {
	case msgpcode.FixExt4:
		size = 4
	case msgpcode.FixExt8:
		size = 8
	case msgpcode.Ext8:
		head, size = 3, 12
	default:
		return wrongCode(w.b[0], "a time")
	}
	if len(w.b) < head+size {
		return errShort
	}
	if w.b[head-1] != extension || head == 3 && w.b[1] != 12 {
		return errors.New("it holds an extension that is not a time")
	}
	return w.take(head+size, nil)
}

// bytes takes the byte string of s.
func (w *walk) bytes(s *schema) error {
	n, err := w.length(0, msgpcode.Bin16, msgpcode.Bin32)
	if err != nil {
		return err
	}
	if s.form == formByteArray && n != s.length {
		return fmt.Errorf("it holds %d bytes instead of %d", n, s.length)
	}
	if err := s.holds(n); err != nil {
		return err
	}
	return w.take(n, w.spend(n))
}

// text takes a string.
func (w *walk) text(s *schema) error {
	n, err := w.stringLen()
	if err != nil {
		return err
	}
	if n > len(w.b) {
		return errShort
	}
	if err := s.holds(n); err != nil {
		return err
	}
	if !utf8.Valid(w.b[:n]) {
		return errUTF8
	}
	w.b = w.b[n:]
	return nil
}

func (w *walk) stringLen() (int, error) {
	if c := w.b[0]; msgpcode.IsFixedString(c) {
		w.b = w.b[1:]
		return int(c & msgpcode.FixedStrMask), nil
	}
	return w.length(0, msgpcode.Str16, msgpcode.Str32)
}

// arrayLen takes the header of an array that must have want elements.
func (w *walk) arrayLen(want int) error {
	n, err := w.length(msgpcode.FixedArrayLow, msgpcode.Array16, msgpcode.Array32)
	if err == nil && n != want {
		return fmt.Errorf("it holds %d elements instead of %d", n, want)
	}
	return err
}

// length takes a header of one family: short with a four bit length (0 = the family has an 8 bit header before its
// 16 bit one instead), then 16 and 32 bits. A length beyond what is left is refused at once: every element takes a byte.
func (w *walk) length(short, code16, code32 byte) (int, error) {
	if len(w.b) == 0 {
		return 0, errShort
	}
	c, rest := w.b[0], w.b[1:]
	var n uint64
	switch {
	case short != 0 && c&0xf0 == short:
		n = uint64(c & 0x0f)
	case short == 0 && c == code16-1 && len(rest) >= 1:
		n, rest = uint64(rest[0]), rest[1:]
	case c == code16 && len(rest) >= 2:
		n, rest = uint64(binary.BigEndian.Uint16(rest)), rest[2:]
	case c == code32 && len(rest) >= 4:
		n, rest = uint64(binary.BigEndian.Uint32(rest)), rest[4:]
	case c == code16 || c == code32 || short == 0 && c == code16-1:
		return 0, errShort
	default:
		return 0, wrongCode(c, familyOf(code16))
	}
	if n > uint64(len(rest)) {
		return 0, fmt.Errorf("it claims a length of %d with %d bytes left", n, len(rest))
	}
	w.b = rest
	return int(n), nil
}

func familyOf(code16 byte) string {
	switch code16 {
	case msgpcode.Array16:
		return "an array"
	case msgpcode.Map16:
		return "a map"
	case msgpcode.Bin16:
		return "bytes"
	}
	return "a string"
}

// take takes n bytes unless err is set.
func (w *walk) take(n int, err error) error {
	if err != nil {
		return err
	}
	if n > len(w.b) {
		return errShort
	}
	w.b = w.b[n:]
	return nil
}

func (w *walk) spendEach(n, size int) error {
	if size > 0 && n > math.MaxInt32/size {
		return w.spend(math.MaxInt32)
	}
	return w.spend(n * size)
}

// spend counts memory that decoding will take.
func (w *walk) spend(n int) error {
	if n > w.memory {
		return fmt.Errorf("it would take over %d KiB and %d times its size in memory", memoryFree>>10, memoryRatio)
	}
	w.memory -= n
	return nil
}

func wrongCode(c byte, want string) error {
	return fmt.Errorf("it has code 0x%02x where %s should be", c, want)
}
