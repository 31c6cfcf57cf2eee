// Package fragment sends blocks larger than a datagram as fragments and puts them together again: the packet
// fragmentation and reassembly of Glenn Fiedler's article, bit for bit as its example code writes it (WIRE.md).
//
// [Split] cuts a block into [Fragment]s, [Append] writes each as a packet, and the peer's [Reassembler] returns the block
// when all of them have arrived. Nothing is sent again: a block is lost if one of its fragments is ([Loss]), and is
// dropped when it takes longer than Config.Lifetime. That suits blocks of two to four fragments that are useless when
// late, such as a snapshot. For blocks that must arrive use package chunk or reliable bunches.
//
// In the article's protocol a packet of up to 1,024 bytes travels whole, as a [Regular] packet, and is told from a fragment by
// its type. [AppendRegular] and [ParseRegular] are such packets, and Config.Regular makes a Reassembler take them.
//
// Limits: 1,024 bytes a fragment, 255 fragments a block, blocks 256 sequence numbers apart. A Reassembler belongs to one
// peer, has no clock and no lock, and holds at most what [Config.Bound] says, whatever arrives. A peer that begins to number anew,
// after a restart, belongs to another one, under another ProtocolID: the former would refuse up to 256 blocks as received before.
package fragment
