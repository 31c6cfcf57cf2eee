// Package bits writes and reads the bit streams of Glenn Fiedler's "Building a
// Game Network Protocol", in the format of its example code: the first bit
// written is bit 0 of byte 0, so a whole stream is one little-endian integer.
//
// A Writer appends a stream to a byte slice and trusts its caller. A Reader
// checks what it reads: after its first error, which it keeps, it returns only
// zeros. Seal and Verify write and check the checksum in front of a packet.
package bits
