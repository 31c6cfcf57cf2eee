package vital

import (
	"bytes"
	"encoding/binary"
)

// Flags in the first byte of a packet.
const (
	control06    = 0x10
	connless     = 0x20 // in 0.6 and 0.7
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
	maxChunks   = 255  // what its byte can say; 0.7 writes 256 as 0, and 0.6 any number modulo 256
	ackHighBits = 0x03
	tokenBytes  = 4
	plainHeader = 3
	connless07  = connless | 1 // with the version of the format
)

// PacketHeader is in front of a packet's chunks, or of a control message.
type PacketHeader struct {
	Control    bool // a control message follows instead of chunks
	Resend     bool // asks for all vital chunks after Ack again
	Compressed bool // what follows is Huffman coded
	Ack        int  // the last vital sequence received in order, 0 to 1023
	Chunks     int  // 0 to 255
	Token      uint32
	Tokened    bool // 0.6 only: a token is there (0.6.5); in 0.7 it always is
}

// tokened reports whether a token follows the first three bytes.
func (h PacketHeader) tokened(v Version) bool { return v != V06 || h.Tokened }

// size returns how many bytes AppendPacketHeader writes.
func (h PacketHeader) size(v Version) int {
	if h.tokened(v) {
		return plainHeader + tokenBytes
	}
	return plainHeader
}

func pick(on bool, bit byte) byte {
	if on {
		return bit
	}
	return 0
}

// AppendPacketHeader appends the header of a packet. Ack and Chunks are cut to their 10 and 8 bits.
func AppendPacketHeader(b []byte, v Version, h PacketHeader) []byte {
	first := byte(h.Ack>>8) & ackHighBits
	if v == V06 {
		first |= pick(h.Control, control06) | pick(h.Resend, resend06) | pick(h.Compressed, compressed06) | pick(h.Tokened, token06)
	} else {
		first |= pick(h.Control, control07) | pick(h.Resend, resend07) | pick(h.Compressed, compressed07)
	}
	b = append(b, first, byte(h.Ack), byte(h.Chunks))
	if h.tokened(v) {
		b = binary.BigEndian.AppendUint32(b, h.Token)
	}
	return b
}

// ParsePacketHeader reads what AppendPacketHeader wrote, and returns how many bytes it took. The error of a packet
// without a connection is ErrConnless.
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
	h.Ack, h.Chunks = int(b[0]&ackHighBits)<<8|int(b[1]), int(b[2])
	n := h.size(v)
	if len(b) < n {
		return PacketHeader{}, 0, errPacket
	}
	if n > plainHeader {
		h.Token = binary.BigEndian.Uint32(b[plainHeader:])
	}
	if err := h.checkControl(b[n:]); err != nil && !h.Compressed {
		return PacketHeader{}, 0, err
	}
	return h, n, nil
}

// checkControl refuses a control packet that has chunks or no message.
func (h PacketHeader) checkControl(payload []byte) error {
	if h.Control && (h.Chunks > 0 || len(payload) == 0) {
		return errControl
	}
	return nil
}

func parseFlags(v Version, f byte) (PacketHeader, error) {
	reserved := byte(reserved07)
	h := PacketHeader{Control: f&control07 != 0, Resend: f&resend07 != 0, Compressed: f&compressed07 != 0, Tokened: true}
	if v == V06 {
		reserved = reserved06
		h = PacketHeader{Control: f&control06 != 0, Resend: f&resend06 != 0, Compressed: f&compressed06 != 0, Tokened: f&token06 != 0}
	}
	switch {
	case f&connless != 0:
		return h, ErrConnless
	case f&reserved != 0:
		return h, errReserved
	}
	return h, nil
}

// AppendPacket appends a packet: its header, and its payload, which are chunks or a control message. Chunks are Huffman
// coded when that makes them shorter, as the game's peers do; h.Compressed does not matter.
func AppendPacket(b []byte, v Version, h PacketHeader, payload []byte) []byte {
	return appendPacket(b, v, h, payload, false)
}

func appendPacket(b []byte, v Version, h PacketHeader, payload []byte, plain bool) []byte {
	start := len(b)
	h.Compressed = !h.Control && !plain
	b = AppendPacketHeader(b, v, h)
	if h.Compressed {
		coded, shorter := compress(b, payload, len(payload)-1)
		if shorter {
			return coded
		}
		h.Compressed = false
		b = AppendPacketHeader(b[:start], v, h)
	}
	return append(b, payload...)
}

// ParsePacket reads what AppendPacket wrote. The payload aliases the packet or, when that was compressed, begins at buf[0:]; payload and
// header together have at most 1,400 bytes, whatever the packet says. ParsePacket does not look at chunks: see ParseChunk.
func ParsePacket(v Version, packet, buf []byte) (h PacketHeader, payload []byte, err error) {
	h, n, err := ParsePacketHeader(v, packet)
	if err != nil {
		return h, nil, err
	}
	payload, err = h.decompressed(v, packet[n:], buf)
	return h, payload, err
}

// decompressed returns what follows the header, in buf when it was compressed.
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

// AppendToken appends DDNet's security token, which stands behind the chunks or the control message of a packet of 0.6, and
// is compressed with them. Both ends of a connection write the same token.
func AppendToken(payload []byte, token uint32) []byte {
	return binary.BigEndian.AppendUint32(payload, token)
}

// CutToken takes the token from the end of a payload.
func CutToken(payload []byte) (rest []byte, token uint32, err error) {
	n := len(payload) - tokenBytes
	if n < 0 {
		return nil, 0, errNoToken
	}
	return payload[:n:n], binary.BigEndian.Uint32(payload[n:]), nil
}

// Chunk is a header with its data.
type Chunk struct {
	Header
	Data []byte
}

// ParseChunk reads the chunk at the head of b, which are the bytes after a packet's header. Data aliases b. Unlike
// ParseHeader it refuses headers that no sender writes.
func ParseChunk(v Version, b []byte) (c Chunk, rest []byte, err error) {
	h, n, err := ParseHeader(v, b)
	if err != nil {
		return Chunk{}, nil, err
	}
	var again [maxHeaderBytes]byte
	if !bytes.Equal(AppendHeader(again[:0], v, h), b[:n]) {
		return Chunk{}, nil, errCopies
	}
	if b = b[n:]; len(b) < h.Size {
		return Chunk{}, nil, errData
	}
	return Chunk{Header: h, Data: b[:h.Size:h.Size]}, b[h.Size:], nil
}

// checkChunks walks over count chunks that must fill b.
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

// connless06 is what a packet of 0.6 without a connection begins with.
var connless06 = []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// AppendConnless appends a packet without a connection, such as a query of a server browser. 0.6 has no tokens.
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

// ParseConnless reads what AppendConnless wrote. Data aliases b.
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
