package rpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"
	"unicode/utf8"

	"github.com/quic-go/quic-go"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/control"
	"github.com/quivernet/quiver/internal/quicconn"
	"github.com/quivernet/quiver/internal/words"
	"github.com/quivernet/quiver/rpc/dos"
	"github.com/quivernet/quiver/rpc/emulation"
)

// Config configures a world. A zero field has the default given in its comment. A negative value
// means "none" or "no limit" only where the comment says so.
type Config struct {
	// Classes are the classes that both sides declare. Both ends compare their shapes during
	// the handshake. There is no need to list the classes passed to [Bind].
	Classes []*Class

	// GameVersion is the game's own name for its version, such as "1.4.2". It's for changes that
	// the classes don't show, such as another map or another meaning of a number. Both ends must
	// have the same GameVersion, byte for byte, so one that only one of them sets is a difference,
	// too.
	//
	// If they differ, the connection is refused during the handshake with [ProtocolMismatch] and a
	// reason that quotes both versions, on both ends. The reason doesn't say which end is older,
	// because only the game knows the order of its versions.
	//
	// GameVersion must be valid UTF-8 of at most 64 bytes; otherwise NewWorld returns an error. The
	// default is empty. The end that is refused gets 256 bytes of the reason, enough for any two
	// versions without characters that have to be escaped. A server tells its version to clients
	// that haven't logged in, and a client may lie about its own. UE:
	// FNetworkVersion::GetLocalNetworkVersionOverride.
	GameVersion string

	// Functions of the game.

	// OnConnect runs on the world's goroutine for every connection that has joined. On a client,
	// it runs after Dial. UE: PostLogin.
	//
	// On a server, [AlwaysRelevant] actors open for the connection only after OnConnect.
	// OnConnect may therefore give such an actor to the connection by calling SetOwner. The actor
	// then opens as the connection's own, without the fields that are meant for others.
	//
	// A Client RPC or a Multicast from OnConnect opens its actor first. Actors that calls or
	// states merely refer to may open later (see [WaitForActors]). Until an actor has opened,
	// [Conn.Actor] returns nil and [Actor.Channel] returns the zero Channel. To open an actor
	// at once, use [Actor.OpenTo]. To learn when the client has it, use [OnOpenAcked].
	OnConnect func(*World, *Conn)

	// OnDisconnect runs on the world's goroutine, once for every joined connection that has
	// ended. The error is a *CloseError. On a server, OnDisconnect runs before OnConnect of
	// the next connection of the same identity. On a client it runs before OnConnect of any
	// other connection that joins after this one has ended.
	//
	// A connection may take up to a second to end after [Conn.Close], and another one may
	// join in the meantime. If that is a problem, a client can wait for [Conn.Done] of the
	// old connection before it dials again, and a server can set MaxConnsPerIdentity to 1,
	// which ends the old connection first.
	OnDisconnect func(*World, *Conn, error)

	// OnMessage runs on the world's goroutine, in Dispatch, for every message that the other
	// side sends with [Conn.SendMessage], in order. payload is only valid until OnMessage
	// returns. If OnMessage is nil, all messages are dropped and counted. UE:
	// UGameInstance::HandleGameNetControlMessage.
	//
	// If OnMessage returns an error, a server closes the connection with ValidationFailed. A
	// client trusts its server, so it only drops the message and counts it.
	OnMessage func(w *World, c *Conn, id uint8, payload []byte) error

	// OnPanic is called whenever one of the game's functions panics: a handler, check, hook,
	// constructor, post, Validate, UnmarshalBinary, Authenticate or Login, and in transfers
	// of package stream also OnBatch, OnEnd, a Reader, a Store, or the encoding of an
	// element. The world carries on afterwards. If OnPanic is nil, panics are not recovered.
	//
	// function is the log's name for the function that panicked, such as "Player.Fire" or
	// `blob "savegame": the handler`. conn is the connection whose call panicked, or nil for
	// posts, OnTick hooks and calls made in this world.
	//
	// Before OnPanic is called, that connection is closed with HandlerPanic and a reason that
	// names the function, and it delivers nothing more. A panic in a transfer only fails the
	// transfer, with stream.ErrPanicked, and its connection stays open.
	//
	// OnPanic runs on the goroutine that panicked. That may be the world's, Authenticate's or
	// one of package stream, so there may be concurrent calls.
	//
	// A panic in OnPanic itself is not recovered. If a panic isn't recovered, it continues out of
	// Dispatch, Flush, Tick or Run. A caller that recovers the panic there may go on driving the
	// world. Everything except the function that panicked still runs, once. On Authenticate's
	// goroutine or one of package stream, the panic ends the program.
	//
	// If the game calls Spawn, Place or Destroy outside of Dispatch and Flush, a panic in a
	// constructor, set or OnClose continues out of that call instead, and OnPanic is not called.
	// The caller may recover this panic, too, and carry on.
	OnPanic func(conn *Conn, function string, recovered any, stack []byte)

	// Who may join.

	// Authenticate turns a client's token into an identity. To refuse the token, it returns an
	// error, whose text is sent to the client with the code PreLoginFailure. If the error is, or
	// wraps, a *CloseError with a code of the game's own (1,024 or above), its Code and Reason are
	// sent instead. Either way, it counts as a failed login. Authenticate runs on a goroutine of
	// its own and must return within HandshakeTimeout. If Authenticate is nil, every client is
	// accepted with an empty identity. UE: PreLogin.
	//
	// If the token can't be checked at the moment, Authenticate should return an error that
	// is, or wraps, ErrBacklogFull or a Temporary [*CloseError], such as one with code
	// ServerFull. The client then receives the code of the CloseError, or else ServerFull,
	// along with the reason, and may try again.
	//
	// If Authenticate panics or ends its goroutine, the connection closes with HandlerPanic.
	// Neither that nor a temporary error counts as a failed login.
	Authenticate func(ctx context.Context, token []byte) (identity string, err error)

	// Login runs on the world's goroutine once Authenticate has accepted a client, but before
	// the server welcomes it. Login may spawn actors for the client to own. They open right
	// after the client's Join, before anything that OnConnect sends. Like Authenticate, it
	// may refuse the client with an error. If Login is nil, every client is accepted. UE:
	// Login.
	//
	// In Login, [Conn.Identity] is known. OnDisconnect has already run for previous
	// connections of that identity, so Login can load what OnDisconnect saved. Nothing can be
	// sent to the client before OnConnect, and Client RPCs to it return errors.
	//
	// If the client is refused or never joins, OnDisconnect doesn't run. The actors that the
	// client owns are then destroyed, including any that SetOwner gave to it. A returning
	// player's old actors should therefore be handed over in OnConnect, not in Login.
	//
	// The time until Login has run counts towards HandshakeTimeout. A world that isn't being
	// driven therefore lets nobody in.
	Login func(*World, *Conn) error

	// Token is what a client presents to the server's Authenticate. It may contain any bytes, up
	// to 4 KiB. The token belongs to the world rather than to a Dial, so every server to which
	// the world connects sees it. If it is a ticket for one server, or must be kept secret from
	// other servers, use a separate world for each server.
	Token []byte

	// Timing.

	// TickRate makes Run tick that many times a second, in addition to the ticks for events.
	// 0 means events only. The maximum is 1,000.
	//
	// A rate from 7 to 31 also raises the default of Bunch.AckDelay from 40 ms to one and a
	// quarter ticks. Acks can then piggyback on the next tick's data and don't need packets
	// of their own. A game that calls Tick itself at such a rate should set Bunch.AckDelay.
	TickRate int

	// DispatchTime limits how long the handlers of one connection may run in a Dispatch while
	// other connections have calls to run, too. The default is 2 ms; negative means no limit. If
	// no other connection has calls, the limit is four times DispatchTime. For all connections
	// together, the limit is twelve times DispatchTime. A running handler is never interrupted.
	//
	// The remaining calls wait for the next Dispatch, in order. Connections without a backlog
	// then go first. Once a backlog reaches ReceiveLimit, its sender has to stop. See
	// [Stats].Deferred.
	DispatchTime time.Duration

	// DoS makes a server detect clients whose calls cost it too much. It blocks calls that such a
	// client repeats and, if that doesn't help, closes the client with RPCDoS. Start with the
	// profile dos.Default(). With DoS set, the server measures how long each handler takes and
	// reports it in the Methods of [Stats]. nil means off. UE: bRPCDoSDetection.
	DoS *dos.Profile

	// Limits of the world.

	// MaxConns is the maximum number of connections, including half-open ones. The default is
	// 1,024. A higher number needs 256 KiB of ReceiveBudget for each connection, so with the
	// default of that, the maximum is 2,048. Only what MaxConns connections leave of ReceiveBudget
	// raises the limits of those that receive much.
	MaxConns int

	MaxHandshakes    int           // clients between first packet and Join; default 128
	HandshakeTimeout time.Duration // from the start of the carrier to Join; default 10 s

	// HelloTimeout is the maximum time from the start of the carrier to the client's Hello, which
	// an honest client sends at once. The default is 2 s, or HandshakeTimeout if that is less.
	// HandshakeTimeout is also its maximum.
	HelloTimeout time.Duration

	// ReceiveBudget limits how many bytes of reliable messages, from all connections together,
	// may be waiting for their handlers. The default is 512 MiB.
	ReceiveBudget int

	// ReceiveLimit is the part of ReceiveBudget that a single connection may use, at least
	// 256 KiB. The default is 8 MiB, or ReceiveBudget if that is less. While only a few
	// connections have joined, each gets its full limit on Join. Otherwise a connection starts with
	// less, and its limit rises in steps as needed.
	ReceiveLimit int

	// SendLimit is the maximum number of bytes of memory that a connection's reliable calls, opens
	// and closes may use on this side until the other side has acknowledged them. If the other
	// side's world stops ticking, it acknowledges no more than its ReceiveLimit, and the rest
	// waits here. The minimum is 64 KiB. The default is 64 MiB, enough for 32,767 actors that open
	// at once if the states of each take up to 1,090 bytes, and for 25,000 if they take up to
	// 2,190. SendLimit is at most SendBudget, which lowers the default if it is less.
	//
	// Each entry of a reliable buffer uses 192 bytes in addition to a block of 128 or 1,100 bytes,
	// and a close uses 512 more. Transfers of package stream have limits of their own.
	//
	// A call or an open beyond the limit closes the connection with [ReliableBufferOverflow], or
	// returns an error if Bunch.Overflow is [bunch.OverflowError]. With the latter, an actor that
	// is AlwaysRelevant and could not open stays closed for the client until OpenTo opens it.
	SendLimit int

	// SendBudget limits the sum of these bytes over all connections. The default is 1 GiB.
	//
	// The sum is computed once a second. While it is above the limit, connections are closed with
	// [ReliableBufferOverflow], whatever Bunch.Overflow is. The next one to close is the one with
	// the largest product of three factors: how much it holds, how long it will take to acknowledge
	// that at its rate of the last seconds, and how long it has held more than 256 KiB. A client
	// that acknowledges what it receives therefore outlasts one that doesn't.
	SendBudget int

	// MaxLocalCalls is the maximum number of calls made in this world that may wait for the next
	// Dispatch. The default is 4,096.
	MaxLocalCalls int

	// MaxRequests is the maximum number of outstanding requests per connection. It applies
	// separately to requests that we make and to requests from the peer that are answered later.
	// The default is 64.
	MaxRequests int

	// RequestTime limits how long a [Request] may take if neither a context nor ThenWithin sets a
	// limit. The default is 10 s; negative means no limit.
	RequestTime time.Duration

	// MessageRate is the maximum number of messages per second from [Conn.SendMessage] that a
	// connection runs when there's a backlog. The default is 64.
	MessageRate float64

	// MaxPosts is the maximum number of posted functions that may wait for the next Dispatch. The
	// default is 65,536.
	MaxPosts int

	// Per-address limits. An address is an IPv4 address or a /64 of IPv6.
	//
	// A client isn't charged to an address until the address is validated (RFC 9000, section 8),
	// which means that the client has shown that it receives packets there. Otherwise an attacker
	// could lock out the address's owner by forging the address. None of these limits apply to
	// carriers without an address.

	// RetryAbove is the number of handshakes in progress from which on a new client's address must
	// first be validated by a QUIC Retry (RFC 9000, section 8.1.2). The default is a quarter of
	// MaxHandshakes; negative means that every client's address must be validated, and
	// MaxHandshakes or more that none must for this reason. A Retry costs the client a round trip,
	// but doesn't cost the server any state. Forged first packets therefore never occupy more than
	// RetryAbove of the handshake slots that MaxHandshakes provides.
	//
	// If four clients at an address begin their handshakes while it is unvalidated, it must be
	// validated for further clients in any case, until it has been silent for 10 to 20 s.
	RetryAbove int

	// MaxHandshakesPerAddress is the maximum number of clients per address that may be in their
	// handshake; negative means no limit except MaxHandshakes. Unless it is negative, an address
	// may also occupy no more handshake slots than remain free, which is the only limit by default.
	// A single address therefore gets half of the slots, enough for a party of 64 behind one
	// address to join at the same instant, and two addresses get a third each.
	//
	// At the limit, a new client takes over the slot of another client of its address:
	// preferably the one that has kept us waiting longest for its Hello and Login, or else
	// the one that has kept us waiting longest for its Join. If MaxHandshakes is reached, it takes
	// over the slot of a client of the address that occupies the most.
	//
	// A new client therefore always gets a slot unless all others are still in QUIC's handshake or
	// waiting for Authenticate. If a client gets none or loses it, [Dial] retries.
	MaxHandshakesPerAddress int

	// MaxConnsPerAddress is the maximum number of connections per address, including half-open
	// ones. The default of 256, whatever MaxConns is, leaves room for campuses and mobile
	// networks that share an address. Negative means no limit, for a test with many clients.
	MaxConnsPerAddress int

	// MaxLoginFailures is the number of failed logins after which we slow down logins from an
	// address. The default of 8 allows for typing errors; negative means no limit.
	//
	// After that, logins are admitted one at a time: the first after 250 ms, and then at
	// intervals that double up to 10 s. Any login in between is refused with ServerFull,
	// without calling Authenticate. This ends when no login has failed for 10 minutes. Tokens
	// that Authenticate has accepted before are always admitted.
	//
	// An address never has more logins in Authenticate at once than it has failures left. Further
	// logins have to wait, which counts towards their HandshakeTimeout.
	//
	// To keep out known players, such as banned players, refuse them in Login rather than in
	// Authenticate. A refusal by Login doesn't count as a failed login, so others at the same
	// address aren't slowed down.
	MaxLoginFailures int

	// MaxConnsPerIdentity is the maximum number of connections per identity; 0 means no limit.
	// There is never a limit for the empty identity.
	//
	// Set it if an identity stands for a player. MaxConnsPerAddress leaves seats to others only
	// while the player has few addresses. The default can't be lower, because a game may give all
	// of its guests the same identity.
	//
	// A connection beyond the limit closes the oldest with LoginElsewhere, so a player who
	// reconnects after a crash needn't wait for the old connection to time out. The old
	// connection ends once Authenticate has accepted the new one. Its OnDisconnect runs before
	// Login and OnConnect of the new connection.
	//
	// RefuseLoginElsewhere refuses the new connection with LoginElsewhere instead. It needs a
	// limit.
	MaxConnsPerIdentity  int
	RefuseLoginElsewhere bool

	// Rates at which we send, in bytes per second; 0 means no limit. They count sealed
	// packets, and datagrams without the overhead of IP, UDP and QUIC.
	//
	// As in Unreal, the rates only hold back unreliable data. Acks, control messages, resends and
	// reliable calls count towards a rate but always go through. When a rate is used up,
	// unreliable calls have to wait or are dropped (see QueueUnreliable). Bulk (channels of
	// priority Bulk, slices, sealed packets) gets the remainder, but at least one datagram per
	// second. To limit what a peer sends, use [RateLimit].
	//
	// While WorldRate is enough for everything, any connection may use what the others leave,
	// and connections with bulk share the rest equally. When it's used up, each connection that
	// has sent something within the last second or two may still use an equal part of it, and
	// half of its part for bulk. So if one has many resends, that delays its own unreliable data
	// and not that of others. The total exceeds WorldRate if the resends and reliable calls of
	// some connections exceed what the parts of the others leave. A player with several
	// connections has as many parts, which MaxConnsPerIdentity limits.
	Rate      int // of each connection. UE: CurrentNetSpeed, MaxClientRate
	WorldRate int // of all connections together

	// QueueUnreliable queues unreliable Server and Client RPCs that can't be sent right away.
	// Without it, such calls are dropped if Rate is used up or if any call has been waiting for
	// 66 ms. Multicasts are always queued.
	//
	// A connection's queue holds up to 256 KiB, or 32 KiB while any call has been waiting for
	// 66 ms. Each call takes 64 bytes in addition to its size. If there is no room, the oldest
	// calls of the same actor are dropped. A call is also dropped after waiting for 200 ms plus a
	// round trip, or up to half as long again, unless a part of it has been sent.
	//
	// Call returns nil in all of these cases. [Conn.Stats] counts the dropped calls as
	// Drops.Unreliable and Drops.Saturated.
	QueueUnreliable bool

	// MaxRPCPerNetUpdate limits how often an actor's unreliable Multicast is sent between two
	// updates of the actor. The limit is per method. Updates happen in Flush, at most as often as
	// [UpdateRate] allows. Any further calls only run on the server. Call still returns nil, and
	// each connection for which the actor is open counts them in Drops.Throttled. UE:
	// net.MaxRPCPerNetUpdate.
	//
	// 0, the default, means no limit. Unreal's default is 2, but nobody expects a tick's third
	// call to be dropped. The memory of calls that are waiting for a connection is bounded either
	// way.
	MaxRPCPerNetUpdate int

	// How packets travel.

	// Sealed makes a connection send everything, calls and transfers, in sealed packets instead
	// of QUIC's datagrams. These are encrypted packets of our own format on QUIC's socket. They
	// cope with loss, jitter and long paths, where QUIC's congestion control collapses. QUIC is
	// still used for the handshake, keys and addresses.
	//
	// Both ends must set Sealed. If only one does, QUIC carries everything, and both logs say
	// so. Rate and WorldRate limit both carriers.
	//
	// QUIC takes over again if no sealed packet has been acknowledged for three probe timeouts
	// although packets from the peer do arrive over QUIC. If bulk is in flight, this takes at
	// least a second. [Conn.Sealed] reports which of the two is in use.
	Sealed bool

	// NoJumbo limits the sealed packets that we send to 1,452 bytes, the largest size that QUIC
	// sends. It has no effect without Sealed.
	//
	// Unless NoJumbo is set, bulk tests whether the path takes packets of 8,952 bytes, as
	// loopback and networks with jumbo frames do. It uses them when it runs faster than 1.8 MB/s,
	// or faster than 0.45 MB/s on a path where packets sent together arrive together. No other
	// traffic uses them. [SealedStats] shows the packet size.
	NoJumbo bool

	// IdleTimeout is the time after which a connection ends if nothing arrives from the other side.
	// The default is 30 s. The shorter one of the two ends' applies to both. UE: ConnectionTimeout.
	IdleTimeout time.Duration

	// KeepAlive is the time after which a connection that receives nothing sends a packet that the
	// other side has to answer. The default is 10 s, or half of IdleTimeout if that is less;
	// negative means none. It can't exceed IdleTimeout. QUIC never waits for longer than half of
	// the shorter IdleTimeout of both ends. UE: KeepAliveTime.
	//
	// A client that has sent nothing for KeepAlive also asks for an ack. It does so in a packet
	// large enough that a restarted server answers with a stateless reset.
	KeepAlive time.Duration

	// Bunch configures the reliable buffers (ReliableBuffer, MaxBunch, AckDelay, Overflow,
	// Trace …). The world itself sets Client, ReceiveLimit, SendLimit, KeepAlive, Rate and Random,
	// which must be zero here.
	// IdleTimeout defaults to the IdleTimeout above, and the default of AckDelay depends on
	// TickRate. MaxBunch must be at least 138 bytes, and large enough for Token, for identities and
	// for the smallest call of every method.
	Bunch bunch.Config

	// For development and operation.

	// CheckGoroutine makes methods panic if they are called on any goroutine but the one that
	// last drove the world. It covers calls, requests, Spawn, Destroy, SetOwner, Place on a
	// server, and the methods that decide which connections have an actor. Until the first
	// Dispatch, any goroutine may prepare the world.
	//
	// CheckGoroutine is meant for development, in case the race detector is too slow for the
	// game. A single check takes about 10 µs, as much as all calls of a tick together. Without
	// CheckGoroutine there is no cost. UE: check(IsInGameThread()).
	CheckGoroutine bool

	// ExplainMismatch makes a server describe its classes, methods and fields to a client whose
	// declarations differ, even before login. Both logs then show how many classes each end has
	// and where they first differ, instead of just two hashes. It is meant for development.
	ExplainMismatch bool

	// Emulation emulates a bad network below the sockets of [Listen] and [Dial], for QUIC and
	// sealed packets. It is meant for development. UE: PktLag, PktLoss and the like.
	//
	// nil means no emulation, at no cost, and [World.SetEmulation] returns an error. Otherwise
	// SetEmulation can change the settings at any time. To turn emulation on later, start with
	// &emulation.Settings{}, which changes nothing but makes the socket send packets one by one.
	Emulation *emulation.Settings

	// Trace receives a trace of everything that is sent, in Perfetto's format, for
	// ui.perfetto.dev. It shows what calls wait for, the packets that carry them, acks, losses
	// and resends. The other end's trace shows when calls arrived and ran. Queues, bytes in
	// flight, rate and round trip time are included. Each world needs a writer of its own. nil
	// means no trace, at no cost. UE: -NetTrace, Networking Insights.
	//
	// A goroutine writes the trace from the first connection until [World.Close], which writes
	// the remaining events. If the writer is too slow, events beyond 32,768 in memory are
	// dropped, and the trace reports their number. If the writer fails, the trace ends, and the
	// error is logged and returned by Close.
	//
	// The trace names methods and identities, but doesn't contain arguments. It is meant for
	// development. An event takes well under a microsecond of the tick's time, and 45 bytes in
	// the file.
	Trace io.Writer

	// Logger receives records at LogLevel and above; nil means no log. The level may be changed
	// at run time. If a program has several worlds, tell them apart with logger.With("world",
	// "alice"). On a client, records about a dialed connection also have the attribute
	// conn.local, the client's address.
	Logger   *slog.Logger
	LogLevel *slog.LevelVar // default Info
}

// minReceiveLimit limits the bytes of reliable messages that a connection may hold before Join.
// It is also the minimum of a connection's limit afterwards.
const minReceiveLimit = 256 << 10

const defaultMaxConns = 1024

// withDefaults returns a copy of c with the defaults filled in.
//
// MaxHandshakesPerAddress is an exception: its default depends on who else is in a handshake at
// the time, so package door applies it. Negative times mean none and become 0, and so does a
// negative RetryAbove. Other negative limits are left alone.
func (c Config) withDefaults() Config {
	c.MaxConns = cmp.Or(c.MaxConns, defaultMaxConns)
	c.MaxHandshakes = cmp.Or(c.MaxHandshakes, 128)
	c.RetryAbove = min(max(0, cmp.Or(c.RetryAbove, max(1, c.MaxHandshakes/4))), c.MaxHandshakes)
	c.MaxConnsPerAddress = cmp.Or(c.MaxConnsPerAddress, 256)
	c.MaxLoginFailures = cmp.Or(c.MaxLoginFailures, 8)
	c.ReceiveBudget = cmp.Or(c.ReceiveBudget, 512<<20)
	c.ReceiveLimit = cmp.Or(c.ReceiveLimit, min(8<<20, c.ReceiveBudget))
	c.SendBudget = cmp.Or(c.SendBudget, 1<<30)
	c.SendLimit = cmp.Or(c.SendLimit, min(64<<20, c.SendBudget))
	c.MaxLocalCalls = cmp.Or(c.MaxLocalCalls, 4096)
	c.MaxRequests = cmp.Or(c.MaxRequests, 64)
	c.MaxPosts = cmp.Or(c.MaxPosts, 65536)
	c.MessageRate = cmp.Or(c.MessageRate, 64)
	c.RequestTime = max(0, cmp.Or(c.RequestTime, 10*time.Second))
	// Without the upper bound, worldShares times DispatchTime could overflow.
	c.DispatchTime = min(max(0, cmp.Or(c.DispatchTime, 2*time.Millisecond)), time.Hour)
	c.HandshakeTimeout = cmp.Or(c.HandshakeTimeout, 10*time.Second)
	c.HelloTimeout = cmp.Or(c.HelloTimeout, min(2*time.Second, c.HandshakeTimeout))
	c.IdleTimeout = min(cmp.Or(c.IdleTimeout, 30*time.Second), maxIdleTimeout)
	c.KeepAlive = cmp.Or(c.KeepAlive, max(minTime, min(10*time.Second, c.IdleTimeout/2)))
	c.KeepAlive = min(max(0, c.KeepAlive), maxIdleTimeout)
	c.Bunch.MaxBunch = cmp.Or(c.Bunch.MaxBunch, bunch.MaxBunchBytes)
	c.Bunch.IdleTimeout = cmp.Or(c.Bunch.IdleTimeout, c.IdleTimeout)
	c.Bunch.AckDelay = c.ackDelay()
	return c
}

// At tick rates from minAckTickRate to maxAckTickRate, a tick and a quarter is longer than
// AckDelay's default of 40 ms, but no longer than its maximum of 200 ms.
const minAckTickRate, maxAckTickRate = 7, 31

// ackDelay returns Bunch.AckDelay if it is set. Otherwise, it returns a tick and a quarter if
// TickRate is from minAckTickRate to maxAckTickRate, so that acks can be sent along with the
// packets of the next tick. 0 means the default of package bunch.
func (c *Config) ackDelay() time.Duration {
	if c.Bunch.AckDelay != 0 || c.TickRate < minAckTickRate || c.TickRate > maxAckTickRate {
		return c.Bunch.AckDelay
	}
	return time.Second / time.Duration(c.TickRate) * 5 / 4
}

// minPeerIdle is the shortest IdleTimeout that quic-go assumes for a peer. If the peer's actual
// IdleTimeout is shorter, quic-go's keep-alives are too infrequent for it.
const minPeerIdle = 5 * time.Second

// pingTime returns how often we must send something over QUIC while sealed packets are in use, so
// that QUIC doesn't time out. 0 means never. Every ping costs both ends as much as two sealed
// messages.
//
// A server needs no pings if it has keep-alives of its own, or if its IdleTimeout is long enough
// for the client's. A client without a KeepAlive pings at least once a second, and any other client
// every 1 to 5 s.
func (c *Config) pingTime(server bool) time.Duration {
	if server && (c.KeepAlive > 0 || c.IdleTimeout >= minPeerIdle) {
		return 0
	}
	if c.KeepAlive == 0 {
		return min(c.IdleTimeout/4, time.Second)
	}
	return min(max(c.IdleTimeout/4, time.Second), 5*time.Second)
}

// quic returns the config for QUIC connections.
func (c *Config) quic() *quic.Config {
	return quicconn.Config(c.IdleTimeout, c.KeepAlive, c.HandshakeTimeout)
}

// validate returns an error if a value is out of range. It must be called after withDefaults.
func (c *Config) validate() error {
	negative := cmp.Or(
		notNegative("MaxConns", c.MaxConns),
		notNegative("MaxHandshakes", c.MaxHandshakes),
		notNegative("ReceiveBudget", c.ReceiveBudget),
		notNegative("ReceiveLimit", c.ReceiveLimit),
		notNegative("SendBudget", c.SendBudget),
		notNegative("SendLimit", c.SendLimit),
		notNegative("MaxLocalCalls", c.MaxLocalCalls),
		notNegative("MaxPosts", c.MaxPosts),
		notNegative("Rate", c.Rate),
		notNegative("WorldRate", c.WorldRate),
		notNegative("TickRate", c.TickRate),
		notNegative("MaxConnsPerIdentity", c.MaxConnsPerIdentity),
		notNegative("MaxRPCPerNetUpdate", c.MaxRPCPerNetUpdate),
		notNegative("MaxRequests", c.MaxRequests),
		notNegative("HandshakeTimeout", c.HandshakeTimeout),
		notNegative("HelloTimeout", c.HelloTimeout),
		notNegative("IdleTimeout", c.IdleTimeout),
		notNegative("MessageRate", c.MessageRate),
	)
	if negative != nil {
		return negative
	}
	if c.RefuseLoginElsewhere && c.MaxConnsPerIdentity == 0 {
		return errors.New("rpc: Config.RefuseLoginElsewhere is set without a limit: set Config.MaxConnsPerIdentity as well")
	}
	return cmp.Or(c.validateRates(), c.validateTimes(), c.validateBudgets(), c.validateBunch(), c.validateMessages())
}

// doubts returns texts about values that are possible, but probably mistakes.
func (c *Config) doubts() (doubts []string) {
	if c.MaxConnsPerIdentity > 0 && c.Authenticate == nil {
		doubts = append(doubts, "Config.MaxConnsPerIdentity has no effect without Authenticate, which tells the identities")
	}
	if c.WorldRate > 0 && c.WorldRate < c.Rate {
		doubts = append(doubts, fmt.Sprintf("Config.Rate is %d, but all connections together have %d (Config.WorldRate)", c.Rate, c.WorldRate))
	}
	if c.IdleTimeout < leastIdleTimeout {
		doubts = append(doubts, fmt.Sprintf("Config.IdleTimeout is %v: connections end whenever a path pauses for that long", c.IdleTimeout))
	}
	return doubts
}

// leastIdleTimeout is the least IdleTimeout that is no doubt meant. Paths pause for some 100 ms.
const leastIdleTimeout = time.Second

// maxTickRate is the maximum of TickRate. A tick of a world without connections takes several
// microseconds, so at a much higher rate, Run would do nothing but tick.
const maxTickRate = 1000

// validateRates returns an error if TickRate is too high to have its effect.
func (c *Config) validateRates() error {
	if c.TickRate > maxTickRate {
		return fmt.Errorf("rpc: Config.TickRate is %d; the maximum is %d ticks a second", c.TickRate, maxTickRate)
	}
	return nil
}

// minTime is the minimum of times that are measured on the network. Less is a time without a unit.
const minTime = time.Millisecond

// minDispatchTime is the minimum of Config.DispatchTime. In less, hardly a handler returns.
const minDispatchTime = 10 * time.Microsecond

// maxIdleTimeout stands for a longer IdleTimeout, which nobody will live to see. quic-go adds
// IdleTimeout to the time of a packet, and the sum must not overflow.
const maxIdleTimeout = 100 * 365 * 24 * time.Hour

// validateTimes returns an error if a time is out of range, or exceeds another one that limits it.
func (c *Config) validateTimes() error {
	for _, field := range []struct {
		name  string
		value time.Duration
	}{
		{"HandshakeTimeout", c.HandshakeTimeout},
		{"HelloTimeout", c.HelloTimeout},
		{"IdleTimeout", c.IdleTimeout},
		{"KeepAlive", c.KeepAlive},
		{"RequestTime", c.RequestTime},
		{"Bunch.IdleTimeout", c.Bunch.IdleTimeout},
	} {
		if field.value > 0 && field.value < minTime {
			return fmt.Errorf("rpc: Config.%s is %v; the minimum is %v: give it a unit, such as time.Second",
				field.name, field.value, minTime)
		}
	}
	if c.DispatchTime < minDispatchTime && c.DispatchTime > 0 {
		return fmt.Errorf("rpc: Config.DispatchTime is %v; the minimum is %v: give it a unit, such as time.Millisecond",
			c.DispatchTime, minDispatchTime)
	}
	return cmp.Or(
		notAbove("HelloTimeout", c.HelloTimeout, "HandshakeTimeout", c.HandshakeTimeout),
		notAbove("KeepAlive", c.KeepAlive, "IdleTimeout", c.IdleTimeout),
	)
}

// notAbove returns an error if a time exceeds that of the field that limits it.
func notAbove(field string, value time.Duration, limitField string, limit time.Duration) error {
	if value > limit {
		return fmt.Errorf("rpc: Config.%s is %v; the limit is %v (Config.%s)", field, value, limit, limitField)
	}
	return nil
}

// validateBunch returns an error if a field of Bunch is set that the world overwrites.
func (c *Config) validateBunch() error {
	for _, field := range []struct {
		name   string
		set    bool
		remedy string
	}{
		{"Client", c.Bunch.Client, "leave it to the world"},
		{"Random", c.Bunch.Random != nil, "leave it to the world"},
		{"ReceiveLimit", c.Bunch.ReceiveLimit != 0, "set Config.ReceiveLimit instead"},
		{"SendLimit", c.Bunch.SendLimit != 0, "set Config.SendLimit instead"},
		{"KeepAlive", c.Bunch.KeepAlive != 0, "set Config.KeepAlive instead"},
		{"Rate", c.Bunch.Rate != 0, "set Config.Rate instead"},
	} {
		if field.set {
			return fmt.Errorf("rpc: Config.Bunch.%s is set: %s", field.name, field.remedy)
		}
	}
	return nil
}

// minSendLimit is enough for the largest message.
const minSendLimit = bunch.MaxBunchBytes

// validateBudgets returns an error if the limit of a connection can't work with the budget of the
// world.
func (c *Config) validateBudgets() error {
	if c.ReceiveBudget < minReceiveLimit {
		return fmt.Errorf("rpc: Config.ReceiveBudget is %s; a single connection needs %d",
			words.Bytes(c.ReceiveBudget), minReceiveLimit)
	}
	if c.ReceiveLimit < minReceiveLimit {
		return fmt.Errorf("rpc: Config.ReceiveLimit is %s; the minimum is %d",
			words.Bytes(c.ReceiveLimit), minReceiveLimit)
	}
	if c.ReceiveLimit > c.ReceiveBudget {
		return fmt.Errorf("rpc: Config.ReceiveLimit is %d bytes; the limit is %d (Config.ReceiveBudget): raise it or lower ReceiveLimit",
			c.ReceiveLimit, c.ReceiveBudget)
	}
	// The default of MaxConns is no promise, so a game that lowers ReceiveBudget needn't lower it.
	if most := max(defaultMaxConns, c.ReceiveBudget/minReceiveLimit); c.MaxConns > most {
		return fmt.Errorf("rpc: Config.MaxConns is %d; the limit is %d, or more if Config.ReceiveBudget (%d) has %d bytes for each: raise it or lower MaxConns",
			c.MaxConns, most, c.ReceiveBudget, minReceiveLimit)
	}
	if c.SendBudget < minSendLimit {
		return fmt.Errorf("rpc: Config.SendBudget is %s; the minimum is %d", words.Bytes(c.SendBudget), minSendLimit)
	}
	if c.SendLimit < minSendLimit {
		return fmt.Errorf("rpc: Config.SendLimit is %s; the minimum is %d", words.Bytes(c.SendLimit), minSendLimit)
	}
	if c.SendLimit > c.SendBudget {
		return fmt.Errorf("rpc: Config.SendLimit is %d bytes; the limit is %d (Config.SendBudget): raise it or lower SendLimit",
			c.SendLimit, c.SendBudget)
	}
	return nil
}

// validateMessages returns an error if Bunch is invalid, or if the messages of the handshake can't
// contain what they must.
func (c *Config) validateMessages() error {
	if len(c.GameVersion) > control.MaxGameVersion {
		return fmt.Errorf("rpc: Config.GameVersion has %d bytes; the limit is %d", len(c.GameVersion), control.MaxGameVersion)
	}
	if !utf8.ValidString(c.GameVersion) {
		return fmt.Errorf("rpc: Config.GameVersion is %q, which is not valid UTF-8", c.GameVersion)
	}
	if len(c.Token) > control.MaxToken {
		return fmt.Errorf("rpc: Config.Token has %d bytes; the limit is %d", len(c.Token), control.MaxToken)
	}
	if _, err := bunch.NewConn(time.Unix(0, 0), c.Bunch); err != nil {
		return fmt.Errorf("rpc: invalid Config.Bunch: %w", err)
	}
	limit := c.Bunch.MaxBunch
	if limit < control.MinBunch {
		return fmt.Errorf("rpc: Config.Bunch.MaxBunch is %d; the minimum is %d, which messages of rpc need",
			limit, control.MinBunch)
	}
	if size := len(control.AppendLogin(nil, control.Login{Token: c.Token})); size > limit {
		return fmt.Errorf("rpc: Config.Token has %d bytes, for which a login has %d; the limit is %d (Config.Bunch.MaxBunch): raise it or shorten the token",
			len(c.Token), size, limit)
	}
	return nil
}

// notNegative returns an error if a field's value is negative or NaN.
func notNegative[T int | float64 | time.Duration](field string, value T) error {
	if !(value >= 0) {
		return fmt.Errorf("rpc: Config.%s is %v; it must not be negative", field, value)
	}
	return nil
}
