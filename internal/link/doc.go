// Package link drives the machines of one connection over a datagram carrier.
//
// A machine is a protocol without a clock, a goroutine or a lock. A [Link] provides all three: it
// has a lock around its machines, a reader and a writer.
//
// # Sending
//
// The writer asks the machines in priority order for the next datagram, and sends it after
// releasing the lock, so a packet is never built before it can be sent. The writer also paces
// datagrams just as quic-go's own pacer would, because they shouldn't wait inside the carrier,
// where play (the game's own traffic: everything but bulk) can't overtake bulk (transfers).
//
// The writer has a goroutine only while there is something to do. While it sleeps, a goroutine
// that unlocks the machines sends a few datagrams itself, provided that the carrier has a queue
// and the peer's acks prove that there's room in it. That way a game's tick never blocks, and it
// usually wakes no other goroutine.
//
// # Receiving
//
// While the writer sleeps, the reader passes received datagrams to the machines, and wakes the
// writer if that gives them something to send. While the writer is busy, the reader only fills a
// bounded ring, which the writer empties. The ring is needed because quic-go's own receive queue
// holds only 128 datagrams and silently drops what doesn't fit. If the writer is blocked in
// SendDatagram, the reader empties the ring as well, so that a congested outgoing path doesn't
// delay what we receive.
//
// # The second carrier
//
// A [Sealed] carrier may take over from the first one (see [Link.Carry]). Whenever its pacer
// allows a packet, it takes the next datagram from its [Source], which is the link, while it holds
// the link's lock. It does this on its own goroutine, or for play on the goroutine that calls
// [Link.Unlock]. Until QUIC takes over again, the link sends only pings over the first carrier, but
// it goes on receiving from it.
//
// # What a link doesn't do
//
// The first machine is [Play], and every other one is an [Extension]. The link doesn't know what
// is in a packet or who the peer is, and it knows of losses only what the machines count. When a
// path is interrupted, quic-go drops no datagrams, so SendDatagram may block for a long time. It is
// the machine's own probe timer that stops bulk in that case, after two probes in a row.
//
// # Limits
//
// At most [RingBytes] of received datagrams wait for a connection's machines. A burst has up to 96
// datagrams (maxBurst), a datagram over the first carrier up to 1,500 bytes (maxDatagram), and the
// reason of a close up to 256 bytes (maxReason). Close drains for up to one second (drainTime).
package link
