// Package vital implements the chunk layer of Teeworlds 0.6 and 0.7, and of DDNet:
// packets of up to 255 chunks. Vital chunks arrive exactly once and in order, the
// others in any order or not at all. The bytes are those of the game (WIRE.md).
//
// [AppendHeader] and [ParseHeader] encode and parse the header of a chunk, [AppendMessage] and
// [ParseMessage] the message id with its system bit at the beginning of a chunk's data.
// [AppendPacket] and [ParsePacket] are for a whole packet, whose payload is Huffman coded if
// that is shorter ([Compress], [Decompress]), as in the game; [ParseChunk] parses the payload,
// chunk by chunk. [AppendToken] and [CutToken] are for DDNet's security token after a payload.
//
// A [Conn] is one end of a connection, without clock, goroutine or lock. It begins when
// both ends know each other: the handshake is not part of it. It numbers vital chunks,
// keeps them until they are acknowledged, asks for a resend if it detects a gap, and
// answers such a request. Where the game's code has bugs that lose data or let a stranger
// disturb a connection, Conn does better with the same bytes; WIRE.md lists them.
//
// Limits: 1,400 bytes a packet, compressed or not; 1,023 bytes a chunk in 0.6 and
// 1,387 in 0.7; 511 unacknowledged vital chunks, or 32 KiB of them. A token in the
// header is checked before anything is decompressed. DDNet's is inside the payload,
// so a stranger's packet costs what it takes to decompress 1,400 bytes, some 15 µs.
//
// The protocol has no checksum. UDP's detects most damage. Damage that it misses is not detected,
// and neither is a packet forged by somebody who has seen the token. Only the token distinguishes
// packets of an earlier connection, so both ends must choose new tokens for each connection.
package vital
