// Package sealed implements the sealed carrier, which sends packets of its own format over the
// UDP socket of a QUIC connection. It is meant for paths on which packet loss makes QUIC's
// congestion control collapse. WIRE.md in this directory specifies the packets.
//
// A [Socket] wraps the connection's net.PacketConn. quic-go reads from [Socket.QUIC], which hides
// the sealed packets. The Socket recognizes those by their first byte and puts them into the
// inbox of the carrier that issued their connection ID.
//
// A [Session] is one end of a carrier as a pure state machine. It packs the payloads of a
// [Source], seals and opens packets, sends reports of what has arrived, detects losses, and
// asks internal/pace how fast to send. When it opens, it measures the path with a train, which
// is a series of packets sent back to back.
//
// A [Carrier] runs a session over a socket, in turns. In each turn, it receives packets, runs
// timers, and builds and sends packets. Which goroutine does so depends on the traffic. Bulk is
// the traffic of transfers, and play is the game's other traffic. A carrier with bulk has a
// goroutine of its own. With play alone, the goroutine that brings the work takes the turn: the
// owner of the source when it unlocks, or the socket's reader. If that isn't possible, a
// goroutine of the socket's crew takes it. The crew has at most as many goroutines as there are
// processors.
//
// The keys come from the TLS connection, the addresses come from the QUIC connection, and
// connection IDs are exchanged over QUIC. So there is no carrier without an established QUIC
// connection, and an arriving packet can't create one. Packets that weren't sealed with these
// keys are dropped and counted without an allocation.
package sealed
