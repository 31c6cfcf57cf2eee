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

// Config configures one world. A zero field means the default given in its comment. A
// negative value means "none" or "no limit" only where the comment says so.
type Config struct {
	// Classes are the classes that both sides declare. The handshake compares their
	// shapes. [Bind] adds its class itself.
	Classes []*Class
	// OnConnect runs on the world's goroutine for every connection that has joined.
	// On a client it runs after Dial. UE: PostLogin.
	//
	// On a server, [AlwaysRelevant] actors open for the connection only after OnConnect.
	// OnConnect may therefore give such an actor to the connection with SetOwner: the actor
	// then opens as the connection's own, without fields that are for others.
	//
	// A Client RPC or a Multicast in OnConnect opens its actor first. Actors that calls or
	// states only refer to may open later: see [WaitForActors]. Until an actor has opened,
	// [Conn.Actor] returns nil and [Actor.Channel] returns the zero Channel. [Actor.OpenTo]
	// opens an actor at once. [OnOpenAcked] runs when the client has the actor.
	OnConnect func(*World, *Conn)
	// OnDisconnect runs on the world's goroutine, once for every joined connection
	// that has ended. The error is a *CloseError. On a server, OnDisconnect runs
	// before OnConnect of the next connection of the same identity. On a client it
	// runs before OnConnect of any connection.
	//
	// For up to a second after [Conn.Close], a connection is closing and has not ended.
	// Another connection may join during that time. A client can avoid the overlap by waiting
	// for [Conn.Done] of the old connection before it dials again. A server can avoid it by
	// setting MaxConnsPerIdentity to 1, which ends the old connection first.
	OnDisconnect func(*World, *Conn, error)

	// OnMessage runs on the world's goroutine, in Dispatch, for every message that the
	// other side sends with [Conn.SendMessage], in order. payload is valid until
	// OnMessage returns. If OnMessage is nil, all messages are dropped and counted.
	// UE: UGameInstance::HandleGameNetControlMessage.
	//
	// If OnMessage returns an error, a server closes the connection with ValidationFailed. A
	// client trusts its server, so it only drops and counts the message.
	OnMessage func(w *World, c *Conn, id uint8, payload []byte) error

	// CheckGoroutine makes methods panic on any goroutine except the one that last
	// drove the world. It covers calls, requests, Spawn, Destroy, SetOwner, Place on
	// a server, and the methods that decide which connections have an actor. Before
	// the first Dispatch any goroutine may prepare the world.
	//
	// CheckGoroutine is meant for development, if the race detector is too slow for the
	// game. A check takes about 10 µs, as long as the calls of a whole tick. If
	// CheckGoroutine is false, it costs nothing. UE: check(IsInGameThread()).
	CheckGoroutine bool

	// OnPanic is called for every panic in a function that belongs to the game. These
	// are handlers, checks, hooks, constructors, posts, Validate, UnmarshalBinary,
	// Authenticate and Login. For transfers of package stream they are handlers,
	// OnBatch, OnEnd, Readers, Stores and the encodings of elements. The world
	// continues after OnPanic. If OnPanic is nil, panics are not recovered.
	//
	// function names the function that panicked, as in the log. Examples are "Player.Fire"
	// and `blob "savegame": the handler`. conn is the connection whose call panicked. It is
	// nil for posts, OnTick hooks and calls that were made in this world.
	//
	// When OnPanic is called, that connection is already closed with HandlerPanic,
	// and the reason names the function. Nothing more was delivered on the
	// connection. If a transfer's function panics, only the transfer fails, with
	// stream.ErrPanicked, and its connection continues.
	//
	// OnPanic runs on the goroutine that panicked: the world's, Authenticate's, or
	// one of package stream. It may therefore be called concurrently.
	//
	// A panic in OnPanic itself is not recovered. An unrecovered panic continues out of
	// Dispatch, Flush, Tick or Run. A caller that recovers it may continue to drive the world:
	// everything except the function that panicked still runs, once. An unrecovered panic on
	// Authenticate's goroutine, or on a goroutine of package stream, ends the program.
	//
	// The game may call Spawn, Place or Destroy outside of Dispatch and Flush. A panic in a
	// constructor, set or OnClose then continues out of that call, and OnPanic is not
	// called. The caller may recover such a panic in the same way.
	OnPanic func(conn *Conn, function string, recovered any, stack []byte)

	// Authenticate turns the client's token into an identity. It may refuse the
	// token with an error, whose text the client receives. Authenticate runs on its
	// own goroutine, within HandshakeTimeout. If it is nil, every client is accepted
	// with an empty identity. UE: PreLogin.
	//
	// Authenticate may report that the token can't be checked now. It does so with
	// an error that is or wraps ErrBacklogFull or a Temporary [*CloseError], such as
	// one with code ServerFull. The client receives the code of the CloseError, or
	// else ServerFull, and the reason. The client may then try again.
	//
	// If Authenticate panics or ends its goroutine, the connection closes with HandlerPanic.
	// Neither a temporary error nor a panic counts as a failed login.
	Authenticate func(ctx context.Context, token []byte) (identity string, err error)
	// Login runs on the world's goroutine after Authenticate has accepted a client,
	// and before the server welcomes the client. It may spawn actors for the client
	// to own. They open right after the client's Join, before anything that
	// OnConnect sends. Like Authenticate, Login may refuse the client with an error.
	// If Login is nil, every client is accepted. UE: Login.
	//
	// In Login, [Conn.Identity] is known. OnDisconnect has already run for ended connections
	// of that identity, so Login may load what OnDisconnect saved. Nothing can be sent to
	// the client before OnConnect: Client RPCs to it return errors.
	//
	// If the client is refused or never joins, OnDisconnect does not run. The actors that the
	// client owns are destroyed, including those that SetOwner gave it. A returning player's
	// old actors should therefore be handed over in OnConnect, not in Login.
	//
	// The time until Login has run counts towards HandshakeTimeout, so a world that
	// does not tick lets no client in.
	Login func(*World, *Conn) error
	// Token is what a client presents to the server's Authenticate: any bytes, at
	// most 4 KiB. It can't be set for a single Dial, so every server that the world
	// connects to reads it. If the token is a ticket for one server, or a secret
	// that another server must not see, use a world for each server.
	Token []byte

	// ExplainMismatch makes a server describe its classes, methods and fields to a
	// client that declares different ones, before any login. Both logs then show how
	// many classes each end has, and the first difference. Without it they show only
	// two hashes. ExplainMismatch is meant for development.
	ExplainMismatch bool

	// TickRate makes Run tick that many times a second, in addition to ticks for
	// events. 0 means events only.
	//
	// A rate from 7 to 31 also raises the default of Bunch.AckDelay from 40 ms to a tick and
	// a quarter. Acks are then sent with the data of the next tick and need no packets of
	// their own. A game that calls Tick itself at such a rate should set Bunch.AckDelay.
	TickRate int

	// DispatchTime limits how long the handlers of one connection may run in one
	// Dispatch while other connections have calls to run. The default is 2 ms;
	// negative means no limit. If only one connection has calls, its handlers may
	// run four times as long. The handlers of all connections together may run
	// twelve times as long. A handler that has begun is not interrupted.
	//
	// The remaining messages wait, in order, for the next Dispatch. Connections
	// without remaining messages go first in that Dispatch. Messages that fill
	// ReceiveLimit stop their sender: see [Stats].Deferred.
	DispatchTime time.Duration

	// DoS makes a server detect clients whose calls cost too much. It first blocks
	// calls that they repeat, and in the end closes the clients with RPCDoS. Start with
	// the profile dos.Default(). With DoS, the server measures the time of each
	// handler, and [Stats] has Methods. nil means off. UE: bRPCDoSDetection.
	DoS *dos.Profile

	// Limits of a world.
	MaxConns         int           // connections, including half-open ones; default 1,024
	MaxHandshakes    int           // clients in their handshake, from their first packet to Join; default 128
	HandshakeTimeout time.Duration // from the carrier's start to Join; default 10 s
	// From the carrier's start to the client's Hello, which an honest client sends
	// at once; default 2 s, at most HandshakeTimeout.
	HelloTimeout time.Duration
	// Bytes of reliable messages, from all connections, that may wait here to run;
	// default 512 MiB.
	ReceiveBudget int
	// The part of ReceiveBudget for one connection, at least 256 KiB; default 8 MiB.
	// While few connections have joined, each gets all of it on Join. Otherwise it
	// grows in steps with use.
	ReceiveLimit  int
	MaxLocalCalls int // calls made in this world that wait for the next Dispatch; default 4,096
	// Open requests of one connection. The limit holds once for requests that this side
	// makes, and once for the peer's requests that are answered later; default 64.
	MaxRequests int
	// Time limit of a [Request] that has none of its own, from a context or
	// ThenWithin; default 10 s; negative means no limit.
	RequestTime time.Duration
	// Messages of [Conn.SendMessage] that a connection runs in a second while others
	// wait; default 64.
	MessageRate float64
	MaxPosts    int // functions that wait for the next Dispatch; default 65,536

	// Limits of an address, which is an IPv4 address or a /64 of IPv6.
	//
	// A client counts for an address only once it has proven that it receives
	// packets there. Otherwise an attacker could forge an address and lock its owner
	// out. None of these limits apply to carriers without an address.
	//
	// RetryAbove is how many clients may be in their handshake before a new client must
	// first prove its address in response to a QUIC Retry (RFC 9000, section 8.1.2). The
	// default is a quarter of MaxHandshakes; negative means every client must prove its
	// address. A Retry costs the client a round trip. The server keeps no state for a Retry,
	// so forged first packets can't use more than RetryAbove places.
	//
	// Once four clients of one address have begun without a proof, further clients
	// of that address must also prove it. This ends when no packet has arrived from
	// the address for 10 to 20 s.
	RetryAbove int
	// MaxHandshakesPerAddress is how many clients of one address may be in their handshake;
	// negative means no limit except MaxHandshakes. By default an address may use as many
	// places as MaxHandshakes leaves free. A single address gets half of the places, so a party
	// of 64 behind one address can join at the same instant. Two addresses get a third each.
	//
	// At the limit, a new client takes the place of another client of the same address. It
	// takes the place of the client whose Hello and Login this side has awaited longest. If
	// there is none, it takes the place of the client whose Join this side has awaited
	// longest. If MaxHandshakes is reached, it takes the place of a client of the address
	// with the most places.
	//
	// A new client therefore finds a place unless all others are in QUIC's handshake or wait
	// for Authenticate. [Dial] tries again for a client that finds no place or loses it.
	MaxHandshakesPerAddress int
	// MaxConnsPerAddress is how many connections one address may have, including half-open
	// ones. The default of 256, whatever MaxConns is, allows for whole campuses and mobile
	// networks behind one address. Negative means no limit, for a test with many clients.
	MaxConnsPerAddress int
	// MaxLoginFailures is how many logins of an address may fail before later logins are
	// slowed down. The default of 8 allows for typing errors; negative means no limit.
	//
	// Later logins are admitted one at a time, the first after 250 ms. The intervals
	// then double up to 10 s, until no login has failed for 10 minutes. Between these
	// times, logins are refused with ServerFull without a call of Authenticate.
	// Tokens that Authenticate accepted before are still admitted.
	//
	// The number of an address's logins in Authenticate at any time is limited to the number
	// that may still fail. Other logins wait, and the wait counts towards HandshakeTimeout.
	//
	// Refuse known players who may not play, such as banned ones, in Login. That does not
	// count as a failed login, so it does not slow down others at the same address.
	MaxLoginFailures int

	// MaxConnsPerIdentity is how many connections one identity may have; 0 means no
	// limit. The empty identity has no limit.
	//
	// A further connection closes the oldest one with LoginElsewhere. A player who
	// reconnects after a crash therefore need not wait until the old connection times
	// out. The old connection ends once Authenticate has accepted the new one. Its
	// OnDisconnect runs before Login and OnConnect of the new connection.
	//
	// With RefuseLoginElsewhere, the new connection is refused with LoginElsewhere
	// instead. RefuseLoginElsewhere has no effect without a limit.
	MaxConnsPerIdentity  int
	RefuseLoginElsewhere bool

	// Rates at which this side sends, in bytes per second; 0 means no limit. They count
	// sealed packets, and datagrams without IP, UDP and QUIC overhead.
	//
	// As in Unreal, they limit only unreliable data. Acks, control messages, resends and
	// reliable calls are counted but always pass. Unreliable calls wait or are dropped: see
	// QueueUnreliable. Bulk (channels of priority Bulk, slices, sealed packets) gets the
	// rest, but at least one datagram per second. Use [RateLimit] to limit what a peer sends.
	Rate int // of one connection. UE: CurrentNetSpeed, MaxClientRate
	// Of all connections together. Connections with bulk share the rest equally.
	WorldRate int

	// QueueUnreliable queues unreliable Server and Client RPCs that can't be sent at
	// once. Without it, such an RPC is dropped while Rate is used up, or while a
	// call has waited for 66 ms. Multicasts are always queued.
	//
	// A connection's queue holds up to 256 KiB, or 32 KiB while a call has waited for
	// 66 ms. Each call counts as 64 bytes more than its size. To make room, the oldest
	// calls of the actor are dropped. A call of which no part was sent is dropped
	// after 200 ms plus a round trip, or up to half as long again.
	//
	// Call returns nil in all cases. [Conn.Stats] counts the drops as
	// Drops.Unreliable and Drops.Saturated.
	QueueUnreliable bool

	// MaxRPCPerNetUpdate is how often one unreliable Multicast of an actor is sent between
	// two of the actor's updates. An update is a Flush, at most as often as [UpdateRate]
	// allows. Further calls run on the server only, and Call returns nil. Each connection for
	// which the actor is open counts them in Drops.Throttled. UE: net.MaxRPCPerNetUpdate.
	//
	// 0 means no limit. Unreal's default is 2. Here the default is no limit, because
	// nobody expects the third call of a tick to be dropped. The memory of calls
	// that wait for a connection is bounded anyway.
	MaxRPCPerNetUpdate int

	// Sealed makes a connection send everything, calls and transfers, in sealed packets
	// instead of QUIC's datagrams. These are encrypted packets of our own format, on QUIC's
	// socket. They tolerate loss, jitter and long paths, on which QUIC's congestion control
	// collapses. QUIC remains in use for the handshake, keys and addresses.
	//
	// Both ends must set Sealed. If only one end does, QUIC carries everything, and
	// both logs say so. Rate and WorldRate limit both carriers.
	//
	// QUIC takes over again if no sealed packet was acknowledged for three probe timeouts
	// although the peer's packets arrive over QUIC. If bulk is in flight, a second must also
	// have passed without an ack. [Conn.Sealed] reports which of the two is in use.
	Sealed bool
	// NoJumbo limits the sealed packets that this end sends to 1,452 bytes, the
	// maximum that QUIC sends. It has no effect without Sealed.
	//
	// Without NoJumbo, bulk tries whether the path carries packets of 8,952 bytes, as
	// loopback and networks with jumbo frames do. Bulk uses them if it is faster than
	// 1.8 MB/s, or than 0.45 MB/s on a path where packets that are sent together arrive together.
	// Other traffic never uses them. [SealedStats] shows how large packets are.
	NoJumbo bool

	// Emulation emulates a bad network below the sockets of [Listen] and [Dial], for QUIC and
	// sealed packets. It is meant for development. UE: PktLag, PktLoss and the like.
	//
	// nil means no emulation, at no cost; [World.SetEmulation] then returns an error.
	// Otherwise SetEmulation changes the settings at any time. A game that wants to begin
	// without emulation sets &emulation.Settings{}. Packets are then still sent one by one.
	Emulation *emulation.Settings

	// Timers of QUIC. A client that has sent nothing for KeepAlive also asks for an ack. Its
	// packet is large enough for a restarted server to answer with a stateless reset.
	IdleTimeout time.Duration // default 30 s
	KeepAlive   time.Duration // default 10 s; negative means none

	// Bunch configures the reliable buffers (ReliableBuffer, MaxBunch, AckDelay, Overflow,
	// Trace …). The world sets Client, ReceiveLimit, KeepAlive, Rate and Random. IdleTimeout
	// defaults to the IdleTimeout above. TickRate documents the default of AckDelay.
	Bunch bunch.Config

	// Trace receives a trace of everything that is sent, in Perfetto's format, for
	// ui.perfetto.dev. The trace shows what calls wait for, the packets that carry them,
	// acks, losses and resends. At the other end it shows when calls arrived and ran. It also
	// shows queues, bytes in flight, rate and round trip time. Each world needs its own
	// writer. nil means no trace, at no cost. UE: -NetTrace, Networking Insights.
	//
	// A goroutine writes the trace from the first connection until [World.Close],
	// which writes the rest. If the writer is slow, events beyond 32,768 in memory
	// are dropped, and the trace says how many. An error of the writer ends the
	// trace. It is logged, and Close returns it.
	//
	// The trace contains names of methods and identities, but no arguments. It is
	// meant for development. An event takes 0.06 µs of the tick's time, 0.3 µs on
	// another core, and 45 bytes in the file.
	Trace io.Writer

	// Logger receives records at LogLevel and above; nil means no log. The level may change
	// at run time. To distinguish several worlds of one program, use logger.With("world",
	// "alice"). A client that dialed is also identified by conn.local, its own address.
	Logger   *slog.Logger
	LogLevel *slog.LevelVar // default Info
}

// minReceiveLimit is how many bytes of reliable messages a connection may hold before Join.
// It is also the minimum of the connection's limit after Join.
const minReceiveLimit = 256 << 10

// withDefaults returns a copy of c with defaults filled in.
//
// It does not fill in MaxHandshakesPerAddress. That default depends on the clients in
// their handshake, and package door applies it. Negative times, which mean none, become 0,
// and so does a negative RetryAbove. Other negative limits stay.
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
	// The upper bound keeps worldShares times DispatchTime from overflowing.
	c.DispatchTime = min(max(0, cmp.Or(c.DispatchTime, 2*time.Millisecond)), time.Hour)
	c.HandshakeTimeout = cmp.Or(c.HandshakeTimeout, 10*time.Second)
	c.HelloTimeout = min(cmp.Or(c.HelloTimeout, 2*time.Second), c.HandshakeTimeout)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, 30*time.Second)
	c.KeepAlive = max(0, cmp.Or(c.KeepAlive, 10*time.Second))
	c.Bunch.MaxBunch = cmp.Or(c.Bunch.MaxBunch, bunch.MaxBunchBytes)
	c.Bunch.IdleTimeout = cmp.Or(c.Bunch.IdleTimeout, c.IdleTimeout)
	c.Bunch.AckDelay = c.ackDelay()
	return c
}

// At tick rates from minAckTickRate to maxAckTickRate, a tick and a quarter is longer than
// the default AckDelay of 40 ms, and no longer than its maximum of 200 ms.
const minAckTickRate, maxAckTickRate = 7, 31

// ackDelay returns the value for Bunch.AckDelay; 0 means the default of package bunch.
//
// If the field is not set, and TickRate is from minAckTickRate to maxAckTickRate,
// ackDelay returns a tick and a quarter. Acks that wait this long are sent with the
// packets of the next tick.
func (c *Config) ackDelay() time.Duration {
	if c.Bunch.AckDelay != 0 || c.TickRate < minAckTickRate || c.TickRate > maxAckTickRate {
		return c.Bunch.AckDelay
	}
	return time.Second / time.Duration(c.TickRate) * 5 / 4
}

// minPeerIdle is the minimum IdleTimeout that quic-go assumes for a peer. If the peer's is
// shorter, quic-go sends keep-alives too rarely for that peer.
const minPeerIdle = 5 * time.Second

// pingTime returns how often this end sends a packet over QUIC while sealed packets
// are in use, so that QUIC does not time out; 0 means never. A ping costs both ends
// as much as two sealed messages.
//
// A client without a KeepAlive pings at least once a second, and one with a
// KeepAlive every 1 to 5 s. A server pings only if its own KeepAlive is off and its
// IdleTimeout is too short for the client's keep-alives.
func (c *Config) pingTime(server bool) time.Duration {
	switch {
	case server && (c.KeepAlive > 0 || c.IdleTimeout >= minPeerIdle):
		return 0
	case c.KeepAlive == 0:
		return min(c.IdleTimeout/4, time.Second)
	}
	return min(max(c.IdleTimeout/4, time.Second), 5*time.Second)
}

// validate returns an error for a value that is out of range. It is called after withDefaults.
func (c *Config) validate() error {
	negative := cmp.Or(
		notNegative("MaxConns", c.MaxConns),
		notNegative("MaxHandshakes", c.MaxHandshakes),
		notNegative("ReceiveBudget", c.ReceiveBudget),
		notNegative("ReceiveLimit", c.ReceiveLimit),
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
	if len(c.Token) > control.MaxToken {
		return fmt.Errorf("rpc: Config.Token has %d bytes, the limit is %d", len(c.Token), control.MaxToken)
	}
	if c.ReceiveBudget < minReceiveLimit {
		return fmt.Errorf("rpc: Config.ReceiveBudget is %d bytes, one connection needs %d",
			c.ReceiveBudget, minReceiveLimit)
	}
	if c.ReceiveLimit < minReceiveLimit {
		return fmt.Errorf("rpc: Config.ReceiveLimit is %d bytes, every connection has at least %d",
			c.ReceiveLimit, minReceiveLimit)
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
