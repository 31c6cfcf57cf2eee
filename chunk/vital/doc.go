// Package vital is the chunk layer of Teeworlds 0.6 and 0.7, and of DDNet: packets of up to 255 chunks, of which the vital ones arrive
// exactly once and in order, and the others as they come or not at all. The bytes are those of the game (WIRE.md).
//
// [AppendHeader] and [ParseHeader] are the header of a chunk, [AppendMessage] and [ParseMessage] the message id with its
// system bit at the head of a chunk's data. [AppendPacket] and [ParsePacket] are a whole packet, whose payload is Huffman
// coded where that is shorter ([Compress], [Decompress]), as the game does it; [ParseChunk] walks over the payload.
// [AppendToken] and [CutToken] are the security token behind a payload of DDNet.
//
// A [Conn] is one end of a connection without clock, goroutine or lock, from the moment that both ends know each other:
// the handshake is not part of it. It numbers vital chunks, keeps them until they are acknowledged, asks for a resend
// when it sees a gap, and answers such a request. Where the game's code has faults that lose data or let a stranger
// disturb a connection, Conn does better with the same bytes; WIRE.md lists them.
//
// Limits: 1,400 B a packet, compressed or not, 1,023 B a chunk in 0.6 and 1,387 B in 0.7, 511 vital chunks or 32 KiB
// without an acknowledgement. A token in the header is looked at before anything is decompressed; DDNet's travels inside, so
// that a stranger's packet costs there what it takes to decompress 1,400 bytes, some 15 µs.
//
// The protocol has no checksum. UDP's finds most damage; what that misses counts, and so does what somebody writes who has seen the
// token. Only the token tells packets of an earlier connection, so both ends draw new ones for each.
package vital
