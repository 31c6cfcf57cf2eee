package vital

import (
	"bytes"
	"encoding/binary"
)

// Flags in a packet's first byte.
const (
	control06    = 0x10
	connless     = 0x20 // the same in 0.6 and 0.7
	resend06     = 0x40
	compressed06 = 0x80
	token06      = 0x08
	reserved06   = 0x04

	control07    = 0x04
	resend07     = 0x08
	compressed07 = 0x10
	reserved07   = 0xc0
)

const (
	maxPacket   = 1400 // NET_MAX_PACKETSIZE
	maxChunks   = 255  // the count is a byte: 0.7 sends 256 as 0, 0.6 sends any count modulo 256
	ackHighBits = 0x03
	tokenBytes  = 4
	plainHeader = 3            // size of a header without a token
	connless07  = connless | 1 // the low bits are the version of the format
)

// A PacketHeader is a packet's header, which is followed by its chunks or its control message.
type PacketHeader struct {
	Control    bool // a control message follows instead of chunks
	Resend     bool // asks the receiver to resend all vital chunks after Ack
	Compressed bool // the payload is Huffman coded
	Ack        int  // sequence of the last vital chunk received in order, 0 to 1023
	Chunks     int  // number of chunks, 0 to 255
	Token      uint32
	Tokened    bool // the header has a token (0.6.5); ignored in 0.7, which always has one
}

// tokened reports whether a token follows the first three bytes of the header.
func (h PacketHeader) tokened(v Version) bool { return v != V06 || h.Tokened }

// size returns the length of the header in bytes.
func (h PacketHeader) size(v Version) int {
	if h.tokened(v) {
		return plainHeader + tokenBytes
	}
	return plainHeader
}

// pick returns bit if on is true, and 0 otherwise.
func pick(on bool, bit byte) byte {
	if on {
		return bit
	}
	return 0
}

// AppendPacketHeader appends a packet's header. Ack and Chunks are truncated to 10 and 8 bits.
func AppendPacketHeader(b []byte, v Version, h PacketHeader) []byte {
	first := byte(h.Ack>>8) & ackHighBits
	if v == V06 {
		first |= pick(h.Control, control06) | pick(h.Resend, resend06) |
			pick(h.Compressed, compressed06) | pick(h.Tokened, token06)
	} else {
		first |= pick(h.Control, control07) | pick(h.Resend, resend07) | pick(h.Compressed, compressed07)
	}
	b = append(b, first, byte(h.Ack), byte(h.Chunks))
	if h.tokened(v) {
		b = binary.BigEndian.AppendUint32(b, h.Token)
	}
	return b
}

// ParsePacketHeader parses a header appended by AppendPacketHeader and returns its length. If the
// packet belongs to no connection, the error is ErrConnless.
func ParsePacketHeader(v Version, b []byte) (PacketHeader, int, error) {
	if len(b) < plainHeader {
		return PacketHeader{}, 0, errPacket
	}
	if len(b) > maxPacket {
		return PacketHeader{}, 0, errLong
	}
	h, err := parseFlags(v, b[0])
	if err != nil {
		return PacketHeader{}, 0, err
	}
	h.Ack = int(b[0]&ackHighBits)<<8 | int(b[1])
	h.Chunks = int(b[2])
	n := h.size(v)
	if len(b) < n {
		return PacketHeader{}, 0, errPacket
	}
	if n > plainHeader {
		h.Token = binary.BigEndian.Uint32(b[plainHeader:])
	}
	if err := h.checkControl(b[n:]); err != nil && !h.Compressed {
		return PacketHeader{}, 0, err // decompressed checks a compressed payload later
	}
	return h, n, nil
}

// checkControl returns an error if h is a control packet that has chunks or lacks its message.
func (h PacketHeader) checkControl(payload []byte) error {
	if h.Control && (h.Chunks > 0 || len(payload) == 0) {
		return errControl
	}
	return nil
}

// parseFlags parses the first byte of a packet.
func parseFlags(v Version, f byte) (PacketHeader, error) {
	reserved := byte(reserved07)
	h := PacketHeader{
		Control:    f&control07 != 0,
		Resend:     f&resend07 != 0,
		Compressed: f&compressed07 != 0,
		Tokened:    true,
	}
	if v == V06 {
		reserved = reserved06
		h = PacketHeader{
			Control:    f&control06 != 0,
			Resend:     f&resend06 != 0,
			Compressed: f&compressed06 != 0,
			Tokened:    f&token06 != 0,
		}
	}
	switch {
	case f&connless != 0:
		return h, ErrConnless
	case f&reserved != 0:
		return h, errReserved
	}
	return h, nil
}

// AppendPacket appends a packet: its header and its payload, which is chunks or a control message.
// Like the game's own peers, it Huffman-codes the chunks if that makes them shorter, regardless of
// h.Compressed.
func AppendPacket(b []byte, v Version, h PacketHeader, payload []byte) []byte {
	return appendPacket(b, v, h, payload, false)
}

// appendPacket is AppendPacket, but never compresses if plain is true.
func appendPacket(b []byte, v Version, h PacketHeader, payload []byte, plain bool) []byte {
	start := len(b)
	h.Compressed = !h.Control && !plain
	b = AppendPacketHeader(b, v, h)
	if h.Compressed {
		coded, shorter := compress(b, payload, len(payload)-1)
		if shorter {
			return coded
		}

		// The code is no shorter, so start again without it.
		h.Compressed = false
		b = AppendPacketHeader(b[:start], v, h)
	}
	return append(b, payload...)
}

// ParsePacket parses a packet made by AppendPacket. The payload aliases the packet or, if it was
// compressed, begins at buf[0:]. Whatever the packet contains, header and payload together have at
// most 1,400 bytes.
//
// ParsePacket does not check chunks (see ParseChunk).
func ParsePacket(v Version, packet, buf []byte) (h PacketHeader, payload []byte, err error) {
	h, n, err := ParsePacketHeader(v, packet)
	if err != nil {
		return h, nil, err
	}
	payload, err = h.decompressed(v, packet[n:], buf)
	return h, payload, err
}

// decompressed returns the payload, which it decompresses into buf if necessary.
func (h PacketHeader) decompressed(v Version, payload, buf []byte) ([]byte, error) {
	if !h.Compressed {
		return payload, nil
	}
	payload, err := Decompress(buf[:0], payload, maxPacket-h.size(v))
	if err == nil {
		err = h.checkControl(payload)
	}
	return payload, err
}

// AppendToken appends DDNet's security token to a payload. DDNet speaks 0.6. It appends the token
// to the chunks or the control message of a packet and compresses it along with them. Both ends
// of a connection send the same token.
func AppendToken(payload []byte, token uint32) []byte {
	return binary.BigEndian.AppendUint32(payload, token)
}

// CutToken removes the token from the end of a payload.
func CutToken(payload []byte) (rest []byte, token uint32, err error) {
	n := len(payload) - tokenBytes
	if n < 0 {
		return nil, 0, errNoToken
	}
	return payload[:n:n], binary.BigEndian.Uint32(payload[n:]), nil
}

// A Chunk is a chunk's header and data.
type Chunk struct {
	Header
	Data []byte
}

// ParseChunk parses the chunk at the beginning of b, which holds the bytes after a packet's header.
// Data aliases b. Unlike ParseHeader, ParseChunk rejects headers that no correct sender sends.
func ParseChunk(v Version, b []byte) (c Chunk, rest []byte, err error) {
	h, n, err := ParseHeader(v, b)
	if err != nil {
		return Chunk{}, nil, err
	}
	var encoded [maxHeaderBytes]byte
	if !bytes.Equal(AppendHeader(encoded[:0], v, h), b[:n]) {
		return Chunk{}, nil, errCopies
	}
	b = b[n:]
	if len(b) < h.Size {
		return Chunk{}, nil, errData
	}
	return Chunk{Header: h, Data: b[:h.Size:h.Size]}, b[h.Size:], nil
}

// checkChunks returns an error unless b consists of exactly count chunks.
func checkChunks(v Version, b []byte, count int) error {
	for range count {
		_, rest, err := ParseChunk(v, b)
		if err != nil {
			return err
		}
		b = rest
	}
	if len(b) > 0 {
		return errTrailing
	}
	return nil
}

// connless06 is the beginning of every 0.6 packet without a connection.
var connless06 = []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// AppendConnless appends a packet that belongs to no connection, such as a server browser's query.
// In 0.6 such a packet has no tokens, and token and response are ignored.
func AppendConnless(b []byte, v Version, token, response uint32, data []byte) []byte {
	if v == V06 {
		b = append(b, connless06...)
	} else {
		b = append(b, connless07)
		b = binary.BigEndian.AppendUint32(b, token)
		b = binary.BigEndian.AppendUint32(b, response)
	}
	return append(b, data...)
}

// ParseConnless parses a packet made by AppendConnless. Data aliases b.
func ParseConnless(v Version, b []byte) (token, response uint32, data []byte, err error) {
	switch {
	case len(b) > maxPacket:
		return 0, 0, nil, errLong
	case v == V06 && bytes.HasPrefix(b, connless06):
		return 0, 0, b[len(connless06):], nil
	case v != V06 && len(b) >= 9 && b[0] == connless07:
		return binary.BigEndian.Uint32(b[1:]), binary.BigEndian.Uint32(b[5:]), b[9:], nil
	}
	return 0, 0, nil, errPacket
}
