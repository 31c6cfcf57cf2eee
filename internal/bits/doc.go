// Package bits writes and reads bit streams in the format of the example code for Glenn
// Fiedler's "Building a Game Network Protocol". The first bit written is bit 0 of byte 0,
// so a whole stream is one little-endian integer.
//
// A Writer appends a stream to a byte slice and trusts its caller. A Reader checks the
// stream. After its first error, which it keeps, it returns only zeros.
//
// Seal and Verify write and check the checksum at the beginning of a packet.
package bits
