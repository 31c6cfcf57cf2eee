package vital

import "fmt"

// Version is a version of the protocol.
type Version uint8

const (
	V06 Version = iota // Teeworlds 0.6: 10-bit sizes
	V07                // Teeworlds 0.7: 12-bit sizes, a token in every packet
)

func (v Version) String() string {
	switch v {
	case V06:
		return "0.6"
	case V07:
		return "0.7"
	}
	return fmt.Sprintf("Version(%d)", uint8(v))
}

// Flags are the flags of a chunk.
type Flags uint8

const (
	Vital  Flags = 1 // the chunk is delivered reliably and in order
	Resend Flags = 2 // the chunk was sent before
)

const (
	sequenceBits = 10
	sequenceMask = 1<<sequenceBits - 1

	maxHeaderBytes = 3 // maximum size of a chunk's header
)

// A Header is the header of a chunk, which precedes its data.
type Header struct {
	Flags    Flags
	Size     int // data size in bytes
	Sequence int // 0 to 1023; -1 if not vital
}

// sizeBits returns how many bits of the size are in a header's second byte. Six more are in the
// first.
func (v Version) sizeBits() int {
	if v == V06 {
		return 4
	}
	return 6
}

// maxSize returns the maximum size that a header can encode.
func (v Version) maxSize() int { return 1<<(6+v.sizeBits()) - 1 }

// AppendHeader appends a chunk's header. Size is truncated to 10 bits in 0.6 and 12 in 0.7,
// and Sequence to 10 bits. The sequence is encoded only if the chunk is vital.
func AppendHeader(b []byte, v Version, h Header) []byte {
	low := v.sizeBits()
	size := h.Size & v.maxSize()
	first, second := byte(h.Flags&3)<<6|byte(size>>low), byte(size&(1<<low-1))
	if h.Flags&Vital == 0 {
		return append(b, first, second)
	}
	// 0.6 has four bits for the upper two bits of the sequence, so bits 6 and 7 are encoded twice.
	sequence := h.Sequence & sequenceMask
	return append(b, first, second|byte(sequence>>2)&^(1<<low-1), byte(sequence))
}

// ParseHeader parses a header appended by AppendHeader and returns its length. As in the game, it
// combines bits that are encoded twice with OR, and ignores the sequence bits of a header that is
// not vital.
func ParseHeader(v Version, b []byte) (Header, int, error) {
	if len(b) < 2 {
		return Header{}, 0, errHeader
	}
	low := v.sizeBits()
	h := Header{
		Flags:    Flags(b[0] >> 6),
		Size:     int(b[0]&0x3f)<<low | int(b[1])&(1<<low-1),
		Sequence: -1,
	}
	if h.Flags&Vital == 0 {
		return h, 2, nil
	}
	if len(b) < 3 {
		return Header{}, 0, errHeader
	}
	h.Sequence = int(b[1])&^(1<<low-1)<<2 | int(b[2])
	return h, 3, nil
}
