// Package fragment sends blocks larger than a datagram as fragments and
// reassembles them. It implements the packet fragmentation and reassembly of
// Glenn Fiedler's article, bit for bit as its example code encodes it (WIRE.md).
//
// [Split] cuts a block into [Fragment]s, [Append] encodes each as a packet, and the peer's
// [Reassembler] returns the block when all of them have arrived. Nothing is sent again: a
// block is lost if one of its fragments is ([Loss]), and is dropped if it takes longer than
// Config.Lifetime. That suits blocks of two to four fragments that are useless when late,
// such as a snapshot. For blocks that must arrive, use package chunk or reliable bunches.
//
// In the article's protocol a packet of up to 1,024 bytes is sent as it is, as a [Regular]
// packet. Its type distinguishes it from a fragment. [AppendRegular] and [ParseRegular]
// encode and parse such packets, and with Config.Regular a Reassembler accepts them.
//
// Limits: 1,024 bytes a fragment, 255 fragments a block, a window of 256 sequence numbers. A
// Reassembler belongs to one peer, has no clock and no lock, and holds at most [Config.Bound]
// bytes, whatever arrives. A peer that restarts its numbering needs a new Reassembler, with
// another ProtocolID: the old one would refuse up to 256 blocks as received before.
package fragment
