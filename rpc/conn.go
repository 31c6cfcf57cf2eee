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

// Conn is a connection to one peer. Its methods are safe for concurrent use, except [Conn.Actor], [Conn.View], [Conn.SetView],
// [Conn.SetViewPoint] and [Conn.ServerTime], which belong to the world's. A nil *Conn is what [Call] has of a call that was made in this
// world: String, Identity, RemoteAddr and RTT tell nothing of it, Close does nothing, and SendMessage is an error. UE: UNetConnection.
type Conn struct {
	world  *World
	id     uint64 // within its world
	server bool   // this end is the server's

	// The link and the machines that it drives. Set before other goroutines have the connection.
	carrier  link.Carrier   // QUIC, or the carrier given to Attach
	link     *link.Link     // has a lock of its own
	machine  *bunch.Conn    // under link.Lock, except Waited
	sealed   *sealedCarrier // nil if this side has none
	trace    *trace.Tap     // nil without Config.Trace
	extended extend.Conn    // machines that package stream added

	// The state. Safe from any goroutine.
	loginAsked atomic.Bool // on a server: Config.Login runs or has run, and identity is written
	joined     atomic.Bool
	closing    atomic.Bool                // this side has closed: nothing more is dispatched or sent
	cause      atomic.Pointer[CloseError] // why this side closed, by the first who did
	ended      atomic.Bool                // the link has ended; written under lobby.mu
	refused    atomic.Bool                // its login was refused, and the log says so: finish does not log a failed handshake besides
	done       chan struct{}              // closed when both carriers have ended; OnDisconnect may not have run yet
	gone       chan struct{}              // closed when no goroutine and no socket of it is left
	work       sync.WaitGroup             // goroutines of the connection, which end soon after the link
	called     atomic.Bool                // it is in World.callers

	// Calls. Owned by the world's goroutine, except mail.out (the link's lock) and the counters of times (atomic). watched is written,
	// and read on other goroutines, under World.dos.mu.
	admitted bool         // it is in World.announced
	active   bool         // it is in frame.active
	corked   bool         // messages that are sent now leave at Flush
	waiting  waitingCalls // a client's, that wait for actors which they name
	turn     turn         // its part of a Dispatch
	requests requests
	mail     mail                      // messages of the game on the control channel
	limits   map[*method]budget.Bucket // of Server RPCs with a RateLimit
	watched  *watched                  // of a server with Config.DoS
	times    times
	lateWarn logs.Gate // limits the warnings that messages wait for a turn

	// The world's goroutine writes channels under mu and reads it without; other goroutines read it under mu.
	mu       sync.Mutex
	channels map[uint64]*Actor // actors by channel
	last     lastActor         // of the world's goroutine: see actorOf

	// Actors. Owned by the world's goroutine.
	copies copies // on a client
	shown  shown  // on a server

	// The handshake. Written before joined is set.
	visit         *visit        // its place at the door, set by enlist; the fields of the visit are under lobby.mu
	replaced      []*Conn       // OnDisconnect runs for these before OnConnect does for this one: see lobby.claim and endedBefore
	identity      string        // written under lobby.mu; read freely once loginAsked or joined is set
	welcomed      chan struct{} // closed when joined
	handshakeWake bell.Bell     // wakes runHandshake for a message of the handshake
	maxBunch      int           // most bytes of one message, by both ends' limits
	peerSeals     atomic.Bool   // the peer has Config.Sealed; read by any goroutine

	// Budgets and drops. Safe from any goroutine.
	allowance *budget.Allowance // what Config.Rate and WorldRate leave it
	reserved  atomic.Int64      // bytes of Config.ReceiveBudget
	drops     drops.Counters
	deferred  atomic.Uint64   // for Stats: Dispatches that left messages of this connection
	rates     statnet.Sampler // rates of the last second, for Stats
}

// shown holds, on a server, the actors that a client has, and those that it is about to get or to lose.
type shown struct {
	owned      actors                 // that the connection itself owns, not by another actor
	openings   map[*Actor]*opening    // actors that are open for the client
	unacked    []*opening             // of openings: whose open the client has yet to acknowledge, and for which OnOpenAcked runs then
	view       view                   // from where the client sees
	state      stateOutbox            // states of actors that are open
	detached   map[*Actor]CloseReason // copies without a channel, dormant or placed, and the reason of their last close; never Destroyed
	dismissals []dismissal            // copies that must end, and wait for a channel
	leaving    leaving                // channels that were closed and may not have ended at the client; under link.Lock
	openWarn   logs.Gate              // lets one warning a second pass: an actor could not be opened
}

func newShown() shown {
	return shown{openings: make(map[*Actor]*opening), detached: make(map[*Actor]CloseReason), leaving: leaving{channels: make(map[Ref]uint64)}}
}

// takeAcked takes the acknowledged ones out of unacked, and forgets those that have closed. One that will close as soon as it is acknowledged
// stays, for that may be taken back. It is called under the link's lock.
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

// copies holds, on a client, its copies of a server's actors.
type copies struct {
	byRef     map[Ref]*Actor
	reps      pending                  // OnRep functions that wait until all states of a packet are applied
	referrers refs.Index[Ref, replica] // by actor: states that name it
	razed     map[string]bool          // names of placed actors that the server destroyed before they were placed here
}

func newCopies() copies {
	return copies{byRef: make(map[Ref]*Actor), referrers: make(refs.Index[Ref, replica]), razed: make(map[string]bool)}
}

// forget forgets a copy that has ended.
func (s *copies) forget(a *Actor) {
	if s.byRef[a.ref] == a {
		delete(s.byRef, a.ref)
	}
}

// noteRazed remembers a placed actor that was destroyed before it was placed here.
func (s *copies) noteRazed(o opened) *CloseError {
	if len(s.razed) >= maxDetached {
		return violationf(PayloadFail, "end of %q, which is not placed here; as many as %d are known already", o.name, len(s.razed))
	}
	s.razed[o.name] = true
	return nil
}

// newMachine returns the machine of the connection's bunches. Until Join it takes little, and only on channel 0.
func (c *Conn) newMachine(now time.Time) *bunch.Conn {
	w := c.world
	config := w.config.Bunch
	config.Client, config.ReceiveLimit = !c.server, minReceiveLimit
	if config.KeepAlive = 0; !c.server {
		config.KeepAlive = w.config.KeepAlive // QUIC's own is too small for a server that was restarted to answer it by a reset
	}
	config.Random, config.Rate = w.extended.Random(c.id), c.allowance.Most()
	c.trace = w.trace.Tap(c.id, c.String(), now, &config)
	machine, err := bunch.NewConn(now, config)
	if err != nil { // NewWorld has validated the config
		panic(err)
	}
	machine.Refuse(bunch.Code(BunchPrematureChannel)) // a peer that opens a channel before Join is closed with that
	return machine
}

// World returns the world that the connection belongs to.
func (c *Conn) World() *World { return c.world }

// Identity returns the identity that the server's Config.Authenticate has found by the client's token. It is empty until the
// connection has joined, and of a nil *Conn; on a server it is known in Config.Login.
func (c *Conn) Identity() string {
	if c == nil || !c.joined.Load() && !c.loginAsked.Load() {
		return ""
	}
	return c.identity
}

// party returns who the peer is: for whom the jobs count that the connection leaves behind, and whose transfers another of its connections
// may take over. A client's identity is its own, and says nothing of the server.
func (c *Conn) party() budget.Party {
	if identity := c.Identity(); c.server && identity != "" {
		return budget.Party{Identity: identity}
	}
	return budget.Party{Address: door.AddressOf(c.RemoteAddr())}
}

// RemoteAddr returns the peer's address, nil if the carrier has none.
func (c *Conn) RemoteAddr() net.Addr {
	if c == nil {
		return nil
	}
	if addressed, ok := c.carrier.(interface{ RemoteAddr() net.Addr }); ok {
		return addressed.RemoteAddr()
	}
	return nil
}

// RTT returns the smoothed round trip time, 0 before the first sample.
func (c *Conn) RTT() time.Duration {
	if c == nil {
		return 0
	}
	return c.counts().SmoothedRTT
}

// counts returns the counts of the machine.
func (c *Conn) counts() bunch.Stats {
	c.link.Lock()
	defer c.link.Unlock()
	return c.machine.Stats()
}

// Sealed reports whether sealed packets now carry all that this end sends, instead of QUIC's datagrams: see [Config].Sealed,
// and [SealedStats] for why they do not. They begin a round trip after Dial at the soonest; the other end may begin a moment
// later.
func (c *Conn) Sealed() bool { return c.link.Sealed() }

// Done is closed when the connection has ended. Goroutines and the socket may be left: see [Conn.Wait].
func (c *Conn) Done() <-chan struct{} { return c.done }

// Wait waits until nothing is left of the connection: no goroutine, and after Dial no socket, which repeats a lost close for
// up to a second after Done. It returns the cause of ctx when that ends first. A call of Config.Authenticate that ignores its
// context keeps Wait waiting.
func (c *Conn) Wait(ctx context.Context) error { return waitFor(ctx, c.gone) }

// Err returns why the connection ended, a *CloseError; nil until Done is closed. So it is still nil for a while after Close, when a
// client's calls already fail with ErrClosed, and a server's are counted in Drops.Gone.
func (c *Conn) Err() error {
	if !bell.Closed(c.done) {
		return nil
	}
	return c.closeError()
}

func (c *Conn) closeError() *CloseError {
	if cause := c.cause.Load(); cause != nil {
		return cause
	}
	e := closeErrorOf(c.link.Err())
	if carrier, ok := c.carrier.(*quicconn.Carrier); ok && e.Code == ConnectionTimeout && !e.Remote {
		return unheard(*e, carrier.Unsent())
	}
	return e
}

// unheard returns e, of a connection that has timed out, with the reason why this machine lets no packet leave; nil = it does.
func unheard(e CloseError, unsent error) *CloseError {
	if unsent != nil {
		e.Reason = fmt.Sprintf("%s; this machine lets no packet leave: %v", e.Reason, unsent)
		e.cause = errors.Join(e.cause, unsent)
	}
	return &e
}

// Close ends the connection, after it has delivered what was sent reliably, for at most a second. It returns at once; Done is
// closed at the end. The peer is told the code, which is the game's own, 1,024 or more, or a [Code] that fits, and the reason, cut to 256 bytes.
// A close that is lost is repeated for some round trips while the peer answers; a peer that misses all of them learns of the end by silence.
func (c *Conn) Close(code Code, reason string) {
	if c == nil || !c.stop(&CloseError{Code: code, Reason: reason}) {
		return
	}
	c.link.Lock()
	c.machine.Cork(false)
	c.link.Unlock()
	c.link.Close(uint64(code), reason)
}

// abort ends the connection at once, without delivering what was sent: the peer or this side broke a rule.
func (c *Conn) abort(cause *CloseError) {
	if c.stop(cause) {
		c.link.Abort(uint64(cause.Code), cause.Reason)
	}
}

// stop marks the connection as closed by this side. It is false when that was done before.
func (c *Conn) stop(cause *CloseError) bool {
	if !c.closing.CompareAndSwap(false, true) {
		return false
	}
	if !bell.Closed(c.done) {
		c.cause.CompareAndSwap(nil, cause)
	}
	return true
}

// usable reports whether the connection has joined and is neither closed nor ended, so that something may be sent.
func (c *Conn) usable() bool { return c.joined.Load() && !c.closing.Load() && !c.ended.Load() }

// mayJoin reports whether a client is in Config.Login or behind it and may still join: it may own actors already.
func (c *Conn) mayJoin() bool {
	return c.loginAsked.Load() && !c.joined.Load() && !c.closing.Load() && !c.ended.Load()
}

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

// LogValue implements slog.LogValuer. A client's shows the local address as well: each world counts its connections anew, so all clients of
// a program have a connection 1 to one server.
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

// setPriority gives a channel that the server has opened the priority of its class, at this end too. An error means that the
// channel is closed already, for its close may have come with the open.
func (c *Conn) setPriority(channel uint64, p bunch.Priority) {
	c.link.Lock()
	defer c.link.Unlock()
	_ = c.machine.SetPriority(channel, p)
}

// lastActor is the actor of a channel that actorOf has found last.
type lastActor struct {
	channel uint64
	actor   *Actor // nil = none
}

// actorOf returns the actor of a channel, or nil. Most messages are for the actor of the one before, and a map's memory is cold by then.
func (c *Conn) actorOf(channel uint64) *Actor {
	if c.last.actor == nil || c.last.channel != channel {
		c.last = lastActor{channel, c.channels[channel]}
	}
	return c.last.actor
}

// setChannel notes the actor of a channel; nil forgets the channel.
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

// raiseReceiveLimit lets more reliable bytes wait here, if the budget has room. It is called when the limit holds up the peer.
func (c *Conn) raiseReceiveLimit() {
	held := int(c.reserved.Load())
	if limit := c.world.lobby.memory.Grow(held, c.world.config.ReceiveLimit); limit > held {
		c.reserved.Store(int64(limit))
		c.tellLimit()
	}
}

// tellLimit sets the machine's limit to what is reserved. It reads that under the lock, so two calls at once do not set it back.
func (c *Conn) tellLimit() {
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
	case len(c.waiting.calls) > 0 || c.requests.asked.Len() > 0: // these end when their time is over
		return true
	}
	return c.times.ask.NeedsDriving() || c.mail.in.Open() > 0
}

// call has the next Dispatch look at the connection, and wakes the world. Before Join it does nothing, because admit calls again: the inbox of a
// world that nobody drives for a while must not keep connections that never join. It is safe for concurrent use.
func (c *Conn) call() {
	if !c.joined.Load() {
		return
	}
	c.world.callers.Call(c, &c.called)
	c.world.drive.Signal()
}

// expectDispatch has a server's log say so when a client waits for a Dispatch and none comes: nothing else tells either of them. It is called
// before what brings that Dispatch.
func (c *Conn) expectDispatch() {
	if w := c.world; c.server { // the timer keeps the world, and not a connection that may have ended
		w.lobby.expectDispatch(func() {
			w.log.Warn("clients wait for a Dispatch: nobody drives the world (World.Run, Tick, or Dispatch and Flush), or a function of the game does not return",
				"for", undrivenTime)
		})
	}
}

// Channel is an actor's channel on one connection. The zero Channel is closed. Its methods are safe for concurrent use.
type Channel struct {
	conn   *Conn
	number uint64
}

// ask calls fn with the machine of the channel's connection, under the link's lock. It does nothing for the zero Channel.
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

// Reliable returns how many entries of the channel's reliable buffer are taken, and how many it has; the last one is kept
// for the close. UE: NumOutRec, RELIABLE_BUFFER.
func (ch Channel) Reliable() (out, slots int) {
	ch.ask(func(machine *bunch.Conn) { out, slots = machine.Reliable(ch.number) })
	return out, slots
}

// QueueTime returns how long the bytes that wait on the channel, and on those that leave before it, will take to leave at the
// present delivery rate.
func (ch Channel) QueueTime() (queued time.Duration) {
	ch.ask(func(machine *bunch.Conn) { queued = machine.QueueTime(ch.number) })
	return queued
}

// Gate returns what holds back the calls of the channel now. When several things do, it is the first of these:
//
//	reliable buffer  no entry is free: the next reliable call closes the connection, or is an error (Config.Bunch.Overflow)
//	earlier channel  the actor was closed for the client and opens again: the client has yet to acknowledge that close
//	flow control     the peer takes no more reliable bytes before it has dispatched some: its Config.ReceiveLimit
//	rate             Config.Rate or WorldRate is used up, for unreliable calls and bulk
//	window           the path takes no more: its congestion window or pace, or an outage
//
// It is empty when nothing waits, or only for Flush. States do not count.
func (ch Channel) Gate() (gate string) {
	ch.ask(func(*bunch.Conn) { gate = ch.conn.gate(ch.number) })
	return gate
}

// Watch makes Run tick once, as soon as fewer than out entries are taken and QueueTime is at most queued.
func (ch Channel) Watch(out int, queued time.Duration) {
	ch.ask(func(machine *bunch.Conn) { machine.Watch(ch.number, out, queued) })
}
