// Package sealed is the sealed carrier: packets of our own on the UDP socket and port of a QUIC connection, for paths where
// loss makes QUIC's congestion control collapse. WIRE.md beside this file holds the bytes.
//
// A [Socket] wraps the connection's net.PacketConn. Its [Socket.QUIC] goes to quic-go; packets whose first byte is ours
// never reach it but the inbox of the session that issued their connection id. A [Session] is one end of a carrier as a
// pure machine: it seals and opens, packs the payloads of a [Source], reports arrivals, detects losses, and asks
// internal/pace how fast to send. A [Carrier] runs a session over a socket in turns: it receives, runs timers, builds and sends.
// Bulk has a goroutine that takes them. Those with play alone are taken by whoever brings it: the owner of the source when it
// unlocks, the socket's reader, or, when many unlock at once, a crew of as many goroutines as there are processors.
//
// Keys come from the TLS connection, addresses from the QUIC connection, connection ids travel over QUIC: without an
// established QUIC connection there is no carrier, and nothing that arrives here can make one. What is not sealed with
// those keys is dropped and counted, and allocates nothing.
package sealed
