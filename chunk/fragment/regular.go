package fragment

import (
	"cmp"
	"encoding/binary"
	"fmt"

	"github.com/quivernet/quiver/internal/bits"
)

// A Regular is a packet of the article's protocol that is not a fragment. If it is small enough,
// it is sent as it is. Otherwise it is the block that is cut into fragments.
type Regular struct {
	Sequence uint16
	Type     int    // 1 to 3; type 0 is a fragment
	Body     []byte // low bit first; not byte-aligned in the packet
	Bits     int    // body size in bits, 0 to 8 * len(Body)
}

const (
	maxType = 3

	// bodyOffset is the offset of the body in bits, after checksum, sequence and type.
	bodyOffset = 8*typeOffset + 2
)

// Size returns the size in bytes of the packet that AppendRegular appends.
//
// Up to the constant Size, send the packet as it is, to a Reassembler with Config.Regular. Pass a
// larger packet to Split as a whole, with the same sequence.
func (r Regular) Size() int { return (bodyOffset+r.Bits+7)/8 + endBytes }

// check returns an error if r is invalid.
func (r Regular) check() error {
	switch {
	case r.Type < 1 || r.Type > maxType:
		return fmt.Errorf("fragment: regular packet %d has type %d; it must be 1 to %d",
			r.Sequence, r.Type, maxType)
	case r.Bits < 0 || r.Bits > 8*len(r.Body):
		return fmt.Errorf("fragment: regular packet %d has %d bits in a body of %d bytes; it must have 0 to %d",
			r.Sequence, r.Bits, len(r.Body), 8*len(r.Body))
	case r.Size() > MaxBlock:
		return fmt.Errorf("%w: regular packet %d has %d bytes; the limit is %d",
			ErrBlockSize, r.Sequence, r.Size(), MaxBlock)
	}
	return nil
}

// AppendRegular appends packet r to b. protocolID 0 means the reference's. Only the first
// r.Bits bits of the body are encoded.
//
// AppendRegular panics if r breaks the limits in the comments of its fields, or is larger
// than MaxBlock bytes.
func AppendRegular(b []byte, protocolID uint32, r Regular) []byte {
	if err := r.check(); err != nil {
		panic(err.Error())
	}
	start := len(b)
	w := bits.NewWriter(b)
	w.Bits(0, 8*bits.ChecksumSize)
	w.Bits(uint32(r.Sequence), 16)
	w.Bits(uint32(r.Type), 2)
	for i := 0; i < r.Bits; i += 8 {
		w.Bits(uint32(r.Body[i/8]), min(8, r.Bits-i))
	}
	w.Check(endCheck)
	b = w.Bytes()
	bits.Seal(b[start:], cmp.Or(protocolID, defaultProtocolID))
	return b
}

// ParseRegular parses a packet made by AppendRegular, whether it was received as it is or
// reassembled from its fragments. If it is a fragment, the error is ErrFragment.
//
// The body is stored in buf, which grows if it is too small. Bits includes up to 7 bits of padding,
// because the encoding does not say where the body ends within its last byte.
func ParseRegular(packet []byte, protocolID uint32, buf []byte) (Regular, error) {
	if err := verify(packet, protocolID); err != nil {
		return Regular{}, err
	}
	r := Regular{
		Sequence: binary.LittleEndian.Uint16(packet[bits.ChecksumSize:]),
		Type:     int(packet[typeOffset] & 3),
	}
	if r.Type == typeFragment {
		return Regular{}, ErrFragment
	}
	if err := checkRegular(packet); err != nil {
		return Regular{}, err
	}
	reader := bits.NewReader(packet[typeOffset : len(packet)-endBytes])
	reader.Bits(bodyOffset % 8)
	r.Bits = reader.Left()
	r.Body = buf[:0]
	for reader.Left() > 0 {
		r.Body = append(r.Body, byte(reader.Bits(min(8, reader.Left()))))
	}
	return r, nil
}
