// Package vital implements the chunk layer of Teeworlds 0.6 and 0.7, and of DDNet. A packet
// carries up to 255 chunks. Vital chunks arrive exactly once and in order, the others in
// any order or not at all. The bytes are those of the game (WIRE.md).
//
// A [Conn] is one end of a connection. It begins when both ends know each other: the
// handshake is not part of it. It numbers vital chunks, keeps them until they are
// acknowledged, asks for a resend when it detects a gap, and answers such a request.
//
// A Conn has no clock, goroutine or lock. Where the game's code has bugs that lose data or let
// a stranger disturb a connection, Conn does better with the same bytes; WIRE.md lists them.
//
// The package's functions encode and parse the parts of a packet:
//   - [AppendHeader] and [ParseHeader], a chunk's header.
//   - [AppendMessage] and [ParseMessage], the message id and system bit at the start of a chunk's data.
//   - [AppendPacket] and [ParsePacket], a whole packet. As in the game, its payload is Huffman coded
//     if that is shorter ([Compress], [Decompress]). [ParseChunk] parses the payload chunk by chunk.
//   - [AppendToken] and [CutToken], DDNet's security token after a payload.
//
// # Limits
//
// A packet has at most 1,400 bytes, compressed or not. A chunk has at most 1,023 bytes in
// 0.6 and 1,387 in 0.7. At most 511 vital chunks, or 32 KiB of them, are unacknowledged.
//
// A token in the header is checked before anything is decompressed. DDNet's token is inside
// the payload, so a stranger's packet costs the time to decompress 1,400 bytes, some 15 µs.
//
// The protocol has no checksum. UDP's checksum detects most damage. Other damage is not
// detected, and neither is a packet forged by somebody who has seen the token. Only the
// token distinguishes packets of an earlier connection, so both ends must choose new tokens
// for each connection.
package vital
