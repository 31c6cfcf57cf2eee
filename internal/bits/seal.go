package bits

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// ChecksumSize is the size in bytes of the checksum at the beginning of a packet.
const ChecksumSize = 4

// ErrChecksum means that a packet is damaged or belongs to another protocol.
var ErrChecksum = errors.New("bits: checksum does not match")

// Checksum returns the CRC-32 (IEEE) of the protocol's id, in little-endian order, and the
// packet with zeros for its first ChecksumSize bytes. The packet must be at least
// ChecksumSize bytes long.
func Checksum(packet []byte, protocolID uint32) uint32 {
	crc := ^uint32(0)
	// Add the id and the zeros byte by byte, because a buffer for crc32.Update would be
	// allocated.
	//
	// Each round adds the lowest byte of protocolID and shifts it out. After four rounds
	// protocolID is 0, which supplies the zeros for the checksum field.
	for range 4 + ChecksumSize {
		crc = crc32.IEEETable[byte(crc)^byte(protocolID)] ^ crc>>8
		protocolID >>= 8
	}
	return crc32.Update(^crc, crc32.IEEETable, packet[ChecksumSize:])
}

// Seal overwrites the first ChecksumSize bytes of a packet with its checksum, in
// little-endian order. The checksum detects damage and packets of other protocols. It is
// not encryption, and anyone can compute it.
func Seal(packet []byte, protocolID uint32) {
	binary.LittleEndian.PutUint32(packet, Checksum(packet, protocolID))
}

// Verify checks the checksum written by Seal. It returns ErrShort if the packet
// is too short to have a checksum, and ErrChecksum if the checksum is wrong.
func Verify(packet []byte, protocolID uint32) error {
	if len(packet) < ChecksumSize {
		return fmt.Errorf("%w: packet is %d bytes, shorter than its %d-byte checksum",
			ErrShort, len(packet), ChecksumSize)
	}
	if binary.LittleEndian.Uint32(packet) != Checksum(packet, protocolID) {
		return ErrChecksum
	}
	return nil
}
