package rpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/control"
	"github.com/quivernet/quiver/rpc/dos"
	"github.com/quivernet/quiver/rpc/emulation"
)

// Config configures one world. A zero field takes the default that its comment
// names. A negative value means none only for fields that say so.
type Config struct {
	// Classes are the classes that both sides declare. The handshake compares
	// their shapes. [Bind] adds its class itself.
	Classes []*Class
	// OnConnect runs on the world's goroutine for every connection that has
	// joined, on a client after Dial. UE: PostLogin.
	//
	// On a server, [AlwaysRelevant] actors open for the connection only after OnConnect.
	// If OnConnect gives such an actor to the connection by SetOwner, the actor
	// therefore opens as the connection's own, without fields that are for others.
	//
	// A Client RPC or a Multicast in OnConnect opens its actor first. Actors to which calls or
	// states only refer may open later: see [WaitForActors]. For actors that have not opened
	// yet, [Conn.Actor] returns nil in OnConnect, and [Actor.Channel] the zero Channel.
	// [Actor.OpenTo] opens an actor at once. [OnOpenAcked] runs when the client has it.
	OnConnect func(*World, *Conn)
	// OnDisconnect runs on the world's goroutine once for every connection that had joined and
	// has ended. The error is a *CloseError. OnDisconnect runs before OnConnect of the next
	// connection of the same identity. On a client it runs before OnConnect of any connection.
	//
	// For up to a second after [Conn.Close] a connection is closing and has not
	// ended. Another connection may join during that time. To avoid that, a
	// client waits for [Conn.Done] of the old connection before it dials again. A
	// server sets MaxConnsPerIdentity to 1, which ends the old connection first.
	OnDisconnect func(*World, *Conn, error)

	// OnMessage runs on the world's goroutine, in Dispatch, for every message that the other
	// side sends by [Conn.SendMessage], in order. payload is valid until OnMessage returns. nil
	// = all messages are dropped and counted. UE: UGameInstance::HandleGameNetControlMessage.
	//
	// If OnMessage returns an error, a server closes the connection with ValidationFailed.
	// A client trusts its server, so it only drops and counts the message.
	OnMessage func(w *World, c *Conn, id uint8, payload []byte) error

	// CheckGoroutine makes methods panic on any goroutine but the one that
	// drove the world last: calls, requests, Spawn, Destroy, SetOwner, Place on
	// a server, and the methods that decide which connections have an actor.
	// Before the first Dispatch any goroutine may prepare the world.
	//
	// A check takes about 10 µs, as long as the calls of a whole tick. CheckGoroutine
	// is therefore meant for development, if the race detector is too slow for the
	// game. If it is false, it costs nothing. UE: check(IsInGameThread()).
	CheckGoroutine bool

	// OnPanic is called for every panic in a function of the game: handlers, checks, hooks,
	// constructors, posts, Validate, UnmarshalBinary, Authenticate, Login, and functions of
	// package stream's transfers: handlers, OnBatch, OnEnd, Readers, Stores, and elements'
	// encodings. function is the name of the function that panicked, as in the log: "Player.Fire",
	// or `blob "savegame": the handler`. The world continues. nil = panics are not recovered.
	//
	// The connection whose call panicked has been closed with HandlerPanic and a
	// reason that names the function. Nothing more was delivered on it. A transfer
	// fails alone, with stream.ErrPanicked, and its connection continues. conn is
	// nil for posts, OnTick hooks and calls that were made in this world.
	//
	// OnPanic runs on the goroutine that panicked: the world's, that of Authenticate,
	// or one of package stream. It may therefore be called concurrently.
	//
	// A panic in OnPanic itself is not recovered, and neither is any panic if OnPanic
	// is nil. Such a panic continues out of Dispatch, Flush, Tick or Run. A caller that
	// recovers it may continue to drive the world: everything except the function that
	// panicked still runs, once. A panic that continues out of Authenticate, or out of
	// a goroutine of package stream, ends the program, because nobody can recover it.
	//
	// The simulation itself may call Spawn, Place or Destroy outside of Dispatch and
	// Flush. Then a panic in a constructor, set or OnClose continues out of that
	// call, and OnPanic is not called. A caller may recover it in the same way.
	OnPanic func(conn *Conn, function string, recovered any, stack []byte)

	// Authenticate turns the client's token into an identity, or refuses it with an error,
	// whose text the client receives. It runs on its own goroutine, within HandshakeTimeout.
	// nil = every client is accepted, with an empty identity. UE: PreLogin.
	//
	// An error that is or wraps ErrBacklogFull or a Temporary [*CloseError], such as one
	// of code ServerFull, means that the token cannot be checked now. The client receives
	// the code of that CloseError, or ServerFull, and the reason, and may try again.
	//
	// If Authenticate panics or ends its goroutine, the connection closes with
	// HandlerPanic. Neither case is counted as a failed login.
	Authenticate func(ctx context.Context, token []byte) (identity string, err error)
	// Login runs on the world's goroutine after Authenticate has accepted a client, and before
	// the server welcomes it. It may spawn actors that the client will own. They open right
	// after the client's Join, before anything that OnConnect sends. Login may instead refuse
	// the client with an error, as Authenticate does. nil = every client is accepted. UE: Login.
	//
	// In Login [Conn.Identity] is known. OnDisconnect has run for connections of that
	// identity that have ended, so Login may load what OnDisconnect saved. Nothing
	// can be sent to the client before OnConnect: Client RPCs to it return errors.
	//
	// If the client is refused or never joins, its actors are destroyed, including
	// those that SetOwner gave it, and OnDisconnect does not run. So wait until
	// OnConnect before you give a returning player the actors that it had left behind.
	//
	// The time until Login has run counts towards HandshakeTimeout, so a world
	// that does not tick lets no client in.
	Login func(*World, *Conn) error
	// Token is what a client presents to the server's Authenticate: any bytes, at
	// most 4 KiB. It cannot be set for a single Dial, so every server to which
	// the world connects reads it. If the token is a ticket for one server, or a
	// secret that another server must not see, use a world for each server.
	Token []byte

	// ExplainMismatch makes a server send its classes, methods and fields to a
	// client that declares different ones, before any login. Then both logs
	// contain how many classes each end has, and the first difference. Without
	// it they contain only the two hashes. It is meant for development.
	ExplainMismatch bool

	// TickRate makes Run tick that often a second, in addition to ticks for events. 0 = events
	// only. A rate from 7 to 31 also raises the default of Bunch.AckDelay from 40 ms to a tick
	// and a quarter, so that acks are sent with the data of the next tick and need no packets
	// of their own. A game that calls Tick itself at such a rate should set Bunch.AckDelay.
	TickRate int

	// DispatchTime is how long the handlers of one connection may run in one Dispatch while
	// other connections have calls, too. The default is 2 ms; negative = no limit. If only one
	// connection has calls, its handlers may run four times as long. Those of all connections
	// together may run twelve times as long. A handler that has begun is not interrupted.
	//
	// Messages that remain wait, in order, for the next Dispatch, in which
	// connections without remaining messages go first. Messages that fill
	// ReceiveLimit stop their sender: see [Stats].Deferred.
	DispatchTime time.Duration

	// DoS makes a server detect clients whose calls cost too much. It blocks
	// calls that they repeat, and in the end closes the clients with RPCDoS.
	// Start with the profile dos.Default(). With DoS the time of each handler
	// is measured, and [Stats] has Methods. nil = off. UE: bRPCDoSDetection.
	DoS *dos.Profile

	// Limits of a world.
	MaxConns         int           // connections, including half-open ones; default 1,024
	MaxHandshakes    int           // clients in their handshake, from their first packet to Join; default 128
	HandshakeTimeout time.Duration // from the carrier's start to Join; default 10 s
	// From the carrier's start to the client's Hello, which an honest client
	// sends at once; default 2 s, at most HandshakeTimeout.
	HelloTimeout time.Duration
	// Bytes that reliable messages of all connections may hold here until they
	// run; default 512 MiB.
	ReceiveBudget int
	// Bytes of that for one connection: from Join on while few have joined,
	// else in steps as it uses them; at least 256 KiB, default 8 MiB.
	ReceiveLimit  int
	MaxLocalCalls int // calls made in this world that wait for the next Dispatch; default 4,096
	// Open requests of one connection: as many made by this side, and as many
	// of the peer to answer later; default 64.
	MaxRequests int
	// How long a [Request] may take that has no limit of its own, a context's
	// deadline or ThenWithin's; default 10 s, negative = no limit.
	RequestTime time.Duration
	// Messages of [Conn.SendMessage] that a connection runs in a second, while
	// others wait; default 64.
	MessageRate float64
	MaxPosts    int // functions that wait for the next Dispatch; default 65,536

	// Limits of an address, which is an IPv4 address or a /64 of IPv6. A client
	// counts for an address only once it has proven that it receives packets
	// there. Otherwise an attacker could forge an address and lock its owner
	// out. Carriers without an address have none of these limits.
	//
	// RetryAbove is how many clients may be in their handshake before a new one
	// must first prove its address by a QUIC Retry (RFC 9000, section 8.1.2). The
	// default is a quarter of MaxHandshakes; negative = every client must prove
	// its address. A Retry costs the client a round trip. The server keeps no
	// state for it, so forged first packets cannot use more than this many places.
	//
	// Once four clients of one address have begun without a proof, further clients of that
	// address must prove it, too, until no packet has arrived from there for 10 to 20 s.
	RetryAbove int
	// MaxHandshakesPerAddress is how many clients of one address may be in their handshake;
	// negative = no limit but MaxHandshakes. By default an address may use as many places
	// as MaxHandshakes leaves free. A single address gets half of the places, so a party of
	// 64 behind one address can join in the same instant. Two addresses get a third each.
	//
	// At the limit a new client takes the place of another client of the same address: the one
	// whose Hello and Login this side has awaited longest, or else the one whose Join it has. If
	// MaxHandshakes is reached, the new client takes the place of a client of the address with the
	// most places. A new client therefore finds a place unless all others are in QUIC's handshake
	// or wait for Authenticate. [Dial] tries again for a client that finds no place or loses it.
	MaxHandshakesPerAddress int
	// MaxConnsPerAddress is how many connections one address may have, including half-open
	// ones. The default of 256, whatever MaxConns is, allows for whole campuses and mobile
	// networks behind one address. Negative = no limit, for a test with many clients.
	MaxConnsPerAddress int
	// MaxLoginFailures is how many logins of an address may fail before later ones are slowed
	// down. The default of 8 allows for typing errors; negative = no limit. Later logins are
	// admitted one at a time, the first after 250 ms, then at intervals that double up to 10 s,
	// until none has failed for 10 minutes. Between these times, logins are refused with
	// ServerFull without a call of Authenticate, except for tokens that it has accepted before.
	//
	// The number of an address's logins in Authenticate at any time is limited to the
	// number that may still fail. Other logins wait, which counts towards HandshakeTimeout.
	//
	// Refuse known players who may not play, such as banned ones, in Login. That does
	// not count as a failed login, so it does not slow down others at the same address.
	MaxLoginFailures int

	// MaxConnsPerIdentity is how many connections one identity may have. 0 = no
	// limit. The empty identity has no limit.
	//
	// A further connection closes the oldest one with LoginElsewhere, so a player who reconnects
	// after a crash need not wait until the old connection times out. The old connection ends
	// once Authenticate has accepted the new one. Its OnDisconnect runs before Login and
	// OnConnect of the new connection. With RefuseLoginElsewhere the new connection is refused
	// with LoginElsewhere instead. Without a limit, RefuseLoginElsewhere has no effect.
	MaxConnsPerIdentity  int
	RefuseLoginElsewhere bool

	// Rates at which this side sends, in bytes per second of datagrams, without
	// IP, UDP and QUIC overhead, and of sealed packets; 0 = no limit.
	//
	// As in Unreal they limit only what is not reliable. Acks, control messages, resends
	// and reliable calls are counted but always pass. Unreliable calls wait or are dropped:
	// see QueueUnreliable. Bulk (channels of priority Bulk, slices, sealed packets) gets
	// the rest, but at least a datagram per second. [RateLimit] limits what a peer sends.
	Rate      int // of one connection. UE: CurrentNetSpeed, MaxClientRate
	WorldRate int // of all connections together; those with bulk share the rest equally

	// QueueUnreliable queues unreliable Server and Client RPCs that cannot be sent at
	// once. Multicasts are always queued. Without QueueUnreliable a Server or Client
	// RPC is dropped while Rate is used up, or while a call has waited for 66 ms.
	//
	// A connection's queue holds up to 256 KiB, or 32 KiB while a call has waited
	// for 66 ms. Each call counts as 64 bytes more than its size. To make room,
	// the oldest calls of the actor are dropped. A call of which no part was sent
	// is dropped after 200 ms plus a round trip, or up to half as long again.
	//
	// Call returns nil in all cases. [Conn.Stats] counts the drops, as
	// Drops.Unreliable and Drops.Saturated.
	QueueUnreliable bool

	// MaxRPCPerNetUpdate is how often one unreliable Multicast of an actor is sent between
	// two of the actor's updates. Updates are Flushes at least as far apart as [UpdateRate]
	// allows. Further calls run on the server only. Each connection for which the actor is
	// open counts them in Drops.Throttled, and Call returns nil. UE: net.MaxRPCPerNetUpdate.
	//
	// 0 = no limit. Unreal's default is 2. Here there is no limit by default,
	// because nobody expects the third call of a tick to be dropped, and the
	// memory of calls that wait for a connection is bounded anyway.
	MaxRPCPerNetUpdate int

	// Sealed makes a connection send everything, calls and transfers, in sealed packets
	// of our own instead of QUIC's datagrams, on the same socket. The peer must set it,
	// too: if only one end has set Sealed, QUIC carries everything, and both logs say so.
	// Sealed packets tolerate loss, jitter and long paths, on which QUIC's congestion
	// control collapses. QUIC remains in use for the handshake, keys and addresses.
	//
	// QUIC carries the data again if no sealed packet was acknowledged for three probe
	// timeouts, and for a second if bulk is in flight, although packets of the peer arrive over
	// QUIC. [Conn.Sealed] reports which of the two is in use. Rate and WorldRate apply to both.
	Sealed bool
	// NoJumbo limits the sealed packets that this end sends to 1,452 bytes, the
	// maximum that QUIC sends. It has no effect without Sealed.
	//
	// Without NoJumbo, bulk tries whether the path carries packets of 8,952 bytes, as
	// loopback and networks with jumbo frames do. It then uses them if it is faster
	// than 1.8 MB/s, or than 0.45 MB/s on a path where packets that are sent together
	// arrive together. Play never uses them. [SealedStats] shows how large packets are.
	NoJumbo bool

	// Emulation emulates a bad network below the sockets of [Listen] and [Dial], for QUIC
	// and sealed packets. nil = none, at no cost; then [World.SetEmulation] returns an
	// error. Otherwise SetEmulation changes the settings at any time, and a game may begin
	// without emulation by setting &emulation.Settings{}. Even then packets are sent one
	// by one. Emulation is meant for development. UE: PktLag, PktLoss and the like.
	Emulation *emulation.Settings

	// Timers of QUIC. A client that has sent nothing for KeepAlive also asks for an ack, by a
	// packet that is large enough for a restarted server to answer it with a stateless reset.
	IdleTimeout time.Duration // default 30 s
	KeepAlive   time.Duration // default 10 s; negative = none

	// Bunch configures the reliable buffers (ReliableBuffer, MaxBunch, AckDelay, Overflow,
	// Trace …). The world sets Client, ReceiveLimit, KeepAlive, Rate and Random.
	// IdleTimeout defaults to that of the Config, and AckDelay as described at TickRate.
	Bunch bunch.Config

	// Trace receives a trace of everything that is sent, in Perfetto's format, for ui.perfetto.dev:
	// what calls wait for, the packets in which they are sent, acks, losses and resends; at the
	// other end, when calls arrived and ran; queues, bytes in flight, rate and round trip time. nil
	// = none, at no cost. Each world needs its own writer. UE: -NetTrace, Networking Insights.
	//
	// A goroutine writes the trace from the first connection until [World.Close], which writes
	// the rest. If the writer is slow, events beyond 32,768 in memory are dropped, and the trace
	// says how many. An error of the writer ends the trace. It is logged, and Close returns it.
	//
	// The trace contains names of methods and identities, but no arguments. It
	// is meant for development: an event takes 0.06 µs of the tick's time, 0.3
	// µs on another core, and 45 B in the file.
	Trace io.Writer

	// Logger receives records at LogLevel and above; nil = none. The level may change at run
	// time. If a program has several worlds, use logger.With("world", "alice") to distinguish
	// them; a client that dialed is also identified by conn.local, its own address.
	Logger   *slog.Logger
	LogLevel *slog.LevelVar // default Info
}

// minReceiveLimit is how many bytes of reliable messages a connection may hold
// before Join, and the minimum of its limit after Join.
const minReceiveLimit = 256 << 10

// withDefaults fills in the defaults, except that of MaxHandshakesPerAddress, which
// depends on the clients in their handshake and is in package door. Negative times, which
// mean none, become 0, and so does a negative RetryAbove. Other negative limits stay.
func (c Config) withDefaults() Config {
	c.MaxConns = cmp.Or(c.MaxConns, 1024)
	c.MaxHandshakes = cmp.Or(c.MaxHandshakes, 128)
	c.RetryAbove = min(max(0, cmp.Or(c.RetryAbove, max(1, c.MaxHandshakes/4))), c.MaxHandshakes)
	c.MaxConnsPerAddress = cmp.Or(c.MaxConnsPerAddress, 256)
	c.MaxLoginFailures = cmp.Or(c.MaxLoginFailures, 8)
	c.ReceiveBudget = cmp.Or(c.ReceiveBudget, 512<<20)
	c.ReceiveLimit = cmp.Or(c.ReceiveLimit, 8<<20)
	c.MaxLocalCalls = cmp.Or(c.MaxLocalCalls, 4096)
	c.MaxRequests = cmp.Or(c.MaxRequests, 64)
	c.MaxPosts = cmp.Or(c.MaxPosts, 65536)
	c.MessageRate = cmp.Or(c.MessageRate, 64)
	c.RequestTime = max(0, cmp.Or(c.RequestTime, 10*time.Second))
	c.DispatchTime = min(max(0, cmp.Or(c.DispatchTime, 2*time.Millisecond)), time.Hour) // worldShares times an hour does not overflow
	c.HandshakeTimeout = cmp.Or(c.HandshakeTimeout, 10*time.Second)
	c.HelloTimeout = min(cmp.Or(c.HelloTimeout, 2*time.Second), c.HandshakeTimeout)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, 30*time.Second)
	c.KeepAlive = max(0, cmp.Or(c.KeepAlive, 10*time.Second))
	c.Bunch.MaxBunch = cmp.Or(c.Bunch.MaxBunch, bunch.MaxBunchBytes)
	c.Bunch.IdleTimeout = cmp.Or(c.Bunch.IdleTimeout, c.IdleTimeout)
	c.Bunch.AckDelay = c.ackDelay()
	return c
}

// At tick rates from leastRideRate to mostRideRate, a tick and a quarter is longer
// than the default AckDelay of 40 ms, and no longer than its maximum of 200 ms.
const leastRideRate, mostRideRate = 7, 31

// ackDelay returns Bunch.AckDelay; 0 = the default of package bunch. If the field is
// not set, ackDelay returns a tick and a quarter for a TickRate from leastRideRate to
// mostRideRate: as long as acks must wait to be sent with the packets of the next tick.
func (c *Config) ackDelay() time.Duration {
	if c.Bunch.AckDelay != 0 || c.TickRate < leastRideRate || c.TickRate > mostRideRate {
		return c.Bunch.AckDelay
	}
	return time.Second / time.Duration(c.TickRate) * 5 / 4
}

// leastPeerIdle is the minimum IdleTimeout that quic-go assumes for a peer. If
// the peer's is shorter, this end sends keep-alives too rarely for it.
const leastPeerIdle = 5 * time.Second

// pingTime is how often this end sends a packet over QUIC while sealed packets are
// in use, so that QUIC does not time out; 0 = never. A ping costs both ends as
// much as two sealed messages. A client without a KeepAlive pings at least once a
// second, one with a KeepAlive every 1 to 5 s. A server pings only if its own
// KeepAlive is off and its IdleTimeout is too short for the client's keep-alives.
func (c *Config) pingTime(server bool) time.Duration {
	switch {
	case server && (c.KeepAlive > 0 || c.IdleTimeout >= leastPeerIdle):
		return 0
	case c.KeepAlive == 0:
		return min(c.IdleTimeout/4, time.Second)
	}
	return min(max(c.IdleTimeout/4, time.Second), 5*time.Second)
}

// validate returns an error for a value that is out of range. It is called after withDefaults.
func (c *Config) validate() error {
	negative := cmp.Or(
		notNegative("MaxConns", c.MaxConns), notNegative("MaxHandshakes", c.MaxHandshakes), notNegative("ReceiveBudget", c.ReceiveBudget),
		notNegative("ReceiveLimit", c.ReceiveLimit), notNegative("MaxLocalCalls", c.MaxLocalCalls), notNegative("MaxPosts", c.MaxPosts),
		notNegative("Rate", c.Rate), notNegative("WorldRate", c.WorldRate), notNegative("TickRate", c.TickRate),
		notNegative("MaxConnsPerIdentity", c.MaxConnsPerIdentity), notNegative("MaxRPCPerNetUpdate", c.MaxRPCPerNetUpdate),
		notNegative("MaxRequests", c.MaxRequests), notNegative("HandshakeTimeout", c.HandshakeTimeout), notNegative("HelloTimeout", c.HelloTimeout),
		notNegative("IdleTimeout", c.IdleTimeout), notNegative("MessageRate", c.MessageRate),
	)
	if negative != nil {
		return negative
	}
	if len(c.Token) > control.MaxToken {
		return fmt.Errorf("rpc: Config.Token has %d bytes, the limit is %d", len(c.Token), control.MaxToken)
	}
	if c.ReceiveBudget < minReceiveLimit {
		return fmt.Errorf("rpc: Config.ReceiveBudget is %d bytes, one connection needs %d", c.ReceiveBudget, minReceiveLimit)
	}
	if c.ReceiveLimit < minReceiveLimit {
		return fmt.Errorf("rpc: Config.ReceiveLimit is %d bytes, every connection has at least %d", c.ReceiveLimit, minReceiveLimit)
	}
	if _, err := bunch.NewConn(time.Unix(0, 0), c.Bunch); err != nil {
		return errors.Join(errors.New("rpc: Config.Bunch is not valid"), err)
	}
	return nil
}

// notNegative returns an error if the value of a field is negative or NaN.
func notNegative[T int | float64 | time.Duration](field string, value T) error {
	if !(value >= 0) {
		return fmt.Errorf("rpc: Config.%s is %v, must not be negative", field, value)
	}
	return nil
}
