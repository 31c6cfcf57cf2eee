package fragment

import (
	"cmp"
	"encoding/binary"
	"fmt"

	"github.com/quivernet/quiver/internal/bits"
)

// Regular is a packet of the article's protocol that is no fragment: it is small enough to travel whole, or it is the block that is
// cut into fragments.
type Regular struct {
	Sequence uint16
	Type     int    // 1 to 3: type 0 are fragments
	Body     []byte // low bit first; it begins in the middle of a byte of the packet
	Bits     int    // of the body, 0 to 8 * len(Body)
}

const (
	maxType = 3

	// bodyOffset is where the body begins, in bits: behind checksum, sequence and type.
	bodyOffset = 8*typeOffset + 2
)

// Size returns how many bytes AppendRegular writes. A packet of at most Size bytes travels as it is, for a Reassembler with
// Config.Regular; a larger one is given to Split, whole and with the same sequence.
func (r Regular) Size() int { return (bodyOffset+r.Bits+7)/8 + endBytes }

// check returns an error if r cannot be written.
func (r Regular) check() error {
	switch {
	case r.Type < 1 || r.Type > maxType:
		return fmt.Errorf("fragment: regular packet %d has type %d; 1 to %d are possible", r.Sequence, r.Type, maxType)
	case r.Bits < 0 || r.Bits > 8*len(r.Body):
		return fmt.Errorf("fragment: regular packet %d has %d bits in a body of %d bytes", r.Sequence, r.Bits, len(r.Body))
	case r.Size() > MaxBlock:
		return fmt.Errorf("%w: regular packet %d has %d bytes; %d are possible", ErrBlockSize, r.Sequence, r.Size(), MaxBlock)
	}
	return nil
}

// AppendRegular appends r as a packet; protocolID 0 is the reference's. Bits of Body beyond Bits do not travel. It panics
// when r breaks the limits that its fields name, or takes more than MaxBlock bytes.
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

// ParseRegular reads what AppendRegular wrote: a packet that travelled whole, or the block that its fragments make. Body is
// in buf, which grows if it is too small. The wire does not tell where the body ends within its last byte, so Bits counts the up
// to 7 bits of padding, too. The error of a fragment is ErrFragment.
func ParseRegular(packet []byte, protocolID uint32, buf []byte) (Regular, error) {
	if err := verify(packet, protocolID); err != nil {
		return Regular{}, err
	}
	r := Regular{Sequence: binary.LittleEndian.Uint16(packet[bits.ChecksumSize:]), Type: int(packet[typeOffset] & 3)}
	if r.Type == typeFragment {
		return Regular{}, ErrFragment
	}
	if err := checkRegular(packet); err != nil {
		return Regular{}, err
	}
	reader := bits.NewReader(packet[typeOffset : len(packet)-endBytes])
	reader.Bits(bodyOffset % 8)
	r.Bits, r.Body = reader.Left(), buf[:0]
	for reader.Left() > 0 {
		r.Body = append(r.Body, byte(reader.Bits(min(8, reader.Left()))))
	}
	return r, nil
}
