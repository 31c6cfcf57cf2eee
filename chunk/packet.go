package chunk

import (
	"cmp"
	"errors"
	"fmt"
	mathbits "math/bits"

	"github.com/quivernet/quiver/internal/bits"
	"github.com/quivernet/quiver/internal/words"
)

const (
	// MaxSlices is the maximum number of slices in a chunk, which is 256 in the article. Its last
	// source file has 32, which makes the fields narrower and isn't compatible.
	MaxSlices = 256

	// Overhead is the maximum size of a slice packet without the slice's data, in bytes.
	Overhead = 14

	defaultProtocolID = 0x11223344 // the reference's
	defaultSliceSize  = 1024
	minSliceSize      = 64
	maxSliceSize      = 32768 // largest with which a header fits in Overhead
)

// Kind is the type of a packet.
type Kind uint8

// Packet kinds, with their codes on the wire.
const (
	KindSlice Kind = iota
	KindAck
)

// String returns the kind's name.
func (k Kind) String() string {
	switch k {
	case KindSlice:
		return "slice"
	case KindAck:
		return "ack"
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Bits is a set of slice indexes of one chunk. Set and Has panic for an index
// outside [0, MaxSlices).
type Bits [MaxSlices / 64]uint64

// Set adds slice i to the set.
func (b *Bits) Set(i int) { b[i>>6] |= 1 << (i & 63) }

// Has reports whether slice i is in the set.
func (b *Bits) Has(i int) bool { return b[i>>6]>>(i&63)&1 == 1 }

// Count returns the number of slices in the set.
func (b *Bits) Count() int {
	n := 0
	for _, w := range b {
		n += mathbits.OnesCount64(w)
	}
	return n
}

// firstBits returns the set of slices 0 to n-1.
func firstBits(n int) (b Bits) {
	for i := range b {
		b[i] = 1<<min(max(n-i*64, 0), 64) - 1
	}
	return b
}

// A Slice is one part of a chunk. Every slice but the last has the full slice size.
type Slice struct {
	ChunkID      uint16
	Index, Count int // 0 <= Index < Count <= MaxSlices
	Data         []byte
}

// last reports whether s is the last slice of its chunk.
func (s Slice) last() bool { return s.Index == s.Count-1 }

// check returns an error if s is not a valid slice, given the slice size.
func (s Slice) check(sliceSize int) error {
	switch {
	case s.Count < 1 || s.Count > MaxSlices:
		return fmt.Errorf("chunk: chunk %d has %d slices; it must have 1 to %d", s.ChunkID, s.Count, MaxSlices)
	case s.Index < 0 || s.Index >= s.Count:
		return fmt.Errorf("chunk: slice index %d of chunk %d is out of range [0, %d)", s.Index, s.ChunkID, s.Count)
	case len(s.Data) < 1 || len(s.Data) > sliceSize || !s.last() && len(s.Data) != sliceSize:
		return fmt.Errorf("chunk: slice %d of %d in chunk %d has %d bytes; "+
			"the slice size is %d, and only the last slice may have fewer",
			s.Index, s.Count, s.ChunkID, len(s.Data), sliceSize)
	}
	return nil
}

// An Ack says which slices of a chunk have arrived at the receiver.
type Ack struct {
	ChunkID uint16
	Count   int // 1 to MaxSlices
	Acked   Bits
}

// A Packet is a parsed packet. Kind says whether Slice or Ack is set.
type Packet struct {
	Kind  Kind
	Slice Slice // Data aliases the packet
	Ack   Ack
}

// ErrMalformed is wrapped by every error about the bytes of a packet.
var ErrMalformed = errors.New("chunk: malformed packet")

// Errors that anybody can cause without knowing the protocol ID, and those for packets of the other
// direction. They are allocated once, so that a flood of bad packets costs no memory.
var (
	errShort    = fmt.Errorf("%w: shorter than its checksum", ErrMalformed)
	errChecksum = fmt.Errorf("%w: checksum mismatch: packet is damaged or has another protocol ID", ErrMalformed)
	errNotSlice = fmt.Errorf("%w: ack sent to a receiver", ErrMalformed)
	errNotAck   = fmt.Errorf("%w: slice sent to a sender", ErrMalformed)
)

// AppendSlice appends to b a packet with the slice s, for the article's slice size of 1,024 bytes.
// protocolID 0 means the reference's. AppendSlice panics if s is invalid.
func AppendSlice(b []byte, protocolID uint32, s Slice) []byte {
	return appendSlice(b, protocolID, defaultSliceSize, s)
}

// AppendAck appends to b a packet with the ack a, without the Acked bits at Count and above.
// protocolID 0 means the reference's. AppendAck panics if Count is out of range.
func AppendAck(b []byte, protocolID uint32, a Ack) []byte {
	if a.Count < 1 || a.Count > MaxSlices {
		panic(fmt.Sprintf("chunk: ack of chunk %d has %d slices; it must have 1 to %d",
			a.ChunkID, a.Count, MaxSlices))
	}
	start := len(b)
	w := beginPacket(b, KindAck, a.ChunkID)
	w.Int(int32(a.Count), 1, MaxSlices)
	for i := 0; i < a.Count; i += 32 {
		w.Bits(uint32(a.Acked[i>>6]>>(i&63)), min(32, a.Count-i))
	}
	return endPacket(w, start, protocolID)
}

// Parse parses a packet made by AppendSlice or AppendAck. If the packet is invalid, it returns an
// error that wraps ErrMalformed.
//
// Parse is stricter than the reference: nothing may follow the packet, padding must be zero, and
// Index must be less than Count.
func Parse(packet []byte, protocolID uint32) (Packet, error) {
	return parse(packet, protocolID, defaultSliceSize)
}

// endCheck is the last word of every packet.
var endCheck = bits.Hash("end of packet")

// appendSlice is AppendSlice for any slice size. Only the last slice has a size field, because all
// others have the slice size.
func appendSlice(b []byte, protocolID uint32, sliceSize int, s Slice) []byte {
	if err := s.check(sliceSize); err != nil {
		panic(err)
	}
	start := len(b)
	w := beginPacket(b, KindSlice, s.ChunkID)
	w.Int(int32(s.Index), 0, MaxSlices-1)
	w.Int(int32(s.Count), 1, MaxSlices)
	if s.last() {
		w.Int(int32(len(s.Data)), 1, int32(sliceSize))
	}
	w.Raw(s.Data)
	return endPacket(w, start, protocolID)
}

// beginPacket writes the header of a packet, with room for the checksum that endPacket fills in.
func beginPacket(b []byte, k Kind, id uint16) bits.Writer {
	w := bits.NewWriter(b)
	w.Uint32(0) // checksum
	w.Bits(uint32(k), 1)
	w.Bits(uint32(id), 16)
	return w
}

// endPacket writes the end check of the packet that begins at start, and then fills in its
// checksum.
func endPacket(w bits.Writer, start int, protocolID uint32) []byte {
	w.Align()
	w.Uint32(endCheck)
	b := w.Bytes()
	bits.Seal(b[start:], cmp.Or(protocolID, defaultProtocolID))
	return b
}

// parse is Parse for any slice size.
func parse(packet []byte, protocolID uint32, sliceSize int) (p Packet, err error) {
	if len(packet) < bits.ChecksumSize {
		return Packet{}, errShort
	}
	if bits.Verify(packet, cmp.Or(protocolID, defaultProtocolID)) != nil {
		return Packet{}, errChecksum
	}
	r := bits.NewReader(packet)
	r.Uint32()
	p.Kind = Kind(r.Bits(1))
	if p.Kind == KindSlice {
		p.Slice, err = readSlice(&r, sliceSize)
	} else {
		p.Ack = readAck(&r)
	}

	// If there are several errors, report the first.
	r.Align()
	if r.Uint32() != endCheck && err == nil && r.Err() == nil {
		err = bits.ErrCheck
	}
	if end := r.Finish(); err == nil {
		err = end
	}
	if err != nil {
		return Packet{}, fmt.Errorf("%w: %s of %v: %w", ErrMalformed, words.Bytes(len(packet)), p.Kind, err)
	}
	return p, nil
}

func readSlice(r *bits.Reader, sliceSize int) (s Slice, err error) {
	s.ChunkID = uint16(r.Bits(16))
	s.Index = int(r.Int(0, MaxSlices-1))
	s.Count = int(r.Int(1, MaxSlices))
	size := sliceSize
	if s.last() {
		size = int(r.Int(1, int32(sliceSize)))
	}
	s.Data = r.Raw(size)
	if r.Err() != nil {
		return s, r.Err()
	}
	return s, s.check(sliceSize)
}

func readAck(r *bits.Reader) (a Ack) {
	a.ChunkID = uint16(r.Bits(16))
	a.Count = int(r.Int(1, MaxSlices))
	for i := 0; i < a.Count; i += 32 {
		a.Acked[i>>6] |= uint64(r.Bits(min(32, a.Count-i))) << (i & 63)
	}
	return a
}
