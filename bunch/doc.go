// Package bunch sends messages on channels over a lossy datagram pipe, as
// Unreal Engine does with packets and bunches: reliably or not, in order per
// channel, and with acknowledgements that free a reliable buffer of known size.
//
// A [Conn] is one end of a connection. It is a pure state machine: no clock, no goroutine,
// no lock, no socket. Messages go in with [Conn.Send] and come out with [Conn.Next] or
// [Conn.Take]; datagrams go in with [Conn.Receive] and come out with [Conn.AppendPacket].
// Time is the argument now, and [Conn.NextTimeout] returns until when to wait. The same
// calls at the same times, with the same results of Config.Random, produce the same bytes.
//
// # Nouns
//
// A packet is one datagram: a number, acknowledgements, and bunches. A bunch is
// one entry of a channel's reliable buffer, one unreliable message, or a piece of
// either. Each channel has an order of its own. [Conn.Open] gives it a number that
// is never used again and a [Priority]; channel 0, for control, is always open. A
// message has a [Delivery] and at most [MaxBunchBytes]. It takes [Entries] of the
// reliable buffer; small messages that are queued together share one entry.
//
// [Conn.Reliable] returns how much of a channel's buffer is in use (UE: NumOutRec of
// RELIABLE_BUFFER). Messages may use all entries except one, which is reserved for the close. A
// message that does not fit ends the connection with [ReliableBufferOverflow], as in Unreal. Under
// the [OverflowError] policy, it is refused with [ErrReliableBufferFull] instead. [Conn.Held]
// lists what is in the buffer, and [Conn.Watch] asks for a wake-up when it has drained.
//
// # Driving a Conn
//
// At each event, the driver calls Receive for each datagram that has arrived, then
// Advance(now), and then AppendPacket until that has no packet, and sends each packet. Then
// it sleeps until the next event or until NextTimeout, which now is after now. If a packet
// could not be sent, it calls [Conn.Unsent]. It should build packets only when they can be
// sent, so that their acks are fresh and the highest priority goes first. [Bulk] is sent
// only while the window is open ([Conn.SetWindow] and the machine's own estimate), so that
// it keeps no standing queue in front of play. [Conn.Cork] collects the messages of a tick.
//
// While the path loses packets, small reliable messages of play are sent once
// more in the next packet. If that arrives, a message whose first packet was lost
// is late by the time between the two packets, and not by more than a round trip.
//
// If the carrier reports fates ([Conn.SetPath], [Conn.Fate]), the end of bulk is
// followed by repair bunches, unless the path is known to lose hardly any packets.
// These are parity that restores lost entries of long messages at once. Otherwise
// the last losses would cost a round trip in which nothing else is sent.
//
// If nothing was acknowledged for two probe timeouts, the path is considered out: only probes are
// sent, and new messages wait. While unreliable or tracked messages are waiting, the probes are
// small and twice as frequent. When the path is back, unreliable and tracked messages that have
// waited for longer than two probe timeouts are dropped and counted, and the others are sent.
//
// # State
//
// [Conn.SendTracked] is for values of which only the newest counts. Its messages are sent
// at most once, after calls and before bulk, and [Conn.Fates] reports of each whether the
// peer's machine has received it. Instead of a lost message the owner sends the newest
// values. At each tick it takes back the messages that were not sent ([Conn.TakeBack]).
//
// # Limits
//
// Everything that grows has a limit: bytes of a message, entries of a buffer, open
// channels, undecided packets, bytes that reliable messages hold at the receiver (flow
// control, [Config].ReceiveLimit), unreliable and tracked messages that wait at either
// end, assemblies, pieces. Whatever a peer sends, a Conn holds no more than its
// ReceiveLimit and 1 MiB, and 512 bytes for each channel of the peer whose opening
// message the owner has taken; [Conn.Refuse] forbids the peer to open channels. A peer
// that exceeds a limit, or sends what no correct sender does, ends the connection with
// an [*Error] whose [Code] names the rule. No bytes from outside cause a panic.
//
// In steady state only payloads are allocated. A payload smaller than a quarter of its
// datagram is copied. A longer one aliases the datagram, unless payloads already keep 32 KiB
// of datagrams in memory besides their own bytes. A message of several entries is copied once.
//
// A Conn is not safe for concurrent use; its owner locks it. Payloads that were
// handed out belong to the owner.
//
// WIRE.md specifies the bytes for other implementations.
package bunch
