// Package link drives the machines of one connection over a carrier of datagrams.
//
// A [Link] has one lock around its machines, a reader, and a writer, which is a
// goroutine only while there is something to do. The writer asks the machines, in
// order of priority, for the next datagram, and sends it without the lock. So a packet
// is built only when it can be sent: the writer paces datagrams as quic-go's own pacer
// would, so that hardly any wait inside the carrier, where play cannot overtake bulk.
//
// While the writer sleeps, a goroutine that unlocks the machines also sends a few
// datagrams itself, if the carrier has a queue and the peer's acknowledgements prove
// that it has room. So a game's tick wakes no other goroutine and never blocks.
//
// While the writer sleeps, the reader passes received datagrams to the machines,
// and wakes the writer only if they then have something to send. While the writer
// is busy, the reader only fills a bounded ring, which the writer empties, because
// the receive queue of quic-go holds 128 datagrams and drops further ones silently.
// While the writer is blocked in SendDatagram, the reader empties the ring in its
// place, so that a congested outgoing path never delays received datagrams.
//
// A [Sealed] carrier may carry the datagrams in place of the first carrier: see
// [Link.Carry]. Whenever its pacer allows a packet, it takes the next datagram
// from the link, which is its [Source], under the link's lock: on a goroutine
// of its own, or for play on the one that calls [Link.Unlock]. Meanwhile the
// link sends nothing over the first carrier, but still receives from it.
//
// The first machine is [Play]; each other one is an [Extension]. The link knows neither what
// a packet holds nor who its peer is. It does not see losses; the machines report them. If a
// path is interrupted, quic-go drops no datagram, and SendDatagram may block for a long
// time. Bulk is then stopped by the machine's own probe timer, after two probes in a row.
//
// Limits: [RingBytes] for each connection, bursts of at most 96 datagrams,
// datagrams of at most 1,500 bytes over the first carrier, a reason of at most
// 256 bytes, and one second for the drain of Close.
package link
