// Package sealed implements the sealed carrier: packets of our own on the UDP
// socket of a QUIC connection, for paths on which packet loss makes QUIC's
// congestion control collapse. WIRE.md in this directory specifies the packets.
//
// A [Socket] wraps the connection's net.PacketConn. quic-go gets [Socket.QUIC], which hides packets
// whose first byte is ours: they are routed to the inbox of the session that issued their
// connection id. A [Session] is one end of a carrier as a pure machine. It seals and opens packets,
// packs the payloads of a [Source], sends feedback, detects losses, and asks internal/pace how fast
// to send. A [Carrier] runs a session over a socket in turns: a turn receives, runs timers, builds
// and sends. Turns with bulk are taken by a goroutine of the carrier. Turns with play alone are
// taken by the goroutine that brings it: the owner of the source when it unlocks, the socket's
// reader, or, if many unlock at once, a crew of as many goroutines as there are processors.
//
// The keys come from the TLS connection, the addresses from the QUIC connection, and
// connection ids are sent over QUIC. So there is no carrier without an established
// QUIC connection, and no packet that arrives can make one. A packet that was not
// sealed with these keys is dropped and counted, without an allocation.
package sealed
