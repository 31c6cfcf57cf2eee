package bits

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// ChecksumSize is the number of bytes of the checksum at the beginning of a packet.
const ChecksumSize = 4

// ErrChecksum means that a packet is damaged, or is of another protocol.
var ErrChecksum = errors.New("bits: checksum does not match")

// Checksum returns the CRC-32 (IEEE) of the protocol's id, little endian, and of the packet with zeros for its first ChecksumSize bytes.
// The packet must have at least as many.
func Checksum(packet []byte, protocolID uint32) uint32 {
	crc := ^uint32(0)
	for range 4 + ChecksumSize { // after the id's four bytes, protocolID is 0 for the packet's zeros
		crc = crc32.IEEETable[byte(crc)^byte(protocolID)] ^ crc>>8
		protocolID >>= 8
	}
	return crc32.Update(^crc, crc32.IEEETable, packet[ChecksumSize:])
}

// Seal overwrites the first ChecksumSize bytes of a packet with its checksum, little endian.
func Seal(packet []byte, protocolID uint32) {
	binary.LittleEndian.PutUint32(packet, Checksum(packet, protocolID))
}

// Verify checks the checksum of Seal. It returns ErrShort if the packet has no room for one, or ErrChecksum.
func Verify(packet []byte, protocolID uint32) error {
	if len(packet) < ChecksumSize {
		return fmt.Errorf("%w: %d bytes, and the checksum alone takes %d", ErrShort, len(packet), ChecksumSize)
	}
	if binary.LittleEndian.Uint32(packet) != Checksum(packet, protocolID) {
		return ErrChecksum
	}
	return nil
}
