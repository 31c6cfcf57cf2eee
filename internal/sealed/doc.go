// Package sealed implements the sealed carrier: packets of our own on the UDP socket of a
// QUIC connection. It is for paths on which packet loss makes QUIC's congestion control
// collapse. WIRE.md in this directory specifies the packets.
//
// A [Socket] wraps the connection's net.PacketConn. quic-go gets [Socket.QUIC], which hides
// packets whose first byte is ours. These are routed to the inbox of the session that
// issued their connection id.
//
// A [Session] is one end of a carrier as a pure machine. It seals and opens packets, packs
// the payloads of a [Source], sends feedback, detects losses, and asks internal/pace how
// fast to send. When it opens, it measures the path with a train: packets sent back to
// back.
//
// A [Carrier] runs a session over a socket in turns. A turn receives, runs timers, builds
// and sends. Bulk is the traffic of transfers, and play is the game's other traffic. Turns
// with bulk are taken by one of the carrier's goroutines. Turns with play alone are taken
// by the goroutine that brings it: the owner of the source when it unlocks, or the socket's
// reader. If many owners unlock at once, a crew of as many goroutines as there are
// processors takes their turns.
//
// The keys come from the TLS connection, the addresses from the QUIC connection, and
// connection ids are sent over QUIC. There is therefore no carrier without an established
// QUIC connection, and an arriving packet cannot create one. A packet that was not sealed
// with these keys is dropped and counted without an allocation.
package sealed
