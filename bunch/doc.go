// Package bunch sends messages on channels over an unreliable datagram transport. It
// follows the packets and bunches of Unreal Engine: delivery is reliable or unreliable,
// each channel has its own order, and acknowledgements free a reliable buffer of known
// size.
//
// A [Conn] is one end of a connection. It is a pure state machine: no clock, no goroutine,
// no lock, no socket. Messages go in with [Conn.Send] and come out with [Conn.Next] or
// [Conn.Take]. Datagrams go in with [Conn.Receive] and come out with [Conn.AppendPacket].
// The caller passes the time as the argument now, and [Conn.NextTimeout] returns the time
// of the next timer. The same calls at the same times, with the same results of
// Config.Random, produce the same bytes.
//
// # Nouns
//
// A packet is one datagram: a number, acknowledgements and bunches.
//
// A bunch is one entry of a channel's reliable buffer, one unreliable message, or a piece
// of either.
//
// Each channel has its own order. [Conn.Open] gives it a number that is never reused and a
// [Priority]. Channel 0, for control, is always open.
//
// A message has a [Delivery] and at most [MaxBunchBytes]. It takes [Entries] of the
// reliable buffer. Small messages that are queued together share one entry.
//
// Bulk is the traffic of transfers, which may wait. Play is the game's other traffic: every
// message on a channel other than 0 with a priority above [Bulk], and tracked messages.
//
// [Conn.Reliable] returns how much of a channel's buffer is in use (UE: NumOutRec of
// RELIABLE_BUFFER). Messages may use all entries except one, which is reserved for the
// close. A message that does not fit ends the connection with [ReliableBufferOverflow], as
// in Unreal. Under the [OverflowError] policy, Send returns [ErrReliableBufferFull]
// instead. [Conn.Held] lists what is in the buffer, and [Conn.Watch] requests a wake-up
// once it has drained.
//
// # Driving a Conn
//
// At each event, the driver calls Receive for each datagram that has arrived and then
// Advance(now). It then sends every packet that AppendPacket returns, until there are no
// more. After that it sleeps until the next event or until NextTimeout, which is then after
// now. If a packet could not be sent, the driver calls [Conn.Unsent].
//
// A driver should build packets only when they can be sent, so that their acks are fresh
// and the highest priority goes first. [Bulk] is sent only while the window is open, as
// given by [Conn.SetWindow] and the Conn's own estimate. It therefore builds no standing
// queue that delays play. [Conn.Cork] collects the messages of a tick.
//
// While the path loses packets, the next packet repeats small reliable messages of play. If
// the first packet is lost and the next one arrives, a message is late by the time between
// the two packets rather than by more than a round trip.
//
// If the carrier reports whether packets arrived or were lost ([Conn.SetPath],
// [Conn.Fate]), the end of a bulk transfer is followed by repair bunches. These contain
// parity that restores lost entries of long messages at once. Without them, the last losses
// would cost a round trip in which nothing else is sent. They are not sent if the path is
// known to lose hardly any packets.
//
// If nothing was acknowledged for two probe timeouts, the path is considered out. New
// messages then wait, and only probes are sent. While unreliable or tracked messages are
// waiting, the probes are small and twice as frequent.
//
// When the path recovers, unreliable and tracked messages that have waited for more than
// two probe timeouts are dropped and counted. The others are sent.
//
// # State
//
// [Conn.SendTracked] is for values of which only the newest counts. A tracked message is
// sent at most once, after calls and before bulk. [Conn.Fates] reports whether the message
// is kept: whether the peer's machine has acknowledged it. If a message is lost, the owner
// sends the newest values instead. At each tick it takes back the messages that were not
// sent ([Conn.TakeBack]).
//
// # Limits
//
// Everything that grows has a limit: message sizes, entries of a buffer, open channels,
// undecided packets, bytes that reliable messages hold at the receiver (flow control,
// [Config].ReceiveLimit), unreliable and tracked messages waiting at either end, assemblies
// and pieces.
//
// Whatever a peer sends, a Conn holds no more than its ReceiveLimit and 1 MiB, plus 512
// bytes for each channel of the peer whose opening message the owner has taken.
// [Conn.Refuse] forbids the peer to open channels.
//
// If a peer exceeds a limit, or sends what no correct sender does, the connection ends with
// an [*Error] whose [Code] names the rule. No received bytes cause a panic.
//
// In steady state only payloads are allocated. A payload smaller than a quarter of its
// datagram is copied. A longer one aliases the datagram, unless payloads already keep 32
// KiB of datagrams in memory beyond their own bytes. A message of several entries is copied
// once.
//
// A Conn is not safe for concurrent use; its owner locks it. A payload belongs to the owner
// once Next or Take has returned it.
//
// WIRE.md specifies the bytes for other implementations.
package bunch
