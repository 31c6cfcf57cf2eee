package sealed

import "encoding/binary"

const (
	// firstSealed is the first byte of a sealed packet of version 1. The other values from
	// minFirst to maxFirst are reserved for later versions.
	firstSealed = 0x04
	// minFirst and maxFirst bound the first bytes of packets that a Socket doesn't pass to
	// QUIC. They can't be mistaken for QUIC, which sets one of the two highest bits. Smaller
	// values belong to STUN, and larger ones to ZRTP and DTLS (RFC 9443, section 3).
	minFirst = 0x04
	maxFirst = 0x0f

	numberBytes = 4
	headerBytes = 1 + idBytes + numberBytes
	tagBytes    = 16

	// Overhead is the number of bytes that sealing adds to the frames of a packet.
	Overhead = headerBytes + tagBytes

	// SafePacket is the packet size in bytes that every path with QUIC carries (RFC 9000,
	// section 14).
	SafePacket = 1200
	// FullPacket is the size in bytes of a full packet, which is the largest one for which QUIC
	// probes. It is also the size of quic-go's read buffers.
	FullPacket = 1452

	// maxNumber is one above the largest packet number.
	maxNumber = 1 << 62
)

// isSealed reports whether a packet is for a carrier rather than for QUIC.
func isSealed(packet []byte) bool {
	return len(packet) > 0 && packet[0] >= minFirst && packet[0] <= maxFirst
}

// appendHeader appends a header with the number in the clear.
func appendHeader(b []byte, to ID, number uint64) []byte {
	b = append(b, firstSealed)
	b = append(b, to[:]...)
	return binary.BigEndian.AppendUint32(b, uint32(number))
}

// checkHeader returns why a packet can't be one of this version, or dropNone if it may be. In that
// case, it's long enough to be unmasked.
func checkHeader(packet []byte) (why drop) {
	switch {
	case len(packet) <= Overhead || len(packet) > JumboPacket:
		return dropSize
	case packet[0] != firstSealed:
		return dropVersion
	}
	return dropNone
}

// headerNumber returns the low 32 bits of the packet number, which are in the unmasked header.
func headerNumber(header []byte) uint32 { return binary.BigEndian.Uint32(header[numberAt:]) }
