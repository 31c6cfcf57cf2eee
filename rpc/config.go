package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/badnet"
	"github.com/quivernet/quiver/internal/control"
	"github.com/quivernet/quiver/rpc/dos"
	"github.com/quivernet/quiver/rpc/emulation"
)

// Config holds what one world is and may use. Zero fields take the default named beside them; negative ones mean none
// where that is said.
type Config struct {
	// Classes that both sides declare. Their shapes are compared in the handshake. [Bind] adds its class by itself.
	Classes []*Class
	// OnConnect runs on the world's goroutine for every connection that has joined; on a client after Dial.
	OnConnect func(*World, *Conn)
	// OnDisconnect runs on the world's goroutine once for every connection that had joined, and before OnConnect of a later one that is of
	// the same identity, or a client's. The error is a *CloseError.
	OnDisconnect func(*World, *Conn, error)

	// OnMessage runs on the world's goroutine for every message that the other side sends by [Conn.SendMessage], in their order, in the
	// connection's turns of Dispatch. payload is valid until it returns. On a server its error closes the connection with
	// ValidationFailed; a client trusts its server more than itself, and drops and counts the message. Without OnMessage all are dropped
	// and counted. UE: UGameInstance::HandleGameNetControlMessage.
	OnMessage func(w *World, c *Conn, id uint8, payload []byte) error

	// OnPanic hears of every panic in a function of the game: handlers, checks, hooks, constructors, posts, Validate,
	// UnmarshalBinary, Authenticate, Login. The connection whose call panicked has then been closed with HandlerPanic, without
	// delivering anything more, and with a reason that names the function, as the log does; the world goes on. conn is nil
	// for posts, OnTick hooks and calls that were made in this world. It runs on the goroutine that panicked, which is the
	// world's, that of Authenticate, or one of package stream's: so it may run twice at once. A panic of its own goes on, as every panic does while
	// OnPanic is nil: out of Dispatch, Flush, Tick or Run. What Spawn, Place or Destroy run when the simulation itself calls them,
	// constructors, set and OnClose, panics out of that call. Who recovers there may drive the world on; all but the call that
	// panicked still runs, once. A panic that goes on out of Authenticate ends the program: nobody can recover it.
	OnPanic func(conn *Conn, recovered any, stack []byte)

	// Authenticate turns the client's token into an identity or refuses it. It runs on a goroutine of its own, within
	// HandshakeTimeout; nil accepts everybody with an empty identity.
	Authenticate func(ctx context.Context, token []byte) (identity string, err error)
	// Login runs on the world's goroutine when Authenticate has accepted a client and before that is welcomed: it may spawn what
	// the client is to own, whose opens come right behind its Join and before all that OnConnect sends, or refuse it with an error,
	// which the client reads. [Conn.Identity] is known, and OnDisconnect has run for who had it before and has ended. Until OnConnect nothing can be sent to the client, and Client RPCs to
	// it are errors; when it never joins, what it owns is destroyed, and OnDisconnect does not run. It counts as part of
	// HandshakeTimeout, so a world that does not tick lets nobody in. UE: PreLogin is Authenticate, Login is Login, PostLogin is
	// OnConnect.
	Login func(*World, *Conn) error
	// Token is what a client presents; opaque, at most 4 KiB.
	Token []byte

	// ExplainMismatch makes a server send its classes, methods and fields to a client whose own differ, before any login, so
	// that both logs name the first difference. Without it they say the two hashes only. For development.
	ExplainMismatch bool

	// TickRate makes Run tick that often a second, besides on events. 0 = events only.
	TickRate int

	// DispatchTime is how long the handlers of one connection may take in a Dispatch for which others have calls, too;
	// default 2 ms, negative = no end. It may be four times that when no other has any, and twelve times for all together.
	// A call that has begun is not interrupted. What is left waits, in order, for the next Dispatch, and holds its sender up
	// once it is ReceiveLimit: see [Stats].Deferred. Connections of which nothing was left go first.
	DispatchTime time.Duration

	// DoS finds the clients of a server whose calls cost too much, blocks what they repeat, and closes them with RPCDoS in the end:
	// dos.Default() is a profile to begin with. With one, the time of each handler is measured, and [Stats] has Methods. nil = off.
	// UE: bRPCDoSDetection.
	DoS *dos.Profile

	// Limits of a world.
	MaxConns         int           // connections, half-open ones included; default 1,024
	MaxHandshakes    int           // clients on the way in, from their first packet to Join; default 128
	HandshakeTimeout time.Duration // from the carrier to Join; default 10 s
	HelloTimeout     time.Duration // of it, to the client's Hello, which honest ones send at once; default 2 s
	ReceiveBudget    int           // bytes that reliable messages of all connections may hold here until they run; default 512 MiB
	ReceiveLimit     int           // of it, bytes for one connection, from Join on while few have joined, else with use; at least 256 KiB, default 4 MiB
	MaxLocalCalls    int           // calls that wait for the next Dispatch; default 4,096
	MaxRequests      int           // open requests of a connection that this side asked, and as many that it is to answer later; default 64
	RequestTime      time.Duration // how long a [Request] may take whose context says nothing; default 10 s, negative = any time
	MessageRate      float64       // messages a second that a connection runs of its peer's [Conn.SendMessage], which waits; default 64
	MaxPosts         int           // functions that wait for the next Dispatch; default 65,536

	// Limits of an address: an IPv4 address, or a /64 of IPv6. It counts once the client has proven that it receives there, so
	// that nobody who forges it locks its owner out. Carriers without an address have none of these limits.

	// RetryAbove is how many clients may be on the way in before a new one must first prove its address by a QUIC Retry, which
	// costs it a round trip and this side nothing that lasts: forged first packets find room no further. Default a quarter
	// of MaxHandshakes; negative = none: every client proves it.
	RetryAbove int
	// MaxHandshakesPerAddress is how many clients of one address may be on the way in. Default as many as are still free of
	// MaxHandshakes, which also bounds what is set here: one address alone gets half of them, so that a party of 64 behind one
	// address joins in the same instant, and two get a third each. At the limit, the client of that address that has been
	// waited for longest makes room: for its Hello and Login, or for its Join. When all of MaxHandshakes is taken, it is one of
	// the address that has most; so a new one finds room unless all others are in QUIC's handshake or wait for Authenticate.
	// Negative = no limit.
	MaxHandshakesPerAddress int
	// MaxConnsPerAddress is how many connections one address may have, half-open ones included. The default of 256, a quarter of
	// MaxConns, lets whole campuses and carriers play behind one address; negative = no limit, for tests with a crowd on one host.
	MaxConnsPerAddress int
	// MaxLoginFailures is how many logins of an address may fail before the next ones are slowed down: one at a time, 250 ms
	// after the first, doubling up to 10 s, until none has failed for 10 minutes. Others are refused meanwhile without asking
	// Authenticate, but for tokens that were right before. No more are asked about at once than may still fail: further ones of
	// the address wait, as part of HandshakeTimeout. Default 8: typing errors; negative = no limit.
	MaxLoginFailures int

	// MaxConnsPerIdentity is how many connections one identity may have, so that who reconnects after a crash does not wait for
	// the timeout of the old connection. One more closes the oldest with LoginElsewhere as soon as Authenticate has accepted it: Login
	// and OnConnect of the new one run behind the old one's OnDisconnect, and may load what that saved. With RefuseLoginElsewhere it is
	// refused with that code instead. 0 = no limit. The empty identity has none.
	MaxConnsPerIdentity  int
	RefuseLoginElsewhere bool

	// Bandwidth that this side sends with, in bytes a second, datagrams without IP, UDP and QUIC overhead, and sealed packets;
	// 0 = no limit. As in Unreal it holds back what is not reliable: acks, control, resends and reliable calls pass and are
	// counted, unreliable data waits or is dropped (QueueUnreliable), bulk on channels of priority Bulk, slices and sealed
	// packets take what is left, and at least a datagram a second. What a peer sends is for [RateLimit] to bound.
	Rate      int // of one connection. UE: CurrentNetSpeed, MaxClientRate
	WorldRate int // of all connections together; those with bulk have equal shares of what is left for it

	// QueueUnreliable queues unreliable calls that would wait, as a Multicast always is: up to 256 KiB a connection, 64 bytes
	// for each included, and 32 KiB once some has waited for 66 ms; the oldest of an actor make room. Without it a Server or
	// Client RPC is dropped while the Rate is used up, or some has waited for 66 ms. Call returns nil all the same: [Conn.Stats]
	// counts both, as Drops.Saturated and Drops.Unreliable.
	QueueUnreliable bool

	// MaxRPCPerNetUpdate is how often one unreliable Multicast of an actor leaves between two of its updates, which are Flushes at least
	// as far apart as [UpdateRate] says; further ones are dropped, and counted in Drops.Throttled of each connection for which the actor
	// is open, though Call returns nil, and run on the server. 0 = no limit: nobody, whether he comes from Unreal or not, expects that a
	// third call of a tick is thrown away, and what waits for a connection is bounded anyway. 2 is Unreal's. UE: net.MaxRPCPerNetUpdate.
	MaxRPCPerNetUpdate int

	// Sealed has all that a connection sends travel in sealed packets of our own beside QUIC's on the same socket, when the
	// peer has it too: calls, and what stream moves. They live with loss, jitter and long paths, where QUIC's congestion
	// control collapses. QUIC stays for the handshake, keys and addresses, and takes over when nothing sealed was acknowledged
	// for three probe timeouts, and a second while bulk is under way, though the peer is heard over QUIC: [Conn.Sealed] tells. Rate and WorldRate hold for both.
	Sealed bool

	// Emulation puts a bad network before the sockets of [Listen] and [Dial], for both carriers; [World.SetEmulation] changes it at
	// any time. nil = none, at no cost; with one packets leave one by one. For development. UE: PktLag, PktLoss and their like.
	Emulation *emulation.Settings

	// Timers of QUIC.
	IdleTimeout time.Duration // default 30 s
	KeepAlive   time.Duration // default 10 s; negative = none

	// Bunch configures the reliable buffers (ReliableBuffer, MaxBunch, AckDelay, Overflow, Trace …). Client,
	// ReceiveLimit, Rate and Random are set by the world.
	Bunch bunch.Config

	// Trace takes a trace of all that travels, in Perfetto's format, for ui.perfetto.dev: what calls wait for, the packets that they
	// leave in, acks, losses and resends; at the other end, when calls arrived and ran; queues, bytes in flight, rate and round trip
	// time. nil = none, at no cost. A writer is for one world. Writes come from a goroutine of its own, which begins with the first
	// connection and ends in [World.Close]: that writes what is left. What a slow writer does not take in time, beyond 32,768 events
	// in memory, is missing from the trace, which says how much. An error ends the trace: it is in the log, and Close returns it.
	// Names of methods and identities are in it, arguments are not. For development: 0.06 µs of the tick's time an event, 0.3 µs of
	// another core's, and 45 B in the file. UE: -NetTrace, Networking Insights.
	Trace io.Writer

	// Logger receives records at LogLevel and above; nil = none. Level may change at run time.
	Logger   *slog.Logger
	LogLevel *slog.LevelVar // default Info
}

const (
	// minReceiveLimit is what a connection may hold before Join, and at least after it.
	minReceiveLimit = 256 << 10
)

func (c *Config) maxConns() int      { return defaulted(c.MaxConns, 1024) }
func (c *Config) maxHandshakes() int { return defaulted(c.MaxHandshakes, 128) }
func (c *Config) retryAbove() int {
	if c.RetryAbove == 0 {
		return max(1, c.maxHandshakes()/4)
	}
	return min(max(0, c.RetryAbove), c.maxHandshakes())
}
func (c *Config) maxConnsPerAddress() int { return defaulted(c.MaxConnsPerAddress, 256) }
func (c *Config) maxLoginFailures() int   { return defaulted(c.MaxLoginFailures, 8) }
func (c *Config) receiveBudget() int      { return defaulted(c.ReceiveBudget, 512<<20) }
func (c *Config) receiveLimit() int       { return defaulted(c.ReceiveLimit, 4<<20) }
func (c *Config) maxBunch() int           { return defaulted(c.Bunch.MaxBunch, bunch.MaxBunchBytes) }
func (c *Config) maxLocalCalls() int      { return defaulted(c.MaxLocalCalls, 4096) }
func (c *Config) maxRequests() int        { return defaulted(c.MaxRequests, 64) }
func (c *Config) requestTime() time.Duration {
	return max(0, defaulted(c.RequestTime, 10*time.Second))
}
func (c *Config) messageRate() float64 {
	if c.MessageRate == 0 {
		return 64
	}
	return c.MessageRate
}
func (c *Config) maxPosts() int { return defaulted(c.MaxPosts, 65536) }

func (c *Config) dispatchTime() time.Duration {
	return min(max(0, defaulted(c.DispatchTime, 2*time.Millisecond)), time.Hour) // all together may take several times that
}
func (c *Config) handshakeTimeout() time.Duration {
	return defaulted(c.HandshakeTimeout, 10*time.Second)
}
func (c *Config) helloTimeout() time.Duration {
	return min(defaulted(c.HelloTimeout, 2*time.Second), c.handshakeTimeout())
}
func (c *Config) idleTimeout() time.Duration { return defaulted(c.IdleTimeout, 30*time.Second) }
func (c *Config) keepAlive() time.Duration {
	return max(0, defaulted(c.KeepAlive, 10*time.Second))
}

// defaulted returns value, or fallback when value is zero.
func defaulted[T int | time.Duration](value, fallback T) T {
	if value == 0 {
		return fallback
	}
	return value
}

func (c *Config) validate() error {
	for _, limit := range []struct {
		name  string
		value int
	}{
		{"MaxConns", c.MaxConns}, {"MaxHandshakes", c.MaxHandshakes}, {"ReceiveBudget", c.ReceiveBudget},
		{"ReceiveLimit", c.ReceiveLimit}, {"MaxLocalCalls", c.MaxLocalCalls}, {"MaxPosts", c.MaxPosts},
		{"Rate", c.Rate}, {"WorldRate", c.WorldRate}, {"TickRate", c.TickRate},
		{"MaxConnsPerIdentity", c.MaxConnsPerIdentity}, {"MaxRPCPerNetUpdate", c.MaxRPCPerNetUpdate}, {"MaxRequests", c.MaxRequests},
	} {
		if limit.value < 0 {
			return fmt.Errorf("rpc: Config.%s is %d, must not be negative", limit.name, limit.value)
		}
	}
	for _, timeout := range []struct {
		name  string
		value time.Duration
	}{
		{"HandshakeTimeout", c.HandshakeTimeout}, {"HelloTimeout", c.HelloTimeout}, {"IdleTimeout", c.IdleTimeout},
	} {
		if timeout.value < 0 {
			return fmt.Errorf("rpc: Config.%s is %v, must not be negative", timeout.name, timeout.value)
		}
	}
	if c.Emulation != nil {
		if _, _, err := badnet.Links(*c.Emulation); err != nil {
			return err
		}
	}
	if !(c.MessageRate >= 0) {
		return fmt.Errorf("rpc: Config.MessageRate is %v, must not be negative", c.MessageRate)
	}
	if len(c.Token) > control.MaxToken {
		return fmt.Errorf("rpc: Config.Token has %d bytes, the limit is %d", len(c.Token), control.MaxToken)
	}
	if c.ReceiveBudget != 0 && c.ReceiveBudget < minReceiveLimit {
		return fmt.Errorf("rpc: Config.ReceiveBudget is %d bytes, one connection needs %d", c.ReceiveBudget, minReceiveLimit)
	}
	if c.ReceiveLimit != 0 && c.ReceiveLimit < minReceiveLimit {
		return fmt.Errorf("rpc: Config.ReceiveLimit is %d bytes, every connection has at least %d", c.ReceiveLimit, minReceiveLimit)
	}
	if _, err := bunch.NewConn(time.Unix(0, 0), c.Bunch); err != nil {
		return errors.Join(errors.New("rpc: Config.Bunch is not valid"), err)
	}
	return nil
}
