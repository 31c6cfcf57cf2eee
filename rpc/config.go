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

// Config says what one world is and may use. A field that is zero takes the default named beside it; a negative one means
// none where that is said.
type Config struct {
	// Classes that both sides declare; the handshake compares their shapes. [Bind] adds its class by itself.
	Classes []*Class
	// OnConnect runs on the world's goroutine for every connection that has joined; on a client after Dial. On a server actors that are
	// [AlwaysRelevant] open for it only after that: what OnConnect gives it by SetOwner begins there as its own, without fields that are for others.
	// A Client RPC or a Multicast in OnConnect opens its actor before; what a call or a state names otherwise may open after it, see [WaitForActors].
	// So within OnConnect [Conn.Actor] is nil and [Actor.Channel] zero for those that have not opened yet: [Actor.OpenTo] opens one at once,
	// [OnOpenAcked] tells when the client has it.
	OnConnect func(*World, *Conn)
	// OnDisconnect runs on the world's goroutine once for every connection that had joined. When it has ended, OnDisconnect runs before
	// OnConnect of the next connection of the same identity, and on a client before that of any. One that is closing, for up to a second after
	// [Conn.Close], has not ended, and another may join beside it: a client that dials again waits for [Conn.Done] of the old one first, and
	// at a server MaxConnsPerIdentity 1 ends the old one first. The error is a *CloseError.
	OnDisconnect func(*World, *Conn, error)

	// OnMessage runs on the world's goroutine, in Dispatch, for every message that the other side sends by [Conn.SendMessage], in order.
	// payload is valid until it returns. On a server an error closes the connection with ValidationFailed; a client trusts its server,
	// and drops and counts the message. Without OnMessage all messages are dropped and counted. UE:
	// UGameInstance::HandleGameNetControlMessage.
	OnMessage func(w *World, c *Conn, id uint8, payload []byte) error

	// CheckGoroutine makes calls and questions, Spawn, Place on a server, Destroy, SetOwner, and what else says who has an actor, panic on another
	// goroutine than the one that drove the world last. Before the first Dispatch each may prepare the world. A check takes some 10 µs, as
	// much as the calls of a whole tick: for development, where the race detector is too slow for the game. Off it costs nothing. UE:
	// check(IsInGameThread()).
	CheckGoroutine bool

	// OnPanic is told of every panic in a function of the game: handlers, checks, hooks, constructors, posts, Validate,
	// UnmarshalBinary, Authenticate, Login, and those of package stream's transfers: handlers, OnBatch, OnEnd, Readers, Stores,
	// elements' encodings. function names it, as the log does: "Player.Fire", or `blob "savegame": the handler`. The world goes on.
	// The connection whose call panicked was closed with HandlerPanic, without delivering anything more, and with a reason that
	// names the function. A transfer fails alone, with stream.ErrPanicked, and its connection goes on. conn is nil for posts, OnTick
	// hooks and calls that were made in this world. OnPanic runs on the goroutine that panicked, which is the world's, that of
	// Authenticate, or one of package stream: so it may run twice at once. A panic in OnPanic goes on, as every panic does when
	// OnPanic is nil: out of Dispatch, Flush, Tick or Run. When the simulation itself calls Spawn, Place or Destroy, a panic in a
	// constructor, set or OnClose goes on out of that call. A caller that recovers may drive the world on: everything but the
	// function that panicked still runs, once. A panic that goes on out of Authenticate, or out of a goroutine of package stream,
	// ends the program: nobody can recover it.
	OnPanic func(conn *Conn, function string, recovered any, stack []byte)

	// Authenticate turns the client's token into an identity or refuses it. It runs on a goroutine of its own, within
	// HandshakeTimeout. nil accepts everybody, with an empty identity. The client reads the error. One that is or wraps a Temporary
	// [*CloseError], as of code ServerFull, or ErrBacklogFull, says that the token cannot be checked now: it is no failed login, and the
	// client, which is told that code, or ServerFull, and the reason, may come again. One that panics or ends its goroutine is no failed
	// login either; it closes the connection with HandlerPanic.
	Authenticate func(ctx context.Context, token []byte) (identity string, err error)
	// Login runs on the world's goroutine after Authenticate has accepted a client, and before the server welcomes it. It may spawn
	// actors that the client is to own: they open right after its Join, before anything that OnConnect sends. Or it refuses the
	// client with an error, as Authenticate does. [Conn.Identity] is known. OnDisconnect has run for connections of that identity
	// that have ended, so Login may load what it saved. Until OnConnect nothing can be sent to the client: Client RPCs to it are
	// errors. If it is refused or never joins, its actors are destroyed, also those that SetOwner gave it, and OnDisconnect does not
	// run: OnConnect is the place to give back what it left. Login counts as part of HandshakeTimeout, so a world that does not tick lets
	// nobody in. UE: PreLogin is Authenticate, Login is Login, PostLogin is OnConnect.
	Login func(*World, *Conn) error
	// Token is presented by a client to the server's Authenticate: any bytes, at most 4 KiB. Every server to which the world connects
	// reads it, and no Dial has another: who has a ticket for one server, or a secret that another must not see, makes a world for each.
	Token []byte

	// ExplainMismatch makes a server send its classes, methods and fields to a client whose own differ, before any login, so
	// that both logs say how many classes each end has, and name the first difference. Without it they show only the two hashes. For
	// development.
	ExplainMismatch bool

	// TickRate makes Run tick that often a second, besides on events. 0 = events only. From 7 to 31 it also raises the default of
	// Bunch.AckDelay from 40 ms to a tick and a quarter, so that acks ride on what the next tick sends and need no packets of their
	// own; a game that calls Tick itself at such a rate sets Bunch.AckDelay.
	TickRate int

	// DispatchTime is how long the handlers of one connection may run in a Dispatch while others have calls, too; default 2 ms,
	// negative = no limit. A connection that is alone may take four times as long, all together twelve times. A call that has
	// begun is not interrupted. What is left waits, in order, for the next Dispatch, and stops its sender when it fills
	// ReceiveLimit: see [Stats].Deferred. Connections of which nothing was left go first.
	DispatchTime time.Duration

	// DoS finds the clients of a server whose calls cost too much, blocks calls that they repeat, and in the end closes them with
	// RPCDoS: dos.Default() is a profile to begin with. With it the time of each handler is measured, and [Stats] has Methods.
	// nil = off. UE: bRPCDoSDetection.
	DoS *dos.Profile

	// Limits of a world.
	MaxConns         int           // connections, half-open ones included; default 1,024
	MaxHandshakes    int           // clients in their handshake, from their first packet to Join; default 128
	HandshakeTimeout time.Duration // from the carrier to Join; default 10 s
	HelloTimeout     time.Duration // from the carrier to the client's Hello, which an honest client sends at once; default 2 s, at most HandshakeTimeout
	ReceiveBudget    int           // bytes that reliable messages of all connections may hold here until they run; default 512 MiB
	ReceiveLimit     int           // bytes of that for one connection: from Join on while few have joined, else as it uses them; at least 256 KiB, default 8 MiB
	MaxLocalCalls    int           // calls made in this world that wait for the next Dispatch; default 4,096
	MaxRequests      int           // open requests of a connection that this side asked, and as many that it will answer later; default 64
	RequestTime      time.Duration // how long a [Request] may take that has no limit of its own, a context's deadline or ThenWithin's; default 10 s, negative = any time
	MessageRate      float64       // messages of [Conn.SendMessage] that a connection runs in a second, while others wait; default 64
	MaxPosts         int           // functions that wait for the next Dispatch; default 65,536

	// Limits of an address, which is an IPv4 address or a /64 of IPv6. A client counts for an address once it has proven that it
	// receives there, so that nobody can forge an address and lock its owner out. Carriers without an address have none of these.
	//
	// RetryAbove is how many clients may be in their handshake before a new one must first prove its address by a QUIC Retry (RFC
	// 9000, section 8.1.2). That costs it a round trip, and this side keeps no state for it, so forged first packets take no more
	// room than this. Default a quarter of MaxHandshakes; negative = every client must prove its address. Once four clients of
	// one address have begun without a proof, the next ones from there must prove it too, until it has been quiet for 10 to 20 s.
	RetryAbove int
	// MaxHandshakesPerAddress is how many clients of one address may be in their handshake. By default it is as many as MaxHandshakes
	// leaves free: one address gets half, so that a party of 64 behind one address can join in the same instant; two get a third
	// each. At the limit a new client takes the place of the one, of the same address, on whose Hello and Login this side has waited
	// longest, or else on whose Join. When MaxHandshakes is reached, it is one of the address that has most. So a new client
	// finds room unless all others are in QUIC's handshake or wait for Authenticate. [Dial] comes again for who finds none, or has lost
	// its place. Negative = no limit but MaxHandshakes.
	MaxHandshakesPerAddress int
	// MaxConnsPerAddress is how many connections one address may have, half-open ones included. The default of 256, whatever
	// MaxConns is, lets whole campuses and mobile networks play behind one address; negative = no limit, for a test with many clients.
	MaxConnsPerAddress int
	// MaxLoginFailures is how many logins of an address may fail before later ones are slowed down: one at a time, 250 ms
	// after the first, doubling up to 10 s, until none has failed for 10 minutes. Meanwhile others are refused by ServerFull, without asking
	// Authenticate, except for tokens that were right before. At any time Authenticate is asked about no more logins of an address
	// than may still fail; others wait, as part of HandshakeTimeout. Who is known and may not come in, as one who is banned, is for Login to
	// refuse: that is no failed login, and slows down no neighbour. Default 8, for typing errors; negative = no limit.
	MaxLoginFailures int

	// MaxConnsPerIdentity is how many connections one identity may have. One more closes the oldest with LoginElsewhere, so a player
	// who reconnects after a crash need not wait for the timeout of the old connection. The old one ends once Authenticate has
	// accepted the new one: OnDisconnect of the old runs before Login and OnConnect of the new. With RefuseLoginElsewhere, which
	// changes nothing without a limit, the new one is refused with that code instead. 0 = no limit. The empty identity has no limit.
	MaxConnsPerIdentity  int
	RefuseLoginElsewhere bool

	// Rates at which this side sends, in bytes a second of datagrams, without IP, UDP and QUIC overhead, and of sealed packets;
	// 0 = no limit. As in Unreal they hold back what is not reliable: acks, control, resends and reliable calls pass and are
	// counted, unreliable calls wait or are dropped (QueueUnreliable), and bulk (channels of priority Bulk, slices, sealed packets)
	// takes what is left, at least a datagram a second. [RateLimit] bounds what a peer sends.
	Rate      int // of one connection. UE: CurrentNetSpeed, MaxClientRate
	WorldRate int // of all connections together; those with bulk share equally what is left for it

	// QueueUnreliable queues unreliable calls that cannot leave at once, as every Multicast is queued: up to 256 KiB a connection, 64
	// bytes a call included, or 32 KiB while one has waited for 66 ms; the oldest of an actor make room. One that has waited for 200
	// ms and a round trip, or half as long again, and of which nothing has left, is dropped. Without QueueUnreliable a Server or Client
	// RPC is dropped while Rate is used up, or while a call has waited for 66 ms. Call returns nil in all cases: [Conn.Stats] counts the
	// drops, as Drops.Unreliable and Drops.Saturated.
	QueueUnreliable bool

	// MaxRPCPerNetUpdate is how often one unreliable Multicast of an actor leaves between two of its updates, which are Flushes at least
	// as far apart as [UpdateRate] says. Further calls run on the server only; each connection for which the actor is open counts them
	// in Drops.Throttled, and Call returns nil. 0 = no limit: nobody expects that the third call of a tick is thrown away, and what
	// waits for a connection is bounded anyway. Unreal's default is 2. UE: net.MaxRPCPerNetUpdate.
	MaxRPCPerNetUpdate int

	// Sealed makes all that a connection sends, calls and transfers, travel in sealed packets of our own, beside QUIC's on the same
	// socket, if the peer has it too. They bear loss, jitter and long paths, on which QUIC's congestion control collapses. QUIC
	// remains for the handshake, keys and addresses. It carries again when no sealed packet was acknowledged for three probe
	// timeouts, and for a second while bulk is under way, although the peer is heard over QUIC: [Conn.Sealed] says which carries.
	// Where only one end has set it QUIC carries all, and both logs say so. Rate and WorldRate hold for both.
	Sealed bool
	// NoJumbo keeps the sealed packets that this end sends at 1,452 bytes, the most that QUIC sends. Without it bulk that is faster
	// than 1.8 MB/s, or than 0.45 where packets that leave together arrive together, tries whether the path carries packets of 8,952
	// bytes, as loopback and networks with jumbo frames do, and then travels in those; play never does. It changes nothing where
	// Sealed is off. [SealedStats] shows how large packets are.
	NoJumbo bool

	// Emulation puts a bad network in front of the sockets of [Listen] and [Dial], for both carriers; [World.SetEmulation] changes it
	// at any time, unless it is nil: then there is none, at no cost. Otherwise packets leave one by one, also with &emulation.Settings{}, for
	// a game that begins without. For development. UE: PktLag, PktLoss and the like.
	Emulation *emulation.Settings

	// Timers of QUIC. A client that has had nothing to say for KeepAlive also asks for an ack, by a packet that is large enough for
	// a server that was restarted to tell it so.
	IdleTimeout time.Duration // default 30 s
	KeepAlive   time.Duration // default 10 s; negative = none

	// Bunch configures the reliable buffers (ReliableBuffer, MaxBunch, AckDelay, Overflow, Trace …). Client, ReceiveLimit, KeepAlive, Rate and
	// Random are set by the world. The default of its IdleTimeout is that of the Config; that of its AckDelay is said at TickRate.
	Bunch bunch.Config

	// Trace is written a trace of all that travels, in Perfetto's format, for ui.perfetto.dev: what calls wait for, the packets that
	// they leave in, acks, losses and resends; at the other end, when calls arrived and ran; queues, bytes in flight, rate and round
	// trip time. nil = none, at no cost. Each world needs a writer of its own. A goroutine writes from the first connection on until
	// [World.Close], which writes the rest. When the writer is slow, events beyond 32,768 in memory are missing from the trace, which
	// says how many. An error of the writer ends the trace: it is logged, and Close returns it. The trace has names of methods and
	// identities, but no arguments. For development: an event costs 0.06 µs of the tick's time, 0.3 µs of another core's, and 45 B in
	// the file. UE: -NetTrace, Networking Insights.
	Trace io.Writer

	// Logger receives records at LogLevel and above; nil = none. Level may change at run time. Where a program has several worlds,
	// logger.With("world", "alice") tells them apart; clients of Dial are also known by conn.local, their own address.
	Logger   *slog.Logger
	LogLevel *slog.LevelVar // default Info
}

// minReceiveLimit is how many bytes a connection may hold before Join, and the least that it may hold after it.
const minReceiveLimit = 256 << 10

// withDefaults fills in the defaults, except that of MaxHandshakesPerAddress, which depends on who is there: door has it. Times that are negative for
// none become 0, and so does RetryAbove; the limits that are negative for none stay so.
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

// At tick rates from leastRideRate to mostRideRate a tick and a quarter is longer than the 40 ms for which acks wait otherwise, and no longer
// than the 200 ms for which they may.
const leastRideRate, mostRideRate = 7, 31

// ackDelay returns Bunch.AckDelay: by default it is as long as acks must wait to ride on the packets of ticks; 0 = the default of package bunch.
func (c *Config) ackDelay() time.Duration {
	if c.Bunch.AckDelay != 0 || c.TickRate < leastRideRate || c.TickRate > mostRideRate {
		return c.Bunch.AckDelay
	}
	return time.Second / time.Duration(c.TickRate) * 5 / 4
}

// leastPeerIdle is what quic-go takes a peer's IdleTimeout for when that is shorter. The keep-alives of the other end are then too rare.
const leastPeerIdle = 5 * time.Second

// pingTime is how often sealed traffic has this end send a packet over QUIC, which costs both ends as much as two sealed messages; 0 = never. A
// client pings each second when nothing else keeps QUIC from going idle, else more seldom. A server pings only when its own KeepAlive is off and
// its IdleTimeout too short for the client's.
func (c *Config) pingTime(server bool) time.Duration {
	switch {
	case server && (c.KeepAlive > 0 || c.IdleTimeout >= leastPeerIdle):
		return 0
	case c.KeepAlive == 0:
		return min(c.IdleTimeout/4, time.Second)
	}
	return min(max(c.IdleTimeout/4, time.Second), 5*time.Second)
}

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

// notNegative returns an error if a field's value is negative, or not a number.
func notNegative[T int | float64 | time.Duration](field string, value T) error {
	if !(value >= 0) {
		return fmt.Errorf("rpc: Config.%s is %v, must not be negative", field, value)
	}
	return nil
}
