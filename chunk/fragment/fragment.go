package fragment

import (
	"cmp"
	"fmt"
	"math"

	"github.com/quivernet/quiver/internal/bits"
)

const (
	// Size is the data size of every fragment except a block's last one, in bytes.
	Size = 1024
	// MaxCount is the maximum number of fragments in a block. The article says 256, but encodes
	// the number as a plain byte: its code writes 256 as 0 and then rejects it.
	MaxCount = 255
	// MaxBlock is the maximum block size in bytes.
	MaxBlock = Size * MaxCount
	// HeaderBytes is the number of bytes that Append adds to a fragment's data.
	HeaderBytes = 9
)

const (
	defaultProtocolID = 0x55667788 // the reference's for fragments; no peer uses 0

	typeFragment = 0 // the other three packet types are regular packets
	typeOffset   = 6 // offset of the type in bytes, after checksum and sequence
	endBytes     = 4 // size of the end check
	minRegular   = typeOffset + 1 + endBytes
)

// endCheck is the text whose hash ends every regular packet.
const endCheck = "end of packet"

// A Fragment is one part of a block. Every fragment of a block except the last has Size bytes.
type Fragment struct {
	Sequence uint16 // the block's sequence number
	Index    int    // 0 to Count-1
	Count    int    // number of fragments in the block, 1 to MaxCount
	Data     []byte // 1 to Size bytes
}

// check returns an error if f is invalid, and no receiver would accept it.
func (f Fragment) check() error {
	switch {
	case f.Count < 1 || f.Count > MaxCount:
		return errCount
	case f.Index < 0 || f.Index >= f.Count:
		return errIndex
	case len(f.Data) == 0:
		return errEmpty
	case len(f.Data) > Size:
		return errOver
	case f.Index < f.Count-1 && len(f.Data) < Size:
		return errUnder
	}
	return nil
}

// Append appends to b a packet with the fragment f. protocolID 0 means the reference's. Append
// panics if f breaks the limits in the comments of its fields, which fragments from Split never
// do.
func Append(b []byte, protocolID uint32, f Fragment) []byte {
	if err := f.check(); err != nil {
		panic(fmt.Sprintf("fragment: cannot append fragment %d of %d with %d bytes: "+
			"index under count, count 1 to %d, bytes 1 to %d, and %d before the last",
			f.Index, f.Count, len(f.Data), MaxCount, Size, Size))
	}
	start := len(b)
	w := bits.NewWriter(b)
	w.Bits(0, 8*bits.ChecksumSize)
	w.Bits(uint32(f.Sequence), 16)
	w.Bits(typeFragment, 2)
	w.Bits(uint32(f.Index), 8)
	w.Bits(uint32(f.Count), 8)
	w.Raw(f.Data)
	b = w.Bytes()
	bits.Seal(b[start:], cmp.Or(protocolID, defaultProtocolID))
	return b
}

// Parse parses a packet made by Append. The fragment's Data aliases the packet. If it is a regular
// packet, the error is ErrRegular.
func Parse(packet []byte, protocolID uint32) (Fragment, error) {
	if err := verify(packet, protocolID); err != nil {
		return Fragment{}, err
	}
	r := bits.NewReader(packet[bits.ChecksumSize:])
	f := Fragment{Sequence: uint16(r.Bits(16))}
	if r.Bits(2) != typeFragment {
		return f, ErrRegular
	}
	f.Index, f.Count = int(r.Bits(8)), int(r.Bits(8))
	if len(packet) < HeaderBytes {
		return Fragment{}, errShort
	}
	r.Align()
	if r.Err() != nil {
		return Fragment{}, errPadding
	}
	f.Data = packet[HeaderBytes:len(packet):len(packet)]
	if err := f.check(); err != nil {
		return Fragment{}, err
	}
	return f, nil
}

// verify checks a packet's checksum, and that something follows its checksum and sequence.
func verify(packet []byte, protocolID uint32) error {
	if len(packet) <= typeOffset {
		return errShort
	}
	if bits.Verify(packet, cmp.Or(protocolID, defaultProtocolID)) != nil {
		return ErrChecksum
	}
	return nil
}

// checkRegular verifies the end check of a regular packet. What's in its body is the caller's
// business.
func checkRegular(packet []byte) error {
	if len(packet) < minRegular {
		return errShort
	}
	r := bits.NewReader(packet[len(packet)-endBytes:])
	r.Check(endCheck)
	if r.Err() != nil {
		return errEnd
	}
	return nil
}

// Loss returns the probability that a block of count packets is lost, if each packet is lost with
// the given probability, independently of the others. At 1 % packet loss it is 2 % for
// 2 fragments, 9.6 % for 10, 63.4 % for 100 and 92.3 % for 255.
func Loss(packet float64, count int) float64 { return 1 - math.Pow(1-packet, float64(count)) }
