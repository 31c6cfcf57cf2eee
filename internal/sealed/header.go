package sealed

import "encoding/binary"

const (
	// firstSealed begins a sealed packet of version 1. The others of minFirst to maxFirst are for later versions.
	firstSealed = 0x04
	// minFirst and maxFirst bound the first bytes that a Socket keeps from QUIC. Below is STUN, above are ZRTP and DTLS
	// to middleboxes (RFC 9443, section 3); QUIC sets one of the two highest bits.
	minFirst = 0x04
	maxFirst = 0x0f

	numberBytes = 4
	headerBytes = 1 + idBytes + numberBytes
	tagBytes    = 16

	// Overhead is what sealing adds to the frames of a packet, in bytes.
	Overhead = headerBytes + tagBytes

	// MaxPacket is the largest packet in bytes: what quic-go's read buffers take.
	MaxPacket = 1452
	// SafePacket is what every path that carries QUIC takes, in bytes (RFC 9000, section 14).
	SafePacket = 1200

	// maxNumber is one above the largest packet number.
	maxNumber = 1 << 62
)

// isRaw reports whether a datagram is for a carrier and not for QUIC.
func isSealed(packet []byte) bool {
	return len(packet) > 0 && packet[0] >= minFirst && packet[0] <= maxFirst
}

func appendHeader(b []byte, to ID, number uint64) []byte {
	b = append(b, firstSealed)
	b = append(b, to[:]...)
	return binary.BigEndian.AppendUint32(b, uint32(number))
}

// parseHeader returns the id and the truncated number of a packet that is not too short.
func parseHeader(packet []byte) (to ID, number uint32, why drop) {
	switch {
	case len(packet) <= Overhead || len(packet) > MaxPacket:
		return ID{}, 0, dropSize
	case packet[0] != firstSealed:
		return ID{}, 0, dropVersion
	}
	to = ID(packet[1 : 1+idBytes])
	return to, binary.BigEndian.Uint32(packet[1+idBytes:]), kept
}

// rebuild returns the number nearest to expected whose low 32 bits are given (RFC 9000, A.3).
func rebuild(expected uint64, low uint32) uint64 {
	const window, half = 1 << 32, 1 << 31
	candidate := expected&^(window-1) | uint64(low)
	switch {
	case candidate+half <= expected && candidate < maxNumber-window:
		return candidate + window
	case candidate > expected+half && candidate >= window:
		return candidate - window
	}
	return candidate
}
