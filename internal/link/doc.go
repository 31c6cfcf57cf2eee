// Package link drives the machines of one connection over a datagram carrier.
//
// A [Link] has a lock around its machines, a reader and a writer. The writer has a goroutine
// only while there is something to do. It asks the machines, in priority order, for the next
// datagram and sends it without the lock.
//
// So a packet is built only when it can be sent. The writer paces datagrams as quic-go's own
// pacer would. Hardly any then wait inside the carrier, where play (game traffic: everything
// but bulk) cannot overtake bulk.
//
// While the writer sleeps, a goroutine that unlocks the machines also sends a few datagrams
// itself. It does so if the carrier has a queue and the peer's acks prove that the queue has
// room. So a game's tick wakes no other goroutine and never blocks.
//
// While the writer sleeps, the reader passes received datagrams to the machines. It wakes the
// writer only if they then have something to send. While the writer is busy, the reader only
// fills a bounded ring, which the writer empties. The ring is needed because quic-go's
// receive queue holds 128 datagrams and silently drops any more. While the writer is blocked
// in SendDatagram, the reader also empties the ring, so a congested outgoing path never
// delays received datagrams.
//
// A [Sealed] carrier may carry the datagrams instead of the first carrier (see [Link.Carry]).
// Whenever its pacer allows a packet, it takes the next datagram from the link, which is its
// [Source], under the link's lock. It does this on its own goroutine, or for play on the
// goroutine that calls [Link.Unlock]. Meanwhile the link sends nothing over the first
// carrier, but still receives from it.
//
// The first machine is [Play]; every other machine is an [Extension]. The link does not know
// what a packet holds or who its peer is. It does not see losses; the machines report them.
// If a path is interrupted, quic-go drops no datagram, and SendDatagram may block for a long
// time. The machine's own probe timer then stops bulk, after two probes in a row.
//
// Limits: [RingBytes] for each connection, bursts of at most 96 datagrams, datagrams of at
// most 1,500 bytes over the first carrier, a reason of at most 256 bytes, and one second for
// the drain of Close.
package link
