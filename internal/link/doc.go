// Package link drives the machines of one connection over a datagram carrier, at the pace of the wire.
//
// A [Link] has one lock around its machines, a reader, and a writer that is a goroutine only while there is something to do.
// The writer asks the machines in order of priority for the next datagram and sends it outside the lock. A packet is
// thereby built when the wire can take it and not before: the writer keeps the pace that quic-go's own pacer would keep, so
// that next to nothing waits inside the carrier, where play cannot overtake bulk.
//
// While the writer sleeps, whoever unlocks the machines also sends a few datagrams, if the carrier says how many its
// queue holds and the peer's acknowledgements prove that they fit: a game's tick then wakes nobody and never blocks.
//
// The reader hands what arrives to the machines while the writer sleeps, which it wakes only when that has something to do.
// While the writer is busy it fills a bounded ring, which the writer empties, and does nothing else, because the receive
// queue of quic-go holds 128 datagrams and drops the newest without a word. While the writer is blocked in SendDatagram
// the reader empties the ring in its place, so that a congested way out never delays what comes in.
//
// A [Sealed] carrier may carry in place of the first: see [Link.Carry]. Whenever its pacer lets a packet leave, it takes the next
// datagram from the link, which is its [Source], under the link's lock: on a goroutine of its own, or for play on the one that calls
// [Link.Unlock]. Meanwhile the link sends nothing over the first carrier, but still takes what arrives there.
//
// The first machine is [Play]; those behind it are each an [Extension]. The link knows neither what a packet holds nor who its peer is, and
// it sees no losses: the machines tell of them. When a path goes dark, quic-go drops no datagram and SendDatagram may block for long; what
// stops bulk then is the machine's own probe timer, after two probes in a row.
//
// Limits: [RingBytes] a connection, bursts of at most 96 datagrams, datagrams of at most 1,500 bytes over the first carrier, a
// reason of at most 256 bytes, and one second for the drain of Close.
package link
