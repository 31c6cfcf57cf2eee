package sealed

import "encoding/binary"

const (
	// firstSealed is the first byte of a sealed packet of version 1. The others from minFirst to maxFirst are for later versions.
	firstSealed = 0x04
	// minFirst and maxFirst bound the first bytes of packets that a Socket keeps from QUIC, which sets one of the two highest bits.
	// Middleboxes take smaller ones for STUN, larger ones for ZRTP and DTLS (RFC 9443, section 3).
	minFirst = 0x04
	maxFirst = 0x0f

	numberBytes = 4
	headerBytes = 1 + idBytes + numberBytes
	tagBytes    = 16

	// Overhead is the number of bytes that sealing adds to the frames of a packet.
	Overhead = headerBytes + tagBytes

	// MaxPacket is the largest packet in bytes that QUIC looks for: quic-go's read buffers are as large.
	MaxPacket = 1452
	// SafePacket is the packet in bytes that every path with QUIC takes (RFC 9000, section 14).
	SafePacket = 1200

	// maxNumber is one above the largest packet number.
	maxNumber = 1 << 62
)

// isSealed reports whether a packet is for a carrier, and not for QUIC.
func isSealed(packet []byte) bool {
	return len(packet) > 0 && packet[0] >= minFirst && packet[0] <= maxFirst
}

// appendHeader appends a header whose number is not masked yet.
func appendHeader(b []byte, to ID, number uint64) []byte {
	b = append(b, firstSealed)
	b = append(b, to[:]...)
	return binary.BigEndian.AppendUint32(b, uint32(number))
}

// checkHeader says why a packet cannot be one of this version. A packet that it keeps is long enough to be unmasked.
func checkHeader(packet []byte) (why drop) {
	switch {
	case len(packet) <= Overhead || len(packet) > JumboPacket:
		return dropSize
	case packet[0] != firstSealed:
		return dropVersion
	}
	return kept
}

// truncated returns the low 32 bits of the number in a header that is not masked.
func truncated(header []byte) uint32 { return binary.BigEndian.Uint32(header[numberAt:]) }
