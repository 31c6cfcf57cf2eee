// Package bunch carries messages on channels over a lossy datagram pipe, as Unreal Engine's packets and bunches do:
// reliable or not, in order per channel, and with acknowledgements that free a reliable buffer of known size.
//
// A [Conn] is one end of a connection. It is a pure machine: no clock, no goroutine, no lock, no socket. Messages go in by
// [Conn.Send] and come out by [Conn.Next] or [Conn.Take]; datagrams go in by [Conn.Receive] and come out by
// [Conn.AppendPacket]; time is the argument now, and what to wait for is what [Conn.NextTimeout] returns. The same calls at
// the same times give the same bytes, but for the packet numbers that Config.Random has it leave out.
//
// # Nouns
//
// A packet is one datagram: a number, acknowledgements, and bunches. A bunch is one entry of a channel's reliable buffer,
// one unreliable message, or a piece of either. A channel is an order of its own: [Conn.Open] gives it a number that is
// never used again and a [Priority], and channel 0, control, is always there. A message has a [Delivery] and at most
// [MaxBunchBytes]; it takes [Entries] of the reliable buffer, and small ones that wait together share one.
//
// [Conn.Reliable] says how much of a channel's buffer is taken (UE: NumOutRec of RELIABLE_BUFFER). One entry less than its
// size is usable, the last one is for a close. A message that does not fit ends the connection with
// [ReliableBufferOverflow], as in Unreal, or is refused with [ErrReliableBufferFull] under the [OverflowError] policy.
// [Conn.Held] names what fills the buffer, and [Conn.Watch] asks for a wake-up when it has drained.
//
// # Driving it
//
// After anything that happened: Receive what came, Advance(now), then AppendPacket until it has nothing, each packet to the
// wire; then sleep until NextTimeout or the next event. Afterwards NextTimeout lies after now, so a driver never spins.
// A datagram that did not leave goes back by [Conn.Unsent]. Packets are built when the wire can take them, so that their
// acks are fresh and the highest priority goes first; [Bulk] leaves only while the window is open ([Conn.SetWindow] and the
// machine's own estimate), so that it keeps no standing queue in front of play. [Conn.Cork] holds a tick together.
//
// When nothing was acknowledged for two probe timeouts the path is out: what was never sent stays, and probes ask; while
// unreliable or tracked messages wait they are small and twice as frequent. When the path is back those of them that have waited for
// longer than that are dropped and counted, and the others leave.
//
// # State
//
// [Conn.SendTracked] is for values of which only the newest counts. What it sends leaves at most once, behind calls and before
// bulk, and [Conn.Fates] tells of each message whether the peer's machine has it: what is lost is composed anew with the values
// of then. At each tick the owner takes back what has not left ([Conn.TakeBack]).
//
// # Limits
//
// Every number has one: bytes of a message, entries of a buffer, channels open at once, packets undecided, what reliable
// messages hold at the receiver (flow control, [Config].ReceiveLimit), unreliable and tracked messages that wait on either side,
// assemblies, pieces. Whatever a peer sends, a Conn holds no more than its ReceiveLimit and 1 MiB, and 512 bytes for each
// channel of the peer's whose opening message was taken; [Conn.Refuse] lets it open none. A peer that breaks one, or writes
// what no sender writes, ends the connection with an [*Error] whose [Code] names the rule; no bytes from the wire panic. In
// steady state nothing is allocated but payloads: those smaller than a quarter of their datagram are copied, longer ones
// alias it until 32 KiB are held so beyond what waits, and messages of several entries are assembled in one piece.
//
// A Conn is not safe for concurrent use; its owner locks. Payloads that were handed out belong to the owner.
//
// WIRE.md has the bytes, so that another can implement them.
package bunch
