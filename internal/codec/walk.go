package codec

import (
	"errors"
	"fmt"
	"math/bits"
	"unicode/utf8"

	"github.com/vmihailenco/msgpack/v5/msgpcode"

	"github.com/quivernet/quiver/internal/words"
)

// Limits of one decoded value.
//
// A payload may claim any length, so we check it against its schema before we allocate memory.
// Once it has passed, we know that every element is really there.
const (
	// maxDepth is the deepest nesting of recursive types. It keeps a payload from exhausting the
	// stack, and honest values don't come near it.
	maxDepth = 64
	// A value of n bytes may use up to memoryFree + n*memoryRatio bytes of memory. The ratio is
	// large because honest values need it: a nil slice is one byte on the wire but 24 in memory,
	// and a map with one entry has room for eight.
	memoryFree  = 64 << 10
	memoryRatio = 64
	// Go keeps a map's entries in groups of eight slots. A larger map consists of tables, each
	// with a power of two of slots up to tableSlots, of which at most 7/8 are in use.
	mapHeader, mapSlots, mapTable, tableSlots = 48, 8, 64, 1024
)

var (
	errShort = errors.New("value is truncated")
	errUTF8  = errors.New("string is not valid UTF-8")
	errDepth = fmt.Errorf("value is nested deeper than %d levels", maxDepth)

	errMemory = fmt.Errorf("value would need more than %d KiB plus %d times its size in memory", memoryFree>>10, memoryRatio)
)

// A walk checks one value at the start of a payload without decoding it.
type walk struct {
	b      []byte // not checked yet
	memory int    // bytes that decoding may still allocate
	keys   int    // number of map keys that enclose the value
}

// measure returns the encoded size of the value of s at the start of b, and how much memory it
// will refer to. Unless it fails, the value is safe to decode: every byte is there, every number
// fits, and the memory stays within its limit.
func measure(s *schema, b []byte) (size, memory int, err error) {
	limit := memoryFree + memoryRatio*len(b)
	w := walk{b: b, memory: limit}
	if err := w.value(s, 0); err != nil {
		return 0, 0, err
	}
	size = len(b) - len(w.b)
	memory = limit - w.memory
	if memory > memoryFree+memoryRatio*size {
		// The walk was too generous, because b may go on after the value.
		return 0, 0, errMemory
	}
	return size, memory, nil
}

// value checks a value of s and advances w.b past it.
func (w *walk) value(s *schema, depth int) error {
	if depth > maxDepth {
		return errDepth
	}
	if len(w.b) == 0 {
		return errShort
	}
	before := len(w.b)
	if err := w.content(s, depth); err != nil {
		return err
	}
	if s.maxEncoded == unbounded || s.boundsContent() {
		return nil // bytes has checked the bounds of content
	}
	return checkBound(before-len(w.b), s.maxEncoded, "bytes encoded")
}

// content checks a value of s without the MaxEncodedSize of its type, and advances w.b past it.
func (w *walk) content(s *schema, depth int) error {
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

// composite checks a value that consists of other values. Pointers, slices and maps count
// toward the memory limit. The parts of an array or a struct don't, since they take up space
// in the value that contains them.
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

	// What remains is a struct, which msgpack encodes as an array of its fields.
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
		err = checkBound(n, s.max, "elements")
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
		err = checkBound(n, s.max, "entries")
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

// number checks an integer. It may be encoded in any width, but its value must fit s.
func (w *walk) number(s *schema) error {
	c := w.b[0]
	size := 1
	switch {
	case msgpcode.IsFixedNum(c):
		// A small number is part of its code.
	case c < msgpcode.Uint8 || c > msgpcode.Int64:
		return wrongCode(c, "an integer")
	default:
		// The codes of 1, 2, 4 and 8 bytes follow each other, first unsigned and then signed.
		size += 1 << ((c - msgpcode.Uint8) % 4)
	}
	if len(w.b) < size {
		return errShort
	}
	n, rest := readInteger(w.b)
	w.b = rest
	return checkRange(s, n, c == msgpcode.Uint64 && n < 0)
}

// float checks a float. In a map key we refuse NaN, since it could neither be looked up nor
// deleted.
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
		return errors.New("map key is NaN")
	}
	w.b = w.b[size:]
	return nil
}

// time checks a timestamp, which msgpack encodes as extension -1 in 4, 8 or 12 bytes.
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
		return errors.New("extension is not a time")
	}
	w.b = w.b[head+size:]
	return nil
}

// bytes checks a string, a byte slice, a byte array or an opaque value.
func (w *walk) bytes(s *schema, f *family) error {
	n, err := w.length(f)
	if err != nil {
		return err
	}
	if s.form == formByteArray && n != s.length {
		return fmt.Errorf("has %s instead of %d", words.Bytes(n), s.length)
	}
	if err := s.checkSize(n); err != nil {
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
		return fmt.Errorf("has %s instead of %d", words.Plural(n, "element", "elements"), want)
	}
	return err
}

// length reads the header of a string, an array or a map. Since every element needs at least one
// byte, length refuses a number that exceeds the bytes left.
func (w *walk) length(f *family) (n int, err error) {
	size := 1
	switch c := w.b[0]; {
	case f.mask != 0 && c&f.mask == f.short:
		// A short length is part of the code.
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
	if uint(n) > uint(len(w.b)) { // unsigned, since n may be negative where an int has 32 bits
		return 0, fmt.Errorf("length is %d but only %s left", uint(n), words.Plural(len(w.b), "byte is", "bytes are"))
	}
	return n, nil
}

// spendMap counts the memory that Go allocates for a map of n entries.
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

// slotSize returns how much memory an entry of the map s uses: its key and element, laid out as in
// a struct, and one control byte.
func slotSize(s *schema) int {
	key, elem := s.key.typ.Align(), s.elem.typ.Align()
	size := roundUp(roundUp(s.key.size, elem)+s.elem.size, max(key, elem))
	return size + 1
}

// roundUp rounds n up to a multiple of to, which is a power of two.
func roundUp(n, to int) int { return (n + to - 1) &^ (to - 1) }

// spendEach counts the memory of n values of the given size.
func (w *walk) spendEach(n, size int) error {
	if size > 0 && n > w.memory/size { // n*size might overflow
		return errMemory
	}
	return w.spend(n * size)
}

// spend counts n bytes that decoding will allocate. It returns errMemory if that would exceed
// the limit.
func (w *walk) spend(n int) error {
	if n > w.memory {
		return errMemory
	}
	w.memory -= n
	return nil
}
