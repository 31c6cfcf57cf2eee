// Package vital is the chunk layer of Teeworlds 0.6 and 0.7: packets of up to 255 chunks, of which the vital ones arrive
// exactly once and in order, and the others as they come or not at all. The bytes are those of the game (WIRE.md).
//
// [AppendHeader] and [ParseHeader] are the header of a chunk, [AppendPacketHeader], [ParsePacketHeader] and [ParseChunk]
// a whole packet, [AppendMessage] and [ParseMessage] the message id with its system bit at the head of a chunk's data.
//
// A [Conn] is one end of a connection without clock, goroutine or lock, from the moment that both ends know each other:
// the handshake is not part of it. It numbers vital chunks, keeps them until they are acknowledged, asks for a resend
// when it sees a gap, and answers such a request. Where the game's code has faults that lose data or let a stranger
// disturb a connection, Conn does better with the same bytes; WIRE.md lists them.
//
// Limits: 1,400 B a packet, 1,023 B a chunk in 0.6 and 1,387 B in 0.7, 511 vital chunks or 32 KiB without an
// acknowledgement. There is no Huffman code here: compressed packets are counted and dropped, so that a Conn understands a
// peer of the game only when that one is told not to compress, which it else does whenever the packet gets shorter.
package vital
