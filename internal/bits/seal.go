package bits

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// ChecksumSize is how many bytes the checksum takes in front of a packet.
const ChecksumSize = 4

// ErrChecksum means that a packet is damaged, or speaks another protocol.
var ErrChecksum = errors.New("bits: checksum does not match")

// Checksum returns the CRC-32 (IEEE) over the protocol's id, little endian, and the packet with zeros for its first
// ChecksumSize bytes, which must be there.
func Checksum(packet []byte, protocolID uint32) uint32 {
	crc := ^uint32(0)
	for range 4 + ChecksumSize { // behind its four bytes nothing is left of the id but zeros
		crc = crc32.IEEETable[byte(crc)^byte(protocolID)] ^ crc>>8
		protocolID >>= 8
	}
	return crc32.Update(^crc, crc32.IEEETable, packet[ChecksumSize:])
}

// Seal overwrites the first ChecksumSize bytes of a packet with its checksum, little endian.
func Seal(packet []byte, protocolID uint32) {
	binary.LittleEndian.PutUint32(packet, Checksum(packet, protocolID))
}

// Verify checks what Seal wrote: ErrShort when the packet has no room for it, or ErrChecksum.
func Verify(packet []byte, protocolID uint32) error {
	if len(packet) < ChecksumSize {
		return fmt.Errorf("%w: %d bytes, and the checksum alone takes %d", ErrShort, len(packet), ChecksumSize)
	}
	if binary.LittleEndian.Uint32(packet) != Checksum(packet, protocolID) {
		return ErrChecksum
	}
	return nil
}
