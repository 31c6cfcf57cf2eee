package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/bell"
	"github.com/quivernet/quiver/internal/budget"
	"github.com/quivernet/quiver/internal/door"
	"github.com/quivernet/quiver/internal/drops"
	"github.com/quivernet/quiver/internal/extend"
	"github.com/quivernet/quiver/internal/link"
	"github.com/quivernet/quiver/internal/logs"
	"github.com/quivernet/quiver/internal/quicconn"
	"github.com/quivernet/quiver/internal/refs"
	"github.com/quivernet/quiver/internal/statnet"
	"github.com/quivernet/quiver/internal/trace"
)

// A Conn is a connection to one peer. UE: UNetConnection.
//
// Its methods are safe for concurrent use, except [Conn.Actor], [Conn.View], [Conn.SetView],
// [Conn.SetViewPoint] and [Conn.ServerTime]. Call those on the world's goroutine.
//
// A [Call] that was made in this world has a nil *Conn. On a nil *Conn, String
// returns "no conn", Identity, RemoteAddr and RTT return zero values, Close does
// nothing, and SendMessage returns an error.
type Conn struct {
	world  *World
	id     uint64 // unique in its world
	server bool   // this end is the server's

	// The link and the machines that it drives. They are set before other goroutines
	// know the connection.
	carrier  link.Carrier   // QUIC, or the carrier given to Attach
	link     *link.Link     // has its own lock
	machine  *bunch.Conn    // under link.Lock, except Waited
	sealed   *sealedCarrier // nil = this side has none
	trace    *trace.Tap     // nil = no Config.Trace
	extended extend.Conn    // machines that package stream added

	// The state of the connection. Safe for concurrent use.
	loginAsked atomic.Bool // server: Config.Login runs or has run, and identity is set
	joined     atomic.Bool
	closing    atomic.Bool                // this side has closed: nothing more is dispatched or sent
	cause      atomic.Pointer[CloseError] // why this side closed; set by the first caller of stop
	ended      atomic.Bool                // the link has ended; written under lobby.mu
	// The login was refused, and the refusal is logged. finish then doesn't also log
	// a failed handshake.
	refused atomic.Bool
	done    chan struct{}  // closed when both carriers have ended; OnDisconnect may not have run yet
	gone    chan struct{}  // closed when all goroutines have ended and all sockets are closed
	work    sync.WaitGroup // the connection's goroutines, which end soon after the link
	called  atomic.Bool    // the connection is in World.callers

	// Calls. Used only by the world's goroutine, except for mail.out (under the
	// link's lock) and the counters of times (atomic). watched is written under
	// World.dos.mu; other goroutines read it under that lock.
	admitted bool         // the connection is in World.announced
	active   bool         // the connection is in frame.active
	corked   bool         // messages that are sent now wait for Flush
	waiting  waitingCalls // client: calls that wait for the actors that they name
	turn     turn         // the connection's part of a Dispatch
	requests requests
	mail     mail                      // messages of the game on the control channel
	limits   map[*method]budget.Bucket // of Server RPCs with a RateLimit
	watched  *watched                  // server: nil = no Config.DoS
	times    times
	lateWarn logs.Gate // limits the warnings that messages wait for a turn

	// channels is written by the world's goroutine under mu. The world's goroutine reads it
	// without the lock, and other goroutines read it with the lock.
	mu       sync.Mutex
	channels map[uint64]*Actor // actors by channel
	last     lastActor         // cache of actorOf; used only by the world's goroutine

	// Actors. Used only by the world's goroutine.
	copies copies // client
	shown  shown  // server

	// The handshake. Written before joined is set.
	visit *visit // the connection's place among the handshakes, set by enlist; its fields are under lobby.mu
	// Connections whose OnDisconnect runs before OnConnect of this one: see
	// lobby.claim and endedBefore.
	replaced      []*Conn
	identity      string        // written under lobby.mu; read without it once loginAsked or joined is set
	welcomed      chan struct{} // closed when joined
	handshakeWake bell.Bell     // wakes runHandshake when a handshake message arrives
	maxBunch      int           // maximum message size in bytes, by the limits of both ends
	peerSeals     atomic.Bool   // the peer has Config.Sealed; safe for concurrent use

	// Budgets and counters. Safe for concurrent use.
	allowance *budget.Allowance // the connection's part of Config.Rate and WorldRate
	reserved  atomic.Int64      // bytes reserved from Config.ReceiveBudget
	drops     drops.Counters
	deferred  atomic.Uint64   // for Stats: Dispatches that left messages of this connection for the next one
	rates     statnet.Sampler // for Stats: rates of the last second
}

// shown lists the actors that a client has, and the actors that it is about to get
// or to lose. It is used on a server.
type shown struct {
	// Actors that the connection itself owns. Actors owned by these actors are not listed.
	owned    actors
	openings map[*Actor]*opening // actors that are open for the client
	// The openings for which OnOpenAcked runs once the client has acknowledged the open.
	unacked []*opening
	view    view        // from where the client sees
	state   stateOutbox // states of open actors
	// The client's copies without a channel, dormant or placed, and the reason of
	// their last close. The reason is never Destroyed.
	detached   map[*Actor]CloseReason
	dismissals []dismissal // copies that must end and that wait for a free channel
	// Channels that were closed here and may still be open at the client.
	closedChannels closedChannels // guarded by the link's lock
	openWarn       logs.Gate      // limits the warnings that an actor could not be opened, to one a second
}

func newShown() shown {
	return shown{
		openings:       make(map[*Actor]*opening),
		detached:       make(map[*Actor]CloseReason),
		closedChannels: closedChannels{byRef: make(map[Ref]uint64)},
	}
}

// takeAcked removes the acknowledged openings from unacked and returns them. It also
// removes openings that have closed.
//
// It keeps a parted opening, which closes once it is acknowledged, because that
// close may be canceled. The caller holds the link's lock.
func (s *shown) takeAcked(machine *bunch.Conn) (acked []*opening) {
	s.unacked = slices.DeleteFunc(s.unacked, func(o *opening) bool {
		if !o.closed && !o.parted && machine.Opened(o.channel) {
			acked = append(acked, o)
			return true
		}
		return o.closed
	})
	return acked
}

// hasDetached reports whether the client has a copy of a without a channel.
func (s *shown) hasDetached(a *Actor) bool {
	_, ok := s.detached[a]
	return ok
}

// hasDormant reports whether the actor is dormant and the client has a dormant copy of it.
func (s *shown) hasDormant(a *Actor) bool { return a.dormancy.on && s.detached[a] == Dormancy }

// copies lists a client's copies of the server's actors.
type copies struct {
	byRef     map[Ref]*Actor
	reps      pending                  // OnRep functions to call once all states of a packet have been applied
	referrers refs.Index[Ref, replica] // by actor: the states that refer to it
	razed     map[string]bool          // names of placed actors that the server destroyed before they were placed here
}

func newCopies() copies {
	return copies{
		byRef:     make(map[Ref]*Actor),
		referrers: make(refs.Index[Ref, replica]),
		razed:     make(map[string]bool),
	}
}

// forget removes a copy that has ended.
func (s *copies) forget(a *Actor) {
	if s.byRef[a.ref] == a {
		delete(s.byRef, a.ref)
	}
}

// noteRazed records that the server has destroyed a placed actor that is not placed here yet.
func (s *copies) noteRazed(o opened) *CloseError {
	if len(s.razed) >= maxDetached {
		return violationf(PayloadFail, "end of %q, which is not placed here; as many as %d are known already",
			o.name, len(s.razed))
	}
	s.razed[o.name] = true
	return nil
}

// newMachine returns the machine for the connection's bunches. Until Join the
// machine accepts only channel 0, and at most minReceiveLimit bytes.
func (c *Conn) newMachine(now time.Time) *bunch.Conn {
	w := c.world
	config := w.config.Bunch
	config.Client = !c.server
	config.ReceiveLimit = minReceiveLimit
	config.KeepAlive = 0
	if !c.server {
		// QUIC's own keep-alive packets are too small for a restarted server to
		// answer them with a stateless reset.
		config.KeepAlive = w.config.KeepAlive
	}
	config.Random = w.extended.Random(c.id)
	config.Rate = c.allowance.Most()
	c.trace = w.trace.Tap(c.id, c.String(), now, &config)
	machine, err := bunch.NewConn(now, config)
	if err != nil { // NewWorld has validated the config
		panic(err)
	}
	// A peer that opens a channel before Join is closed with this code.
	machine.Refuse(bunch.Code(BunchPrematureChannel))
	return machine
}

// World returns the world that the connection belongs to.
func (c *Conn) World() *World { return c.world }

// Identity returns the identity that the server's Config.Authenticate returned for
// the client's token. It is empty until the connection has joined. On a server,
// Identity already returns it in Config.Login.
func (c *Conn) Identity() string {
	if c == nil || !c.joined.Load() && !c.loginAsked.Load() {
		return ""
	}
	return c.identity
}

// party identifies the peer across connections. It is used for the peer's budget of jobs that
// outlive a connection, and for transfers that another of its connections may take over.
//
// If the peer has no identity, the party is its address. That is always so on a
// client, which knows only its own identity.
func (c *Conn) party() budget.Party {
	if identity := c.Identity(); c.server && identity != "" {
		return budget.Party{Identity: identity}
	}
	return budget.Party{Address: door.AddressOf(c.RemoteAddr())}
}

// RemoteAddr returns the peer's address, or nil if the carrier has none.
func (c *Conn) RemoteAddr() net.Addr {
	if c == nil {
		return nil
	}
	if addressed, ok := c.carrier.(interface{ RemoteAddr() net.Addr }); ok {
		return addressed.RemoteAddr()
	}
	return nil
}

// RTT returns the smoothed round trip time, or 0 before the first sample.
func (c *Conn) RTT() time.Duration {
	if c == nil {
		return 0
	}
	return c.counts().SmoothedRTT
}

// counts returns the machine's counters.
func (c *Conn) counts() bunch.Stats {
	c.link.Lock()
	defer c.link.Unlock()
	return c.machine.Stats()
}

// Sealed reports whether everything that this end sends is now sent in sealed packets instead
// of QUIC's datagrams: see [Config].Sealed. If it is false, [SealedStats] shows why.
//
// Sealed packets begin no sooner than a round trip after Dial. The other end may
// begin a moment later.
func (c *Conn) Sealed() bool { return c.link.Sealed() }

// Done returns a channel that is closed when the connection has ended. Goroutines
// and the socket may still exist then: see [Conn.Wait].
func (c *Conn) Done() <-chan struct{} { return c.done }

// Wait waits until all goroutines of the connection have ended. If Dial made the
// connection, it also waits until the connection's socket is closed. The socket stays open
// for up to a second after Done, to repeat a close that was lost.
//
// If ctx ends first, Wait returns its cause. Wait doesn't return while a call of
// Config.Authenticate ignores its context.
func (c *Conn) Wait(ctx context.Context) error { return waitFor(ctx, c.gone) }

// Err returns why the connection ended, as a *CloseError. It returns nil until Done is closed.
//
// Err therefore still returns nil for a while after Close. During that time a client's calls
// already fail with ErrClosed, and a server's calls are counted in Drops.Gone.
func (c *Conn) Err() error {
	if !bell.Closed(c.done) {
		return nil
	}
	return c.closeError()
}

// closeError returns the error for Err. The connection has ended or is closing.
func (c *Conn) closeError() *CloseError {
	if cause := c.cause.Load(); cause != nil {
		return cause
	}
	e := closeErrorOf(c.link.Err())
	if carrier, ok := c.carrier.(*quicconn.Carrier); ok && e.Code == ConnectionTimeout && !e.Remote {
		return withUnsent(*e, carrier.Unsent())
	}
	return e
}

// withUnsent returns the timeout e with the reason why this machine can't send packets. If
// unsent is nil, there is no such reason, and withUnsent returns e unchanged.
func withUnsent(e CloseError, unsent error) *CloseError {
	if unsent != nil {
		e.Reason = fmt.Sprintf("%s; this machine lets no packet leave: %v", e.Reason, unsent)
		e.cause = errors.Join(e.cause, unsent)
	}
	return &e
}

// Close closes the connection after everything that was sent reliably has been
// delivered, but after a second at the latest. Close does not wait for that: Done is
// closed when the connection has ended.
//
// The peer receives code and reason. The code is one of the game's own, 1,024 or above, or a
// [Code] that fits. The reason is cut to 256 bytes. A close that is lost is repeated for some
// round trips while the peer sends packets. A peer that misses all of these closes times out.
func (c *Conn) Close(code Code, reason string) {
	if c == nil || !c.stop(&CloseError{Code: code, Reason: reason}) {
		return
	}
	c.link.Lock()
	c.machine.Cork(false)
	c.link.Unlock()
	c.link.Close(uint64(code), reason)
}

// abort ends the connection at once, without delivering what was sent. It is called
// when the peer or this side broke a rule.
func (c *Conn) abort(cause *CloseError) {
	if c.stop(cause) {
		c.link.Abort(uint64(cause.Code), cause.Reason)
	}
}

// stop marks the connection as closed by this side. It returns false if this side
// has already closed it.
func (c *Conn) stop(cause *CloseError) bool {
	if !c.closing.CompareAndSwap(false, true) {
		return false
	}
	if !bell.Closed(c.done) {
		c.cause.CompareAndSwap(nil, cause)
	}
	return true
}

// usable reports whether messages may be sent: the connection has joined and has
// neither been closed nor ended.
func (c *Conn) usable() bool { return c.joined.Load() && !c.closing.Load() && !c.ended.Load() }

// mayJoin reports whether Config.Login has been called for a client that has not
// joined but still may. Such a client may already own actors.
func (c *Conn) mayJoin() bool {
	return c.loginAsked.Load() && !c.joined.Load() && !c.closing.Load() && !c.ended.Load()
}

// String returns the connection's number, identity and remote address. The number is
// unique only within its world.
func (c *Conn) String() string {
	if c == nil {
		return "no conn"
	}
	name := fmt.Sprintf("conn %d", c.id)
	if identity := c.Identity(); identity != "" {
		name += fmt.Sprintf(" %q", identity)
	}
	if addr := c.RemoteAddr(); addr != nil {
		name += " " + addr.String()
	}
	return name
}

// LogValue implements slog.LogValuer. On a client it adds the local address, because each world
// numbers its connections from 1. All clients of one program therefore have a connection 1.
func (c *Conn) LogValue() slog.Value {
	if c == nil {
		return slog.StringValue(c.String())
	}
	attrs := []slog.Attr{slog.Uint64("id", c.id)}
	if identity := c.Identity(); identity != "" {
		attrs = append(attrs, slog.String("identity", identity))
	}
	if addr := c.RemoteAddr(); addr != nil {
		attrs = append(attrs, slog.String("addr", addr.String()))
	}
	if carrier, ok := c.carrier.(*quicconn.Carrier); ok && !c.server {
		_, local := carrier.Addrs()
		attrs = append(attrs, slog.String("local", local.String()))
	}
	return slog.GroupValue(attrs...)
}

// setPriority sets the priority of a channel that the server has opened to the
// priority of its class. The server has done the same at its own end.
//
// It ignores the error for a channel that is already closed, because the close may
// arrive together with the open.
func (c *Conn) setPriority(channel uint64, p bunch.Priority) {
	c.link.Lock()
	defer c.link.Unlock()
	_ = c.machine.SetPriority(channel, p)
}

// lastActor is actorOf's cache: the channel of the last call and that channel's actor.
type lastActor struct {
	channel uint64
	actor   *Actor // nil = none
}

// actorOf returns the actor of a channel, or nil. It caches the last result, because
// most messages are for the same actor as the previous message. Without that, the
// look-up in the map would miss the processor's cache.
func (c *Conn) actorOf(channel uint64) *Actor {
	if c.last.actor == nil || c.last.channel != channel {
		c.last = lastActor{channel, c.channels[channel]}
	}
	return c.last.actor
}

// setChannel sets the actor of a channel; nil removes the channel.
func (c *Conn) setChannel(channel uint64, a *Actor) {
	c.last = lastActor{}
	c.mu.Lock()
	defer c.mu.Unlock()
	if a == nil {
		delete(c.channels, channel)
		return
	}
	c.channels[channel] = a
}

// raiseReceiveLimit raises the limit on bytes of reliable messages that wait here, if
// Config.ReceiveBudget allows. It is called when the current limit stops the peer.
func (c *Conn) raiseReceiveLimit() {
	reserved := int(c.reserved.Load())
	limit := c.world.lobby.memory.Grow(reserved, c.world.config.ReceiveLimit)
	if limit > reserved {
		c.reserved.Store(int64(limit))
		c.applyReceiveLimit()
	}
}

// applyReceiveLimit sets the machine's limit to reserved. It loads reserved under the link's
// lock. Otherwise the later of two concurrent calls could set an older value.
func (c *Conn) applyReceiveLimit() {
	c.link.Lock()
	defer c.link.Unlock()
	c.machine.SetReceiveLimit(int(c.reserved.Load()))
}

// unsettled reports whether the connection needs a tick even if nothing arrives.
func (c *Conn) unsettled() bool {
	switch {
	case !c.usable():
		return false
	case c.server && (c.shown.state.pending() || len(c.shown.unacked) > 0):
		return true
	case len(c.waiting.calls) > 0 || c.requests.asked.Len() > 0: // waiting calls and requests time out
		return true
	}
	return c.times.ask.NeedsDriving() || c.mail.in.Open() > 0
}

// call makes the next Dispatch look at the connection, and wakes the world. It is
// safe for concurrent use.
//
// It does nothing before Join, and admit calls it again. Otherwise a world that
// nobody drives for a while would keep connections that never join.
func (c *Conn) call() {
	if !c.joined.Load() {
		return
	}
	c.world.callers.Call(c, &c.called)
	c.world.drive.Signal()
}

// expectDispatch makes a server log a warning if a client waits for a Dispatch and
// none runs for undrivenTime. Neither end would otherwise notice. Call it before
// waking the world for that Dispatch.
func (c *Conn) expectDispatch() {
	if !c.server {
		return
	}
	// The timer refers only to the world, so it doesn't keep an ended connection in memory.
	w := c.world
	w.lobby.expectDispatch(func() {
		w.log.Warn("clients wait for a Dispatch: nobody drives the world (World.Run, Tick, or Dispatch and Flush), or a function of the game does not return",
			"for", undrivenTime)
	})
}

// A Channel is an actor's channel on one connection. The zero Channel is closed. Its
// methods are safe for concurrent use.
type Channel struct {
	conn   *Conn
	number uint64
}

// ask calls fn with the machine of the channel's connection, under the link's lock.
// For the zero Channel it does nothing.
func (ch Channel) ask(fn func(machine *bunch.Conn)) {
	if ch.conn != nil {
		ch.conn.link.Lock()
		defer ch.conn.link.Unlock()
		fn(ch.conn.machine)
	}
}

// Open reports whether the connection is usable and this side has not closed the channel.
func (ch Channel) Open() (open bool) {
	ch.ask(func(machine *bunch.Conn) { open = ch.conn.usable() && machine.IsOpen(ch.number) })
	return open
}

// Reliable returns how many entries of the channel's reliable buffer are in use, and how many
// the buffer has. The last entry is reserved for the close. UE: NumOutRec, RELIABLE_BUFFER.
func (ch Channel) Reliable() (out, slots int) {
	ch.ask(func(machine *bunch.Conn) { out, slots = machine.Reliable(ch.number) })
	return out, slots
}

// QueueTime estimates how long it will take, at the current delivery rate, to send
// the bytes that wait on this channel and on all others of the same or a higher
// priority. It returns 0 while the rate is unknown.
func (ch Channel) QueueTime() (queued time.Duration) {
	ch.ask(func(machine *bunch.Conn) { queued = machine.QueueTime(ch.number) })
	return queued
}

// Gate returns what currently holds back the channel's calls. If there are several
// causes, it returns the first in this list:
//
//	reliable buffer  no entry is free: the next reliable call closes the connection, or is an error (Config.Bunch.Overflow)
//	earlier channel  the actor was closed for the client and opens again: the client has yet to acknowledge that close
//	flow control     the peer accepts no more reliable bytes until it has dispatched some: its Config.ReceiveLimit
//	rate             Config.Rate or WorldRate is used up, for unreliable calls and bulk
//	window           the path accepts no more packets: its congestion window or pace, or an outage
//
// Gate returns "" if nothing waits, or if the calls wait only for Flush. It ignores states.
func (ch Channel) Gate() (gate string) {
	ch.ask(func(*bunch.Conn) { gate = ch.conn.gate(ch.number) })
	return gate
}

// Watch makes Run tick once, as soon as fewer than out entries of the reliable
// buffer are in use and QueueTime is at most queued.
func (ch Channel) Watch(out int, queued time.Duration) {
	ch.ask(func(machine *bunch.Conn) { machine.Watch(ch.number, out, queued) })
}
