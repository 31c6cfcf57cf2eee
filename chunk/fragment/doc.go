// Package fragment splits blocks larger than a datagram into fragments and reassembles
// them. It implements the packet fragmentation and reassembly of Glenn Fiedler's article,
// bit for bit as its example code encodes it (WIRE.md).
//
// [Split] cuts a block into [Fragment]s, [Append] encodes each as a packet, and the peer's
// [Reassembler] returns the block when all of them have arrived.
//
// Nothing is resent. A block is lost if one of its fragments is lost ([Loss]), or if it takes
// longer than Config.Lifetime. That suits blocks of two to four fragments that are useless when
// late, such as a snapshot. For blocks that must arrive, use package chunk or reliable bunches.
//
// In the article's protocol a packet of up to 1,024 bytes is sent as it is, as a [Regular]
// packet. Its type distinguishes it from a fragment. [AppendRegular] and [ParseRegular]
// encode and parse such packets. With Config.Regular, a Reassembler accepts them.
//
// # Limits
//
// A fragment has up to 1,024 bytes, a block up to 255 fragments, and the window is
// 256 sequence numbers.
//
// A Reassembler belongs to one peer and has no clock. It holds at most [Config.Bound]
// bytes, whatever arrives, and is not safe for concurrent use. A peer that restarts its
// numbering needs a new Reassembler with another ProtocolID. The old Reassembler would
// reject up to 256 blocks as already received.
package fragment
