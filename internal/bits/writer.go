package bits

import "fmt"

// A Writer appends a bit stream to a byte slice. The stream begins at a byte boundary,
// after the bytes already in the slice.
type Writer struct {
	buf     []byte
	scratch uint64 // bits not yet in buf, lowest first; the others are zero
	count   int    // number of bits in scratch, below 8 between calls
}

// NewWriter returns a Writer that appends to buf.
func NewWriter(buf []byte) Writer { return Writer{buf: buf} }

// Bits writes the low n bits of v, where n is 1 to 32.
func (w *Writer) Bits(v uint32, n int) {
	if n < 1 || n > 32 {
		panic(fmt.Sprintf("bits: a field of %d bits; 1 to 32 are possible", n))
	}
	w.scratch |= uint64(v) & (1<<n - 1) << w.count
	for w.count += n; w.count >= 8; w.count -= 8 {
		w.buf = append(w.buf, byte(w.scratch))
		w.scratch >>= 8
	}
}

// Int writes v, which must be from least to most, in Required(least, most) bits.
func (w *Writer) Int(v, least, most int32) {
	n := Required(least, most)
	if v < least || v > most {
		panic(fmt.Sprintf("bits: %d is outside [%d, %d]", v, least, most))
	}
	w.Bits(uint32(v)-uint32(least), n)
}

// Uint32 writes 32 bits.
func (w *Writer) Uint32(v uint32) { w.Bits(v, 32) }

// Align writes zero bits up to the next byte boundary.
func (w *Writer) Align() {
	if w.count > 0 {
		w.Bits(0, 8-w.count)
	}
}

// Raw aligns and writes p.
func (w *Writer) Raw(p []byte) {
	w.Align()
	w.buf = append(w.buf, p...)
}

// Check aligns and writes the 32 bits of Hash(text).
func (w *Writer) Check(text string) {
	w.Align()
	w.Bits(Hash(text), 32)
}

// Bytes aligns and returns the slice with the stream appended.
func (w *Writer) Bytes() []byte {
	w.Align()
	return w.buf
}
