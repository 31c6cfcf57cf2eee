// Package bits writes and reads the bit streams of Glenn Fiedler's "Building a Game Network Protocol", as its example
// code packs them: the first bit written is bit 0 of byte 0, so that a whole stream is one little-endian integer.
//
// A Writer appends a stream to a byte slice and trusts its caller. A Reader trusts nothing: its first error sticks, and
// what it returns from then on is zero. Seal and Verify are the checksum in front of a packet.
package bits
