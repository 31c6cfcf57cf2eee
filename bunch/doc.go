// Package bunch carries messages on channels over a lossy datagram pipe, as Unreal Engine's packets and bunches do:
// reliable or not, in order per channel, and with acknowledgements that free a reliable buffer of known size.
//
// A [Conn] is one end of a connection. It is a pure machine: no clock, no goroutine, no lock, no socket. Messages go in by
// [Conn.Send] and come out by [Conn.Next] or [Conn.Take]; datagrams go in by [Conn.Receive] and come out by
// [Conn.AppendPacket]; time is the argument now, and [Conn.NextTimeout] says until when to wait. The same calls at the same
// times, with the same results of Config.Random, give the same bytes.
//
// # Nouns
//
// A packet is one datagram: a number, acknowledgements, and bunches. A bunch is one entry of a channel's reliable buffer,
// one unreliable message, or a piece of either. A channel is an order of its own: [Conn.Open] gives it a number that is
// never used again and a [Priority], and channel 0, control, is always there. A message has a [Delivery] and at most
// [MaxBunchBytes]; it takes [Entries] of the reliable buffer, and small ones that wait together share one.
//
// [Conn.Reliable] says how much of a channel's buffer is taken (UE: NumOutRec of RELIABLE_BUFFER). Messages may take all
// entries but one, which is kept for the close. A message that does not fit ends the connection with
// [ReliableBufferOverflow], as in Unreal, or is refused with [ErrReliableBufferFull] under the [OverflowError] policy.
// [Conn.Held] names what fills the buffer, and [Conn.Watch] asks for a wake-up when it has drained.
//
// # Driving it
//
// At each event the driver calls Receive for each datagram that came, Advance(now), and AppendPacket until it has nothing, and
// puts each packet on the wire; then it sleeps until NextTimeout, which now lies after now, or the next event. It tells
// [Conn.Unsent] of a packet that did not leave. It builds packets only when the wire can take them, so that their
// acks are fresh and the highest priority goes first; [Bulk] leaves only while the window is open ([Conn.SetWindow] and the
// machine's own estimate), so that it keeps no standing queue in front of play. [Conn.Cork] holds a tick together.
//
// While the path loses packets, small reliable messages of play leave once more in the next packet that leaves anyway. When that comes, a
// message whose first packet was lost is late by the time between the two, and not by a round trip and more.
//
// Over a carrier that tells fates ([Conn.SetPath], [Conn.Fate]) the end of bulk is followed by repair bunches, unless the path is known to lose
// hardly any packet: parity that restores lost entries of long messages at once. Otherwise the last losses would cost a round trip in which
// nothing else leaves.
//
// When nothing was acknowledged for two probe timeouts the path is out: only probes leave, and messages that were never sent wait.
// While unreliable or tracked messages are among these, the probes are small and twice as frequent. When the path is back, unreliable
// and tracked messages that have waited for longer than two probe timeouts are dropped and counted, and the others leave.
//
// # State
//
// [Conn.SendTracked] is for values of which only the newest counts. Its messages leave at most once, behind calls and before
// bulk, and [Conn.Fates] tells of each whether the peer's machine has it: in place of a lost one the owner sends the
// newest values. At each tick it takes back the messages that have not left ([Conn.TakeBack]).
//
// # Limits
//
// Everything that grows has a limit: bytes of a message, entries of a buffer, channels open at once, packets undecided, bytes that
// reliable messages hold at the receiver (flow control, [Config].ReceiveLimit), unreliable and tracked messages that wait on either
// side, assemblies, pieces. Whatever a peer sends, a Conn holds no more than its ReceiveLimit and 1 MiB, and 512 bytes for each
// channel of the peer's whose opening message was taken; [Conn.Refuse] lets it open none. A peer that breaks a limit, or writes
// what no sender writes, ends the connection with an [*Error] whose [Code] names the rule; no bytes from the wire panic. In
// steady state only payloads are allocated: one that is smaller than a quarter of its datagram is copied, a longer one aliases
// the datagram, unless payloads keep 32 KiB of datagrams besides their own already. A message of several entries is one copy.
//
// A Conn is not safe for concurrent use; its owner locks. Payloads that were handed out belong to the owner.
//
// WIRE.md specifies the bytes for other implementations.
package bunch
