// Package bunch sends messages on channels over an unreliable datagram transport.
//
// It is modeled on the packets and bunches of Unreal Engine: delivery is reliable or unreliable,
// each channel has an order of its own, and acknowledgements free the entries of a reliable buffer
// of known size. Comments mention Unreal's counterparts for readers who know them.
//
// A [Conn] is one end of a connection. It is a pure state machine, with no clock, goroutine,
// lock or socket. Messages go in with [Conn.Send] and come out with [Conn.Next] or [Conn.Take],
// and datagrams go in with [Conn.Receive] and come out with [Conn.AppendPacket]. The time is
// passed as the argument now, and [Conn.NextTimeout] returns when the next timer expires. If the
// same calls are made at the same times, and Config.Random returns the same numbers, the Conn
// produces the same bytes.
//
// # Terms
//
// A packet is a datagram. It has a number and contains acknowledgements and bunches.
//
// A bunch is an entry of a channel's reliable buffer, an unreliable message, or a piece of
// either.
//
// A channel orders its messages independently of all others. [Conn.Open] gives it a number,
// which is never reused, and a [Priority]. Channel 0, which is for control, is always open.
//
// A message has a [Delivery] and at most [MaxBunchBytes]. A reliable message occupies one or more
// entries of the reliable buffer (see [Entries]), except that small messages that are queued one
// after the other share an entry.
//
// Bulk is the traffic of transfers, which can wait. Play is the rest of the game's traffic:
// messages on channels other than 0 with a priority above [Bulk], and tracked messages.
//
// A carrier moves the datagrams of a connection. It is either QUIC or sealed packets. The owner of
// a Conn is whoever calls its methods.
//
// [Conn.Reliable] returns how much of a channel's reliable buffer is in use (Unreal: NumOutRec of
// RELIABLE_BUFFER). One entry is reserved for the close. A message that does not fit into the
// remaining entries ends the connection with [ReliableBufferOverflow], as it does in Unreal. So
// does a message of play if the unacknowledged ones hold more than [Config].SendLimit. With the
// policy [OverflowError], Send returns [ErrReliableBufferFull] instead. [Conn.Held] lists what is
// in the buffer, and [Conn.Watch] requests a wake-up once it has drained.
//
// # Driving a Conn
//
// At each event, the driver calls Receive for the datagrams that have arrived and then
// Advance(now). It then sends every packet that AppendPacket returns until there are no more, and
// sleeps until the next event or until NextTimeout, which is after now. If a packet could not be
// sent, the driver calls [Conn.Unsent].
//
// A driver should not build packets before it can send them, so that their acks are fresh and
// the most urgent messages go first. [Bulk] is only sent while the window has room, so that it does
// not build a standing queue that would delay play. The window is given by [Conn.SetWindow] and by
// the Conn's own estimate. [Conn.Cork] collects the messages of a tick.
//
// While the path loses packets, small reliable messages of play are sent again in the next packet.
// If the first packet is lost but the next one arrives, the messages are late only by the time
// between the two packets, instead of by more than a round trip.
//
// If the carrier reports the fates of packets, which means whether each has arrived
// ([Conn.SetPath], [Conn.Fate]), a bulk transfer ends with repair bunches. They contain parity that
// lets the receiver restore lost entries of long messages at once, whereas without them the last
// losses would cost a round trip in which nothing else is sent. No repair bunches are sent if the
// path is known to lose hardly any packets.
//
// If nothing is acknowledged for two probe timeouts, we consider it an outage, during which new
// messages wait and only probes are sent. While unreliable or tracked messages wait, the probes are
// small and twice as frequent. When the path is back, unreliable and tracked messages that have
// waited for more than two probe timeouts are dropped and counted, and all other messages are sent.
//
// # State
//
// [Conn.SendTracked] is for replicated state, of which only the latest values count. A tracked
// message is sent at most once, after calls and before bulk. [Conn.Fates] reports whether it was
// kept, which means that the peer's Conn has acknowledged it. If it was lost, the owner sends the
// latest values instead. At each tick, the owner takes back the messages that have not been sent
// ([Conn.TakeBack]).
//
// # Limits
//
// Everything that grows has a limit: the sizes of messages, the entries of a buffer, open
// channels, undecided packets, the bytes that reliable messages hold at the receiver (flow
// control, [Config].ReceiveLimit) and at the sender ([Config].SendLimit, for play), unreliable and
// tracked messages waiting at either end, assemblies and pieces.
//
// Whatever a peer sends, a Conn holds no more than its ReceiveLimit plus 1 MiB, plus 512 bytes
// for each channel of the peer whose opening message the owner has taken. [Conn.Refuse] forbids
// the peer to open channels.
//
// If a peer exceeds a limit, or sends what no correct sender would, the connection ends with an
// [*Error] whose [Code] names the violated rule. No received bytes cause a panic.
//
// In steady state, only payloads are allocated. A payload is copied if it is smaller than a
// quarter of its datagram. Otherwise it aliases the datagram, unless payloads already keep 32 KiB
// of datagrams in memory in addition to their own bytes. A message of several entries is copied
// once.
//
// A Conn is not safe for concurrent use, so its owner must lock it. A payload belongs to the owner
// once Next or Take has returned it.
//
// WIRE.md specifies the bytes for other implementations.
package bunch
