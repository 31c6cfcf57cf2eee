package codec

import (
	"errors"
	"fmt"
	"math/bits"
	"unicode/utf8"

	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// Limits of one decoded value. A payload may claim any length, so it is checked against its
// schema before memory is allocated for it. After the check, every element is known to be
// there.
const (
	// maxDepth is the deepest nesting of recursive types.
	maxDepth = 64
	// memoryFree and memoryRatio bound the memory of a value of n bytes to memoryFree +
	// n*memoryRatio. Honest values need as much: a nil slice takes one byte on the wire and
	// 24 in memory, and a map with one entry has room for eight.
	memoryFree  = 64 << 10
	memoryRatio = 64
	// Go keeps the entries of a map in groups of eight slots. Larger maps have tables whose
	// number of slots is a power of two, at most tableSlots. At most 7/8 of the slots are
	// used.
	mapHeader, mapSlots, mapTable, tableSlots = 48, 8, 64, 1024
)

var (
	errShort = errors.New("it ends too early")
	errUTF8  = errors.New("it is not valid UTF-8")
	errDepth = fmt.Errorf("it is nested deeper than %d", maxDepth)

	errMemory = fmt.Errorf("it would take over %d KiB and %d times its size in memory", memoryFree>>10, memoryRatio)
)

// walk checks one value at the start of a payload.
type walk struct {
	b      []byte // bytes left
	memory int    // bytes that decoding may still allocate
	keys   int    // number of map keys that enclose the current value
	sizing bool   // set by bounded for its call of value, which must not call bounded again
}

// measure returns the encoded size of the value of s at the start of b and the size of the
// memory it refers to. It checks that decoding is safe: every byte is there, every number
// fits, and the memory is within its limit.
func measure(s *schema, b []byte) (size, memory int, err error) {
	most := memoryFree + memoryRatio*len(b)
	w := walk{b: b, memory: most}
	if err := w.value(s, 0); err != nil {
		return 0, 0, err
	}
	size = len(b) - len(w.b)
	memory = most - w.memory
	if memory > memoryFree+memoryRatio*size { // most includes the bytes after the value
		return 0, 0, errMemory
	}
	return size, memory, nil
}

// value checks a value of s and removes it from w.b.
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
	if w.b[0] == msgpcode.Nil && s.mayBeNil() {
		w.b = w.b[1:]
		return nil
	}
	switch s.form {
	case formBool:
		return w.boolean()
	case formInt, formUint:
		return w.number(s)
	case formFloat:
		return w.float(s)
	case formBytes, formOpaque, formByteArray:
		return w.bytes(s, &bytesCodes)
	case formString:
		return w.bytes(s, &stringCodes)
	case formTime:
		return w.time()
	}
	return w.composite(s, depth)
}

// bounded checks a value whose type has a MaxEncodedSize.
func (w *walk) bounded(s *schema, depth int) error {
	before := len(w.b)
	w.sizing = true
	if err := w.value(s, depth); err != nil || s.counted() {
		return err
	}
	return within(before-len(w.b), s.whole, "bytes encoded")
}

// composite checks a value that consists of other values.
func (w *walk) composite(s *schema, depth int) error {
	switch s.form {
	case formPointer:
		if err := w.spend(s.elem.size); err != nil {
			return err
		}
		return w.value(s.elem, depth+1)
	case formSlice:
		return w.slice(s, depth)
	case formMap:
		return w.mapping(s, depth)
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

// slice checks a slice.
func (w *walk) slice(s *schema, depth int) error {
	n, err := w.length(&arrayCodes)
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

// mapping checks a map.
func (w *walk) mapping(s *schema, depth int) error {
	n, err := w.length(&mapCodes)
	if err == nil {
		err = within(n, s.max, "entries")
	}
	if err != nil {
		return err
	}
	if err := w.spendMap(n, slotSize(s)); err != nil {
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

// repeat checks n values of s.
func (w *walk) repeat(s *schema, n, depth int) error {
	for i := range n {
		if err := w.value(s, depth+1); err != nil {
			return fmt.Errorf("element %d: %w", i, err)
		}
	}
	return nil
}

// boolean checks a bool.
func (w *walk) boolean() error {
	if c := w.b[0]; c != msgpcode.True && c != msgpcode.False {
		return wrongCode(c, "a bool")
	}
	w.b = w.b[1:]
	return nil
}

// number checks an integer of any width. Its value must fit s.
func (w *walk) number(s *schema) error {
	c := w.b[0]
	size := 1
	switch {
	case msgpcode.IsFixedNum(c):
	case c < msgpcode.Uint8 || c > msgpcode.Int64:
		return wrongCode(c, "an integer")
	default:
		size += 1 << ((c - msgpcode.Uint8) % 4)
	}
	if len(w.b) < size {
		return errShort
	}
	n, rest := readInteger(w.b)
	w.b = rest
	return fits(s, n, c == msgpcode.Uint64 && n < 0)
}

// float checks a float. A NaN key could be neither found in its map nor deleted.
func (w *walk) float(s *schema) error {
	want := msgpcode.Float
	if s.bits == 64 {
		want = msgpcode.Double
	}
	if w.b[0] != want {
		return wrongCode(w.b[0], s.name)
	}
	size := 1 + s.bits/8
	if len(w.b) < size {
		return errShort
	}
	if f := floatAt(w.b, s.bits); f != f && w.keys > 0 {
		return errors.New("it is NaN, which cannot be a key")
	}
	w.b = w.b[size:]
	return nil
}

// time checks a timestamp: the extension -1 of 4, 8 or 12 bytes.
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
	w.b = w.b[head+size:]
	return nil
}

// bytes checks a string or bytes.
func (w *walk) bytes(s *schema, f *family) error {
	n, err := w.length(f)
	if err != nil {
		return err
	}
	if s.form == formByteArray && n != s.length {
		return fmt.Errorf("it holds %d bytes instead of %d", n, s.length)
	}
	if err := s.holds(n); err != nil {
		return err
	}
	if s.form == formString && !utf8.Valid(w.b[:n]) {
		return errUTF8
	}
	w.b = w.b[n:]
	return w.spend(n)
}

// arrayLen checks the header of an array that must have want elements.
func (w *walk) arrayLen(want int) error {
	n, err := w.length(&arrayCodes)
	if err == nil && n != want {
		return fmt.Errorf("it holds %d elements instead of %d", n, want)
	}
	return err
}

// length reads a header. It refuses a length above the number of bytes left, because each
// element takes at least one byte.
func (w *walk) length(f *family) (n int, err error) {
	size := 1
	switch c := w.b[0]; {
	case f.mask != 0 && c&f.mask == f.short:
	case c == f.code8 && c != 0:
		size = 2
	case c == f.code16:
		size = 3
	case c == f.code32:
		size = 5
	default:
		return 0, wrongCode(c, f.name)
	}
	if len(w.b) < size {
		return 0, errShort
	}
	n, w.b = readLength(w.b)
	if uint(n) > uint(len(w.b)) { // an int of 32 bits may be negative
		return 0, fmt.Errorf("it claims a length of %d with %d bytes left", uint(n), len(w.b))
	}
	return n, nil
}

// spendMap counts the memory of a map of n entries.
func (w *walk) spendMap(n, slot int) error {
	slots, header := mapSlots, mapHeader
	if n > mapSlots {
		slots = 1 << bits.Len(uint(n*8/7-1))
		header += mapTable * (1 + slots/tableSlots)
	}
	if err := w.spend(header); err != nil {
		return err
	}
	return w.spendEach(slots, slot)
}

// slotSize returns the memory of an entry of map s: key and element, laid out as in a struct,
// and a control byte.
func slotSize(s *schema) int {
	key, elem := s.key.typ.Align(), s.elem.typ.Align()
	size := roundUp(roundUp(s.key.size, elem)+s.elem.size, max(key, elem))
	return size + 1
}

// roundUp rounds n up to a multiple of to, which is a power of two.
func roundUp(n, to int) int { return (n + to - 1) &^ (to - 1) }

// spendEach counts the memory of n values of the given size.
func (w *walk) spendEach(n, size int) error {
	if size > 0 && n > w.memory/size {
		return errMemory
	}
	return w.spend(n * size)
}

// spend counts memory that decoding will allocate. It returns errMemory if the limit is
// exceeded.
func (w *walk) spend(n int) error {
	if n > w.memory {
		return errMemory
	}
	w.memory -= n
	return nil
}
