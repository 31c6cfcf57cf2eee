package rpc

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/budget"
	"github.com/quivernet/quiver/internal/drops"
	"github.com/quivernet/quiver/internal/guest"
	"github.com/quivernet/quiver/internal/link"
	"github.com/quivernet/quiver/internal/logs"
	"github.com/quivernet/quiver/internal/refs"
	"github.com/quivernet/quiver/internal/statnet"
	"github.com/quivernet/quiver/internal/trace"
)

// Conn is a connection to one peer. Its methods are safe from any goroutine, but for [Conn.Actor], [Conn.View], [Conn.SetView],
// [Conn.SetViewPoint] and [Conn.ServerTime], which belong to the world's. UE: UNetConnection.
type Conn struct {
	world  *World
	id     uint64 // within its world
	server bool   // this end is the server's

	// What it travels by, which has a lock of its own.
	carrier link.Carrier
	link    *link.Link
	machine *bunch.Conn    // under link.Lock, but for Waited
	sealed  *sealedCarrier // nil when this side has none
	trace   *trace.Tap     // nil without Config.Trace
	guests  guest.Seat     // machines that package stream added

	// Its way in. Written before joined.
	visit         *visit        // its place at the door; set by enlist, before any other goroutine has the connection; what it says is under lobby.mu
	replaced      []*Conn       // whose end is told before this one is announced: it has taken their place, or joined when they had ended
	identity      string        // written under lobby.mu; read freely once loginAsked or joined is set
	welcomed      chan struct{} // closed when joined
	handshakeWake chan struct{} // wakes shake, of capacity 1: a message of the handshake came
	maxBunch      int           // bytes of one message, the smaller of both ends' limits

	// Where it stands. Safe from any goroutine.
	loginAsked atomic.Bool // server: Config.Login is asked, or was; identity is written
	joined     atomic.Bool
	closing    atomic.Bool                // closed from here: nothing more is dispatched or sent
	cause      atomic.Pointer[CloseError] // why this side closed; the first one counts
	ended      atomic.Bool                // the link has; written under lobby.mu
	done       chan struct{}              // closed when both carriers have ended; OnDisconnect may be yet to run
	gone       chan struct{}              // closed when nothing is left of it
	work       sync.WaitGroup             // goroutines of its own, which end soon after the link
	readable   atomic.Bool                // Dispatch has something to take

	// What it costs, and what was dropped. Safe from any goroutine.
	allowance *budget.Allowance // under Config.Rate and WorldRate
	reserved  atomic.Int64      // bytes of the world's budget
	drops     drops.Counters
	deferred  atomic.Uint64
	rates     statnet.Sampler

	// Actors. Owned by the world's goroutine.
	shown  shown  // on a server
	copies copies // on a client

	// Its calls. Owned by the world's goroutine, but for mail.out (the link's lock), the counters of times (atomic), and watched, which
	// is written, and read elsewhere, under World.dos.mu.
	corked   bool
	turn     turn
	requests requests
	mail     mail
	limits   map[*method]budget.Bucket // of Server RPCs with a RateLimit
	watched  *watched                  // of a server with Config.DoS
	times    times
	lateWarn logs.Gate

	mu       sync.Mutex // guards writes to channels, and reads of it elsewhere than on the world's goroutine
	channels map[uint64]*Actor
}

// shown is what a server has told a client of its actors, and is to tell it.
type shown struct {
	owned       actors                 // whose owner is the connection itself, not another actor
	openings    map[*Actor]*opening    // those that are open
	view        view                   // from where it looks
	state       stateOutbox            // of those that are open
	asleep      map[*Actor]CloseReason // those of which the client has a copy without a channel, and why
	dismissals  []dismissal            // copies that are to end, and wait for a channel
	leaving     map[Ref]uint64         // the last channel of those that were closed, until the client is known to have ended its copy
	leavingMost int                    // size of leaving at which such entries are looked for
	openWarn    logs.Gate
}

func newShown() shown {
	return shown{openings: make(map[*Actor]*opening), asleep: make(map[*Actor]CloseReason), leaving: make(map[Ref]uint64)}
}

// opened reports whether the actor is open for the client.
func (s *shown) opened(a *Actor) bool { return s.openings[a] != nil }

// sleeps reports whether the client has a copy of a without a channel.
func (s *shown) sleeps(a *Actor) bool {
	_, asleep := s.asleep[a]
	return asleep
}

// copies is what a client has of a server's actors.
type copies struct {
	byRef     map[Ref]*Actor
	reps      pending
	waiting   waitingCalls
	referrers refs.Index[Ref, replica] // those that name the actor
	razed     map[string]bool          // placed actors that are destroyed, and were not placed here
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
	if len(s.razed) >= maxChannelless {
		return violationf(PayloadFail, "end of %q, which is not placed here; as many as %d are known already", o.name, len(s.razed))
	}
	s.razed[o.name] = true
	return nil
}

// World returns the world that the connection belongs to.
func (c *Conn) World() *World { return c.world }

// Identity returns what Config.Authenticate on the server made of the client's token; nothing before the connection has
// joined, but for Config.Login.
func (c *Conn) Identity() string {
	if !c.joined.Load() && !c.loginAsked.Load() {
		return ""
	}
	return c.identity
}

// RemoteAddr returns the peer's address, nil when the carrier has none.
func (c *Conn) RemoteAddr() net.Addr {
	if addressed, ok := c.carrier.(interface{ RemoteAddr() net.Addr }); ok {
		return addressed.RemoteAddr()
	}
	return nil
}

// RTT returns the smoothed round trip time, 0 before the first sample.
func (c *Conn) RTT() time.Duration {
	c.link.Lock()
	defer c.link.Unlock()
	return c.machine.Stats().SmoothedRTT
}

// Sealed reports whether sealed packets move all that this end of the connection sends at present, and QUIC's datagrams do
// not: see [Config].Sealed, and [SealedStats] for why not. It begins a round trip after Dial at the soonest; the other end may
// be a moment behind.
func (c *Conn) Sealed() bool { return c.link.Sealed() }

// Done is closed when the carrier has ended. See [Conn.Wait] for what may be left of it.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Wait returns nil when nothing is left of a connection that has ended: no goroutine, and after Dial no socket, which repeats
// a lost close for up to a second after Done; or the cause of ctx. A call of Config.Authenticate that ignores its context
// keeps Wait waiting.
func (c *Conn) Wait(ctx context.Context) error {
	select {
	case <-c.gone:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Err returns why the connection ended, a *CloseError; nil until Done is closed. For a while after Close it is still nil, though a
// client's calls fail with ErrClosed already; a server's to it are counted in Drops.Gone.
func (c *Conn) Err() error {
	select {
	case <-c.done:
		return c.closeError()
	default:
		return nil
	}
}

func (c *Conn) closeError() *CloseError {
	if cause := c.cause.Load(); cause != nil {
		return cause
	}
	return closeErrorOf(c.link.Err())
}

// Close ends the connection: what was sent reliably is delivered first, for at most a second. It returns at once; Done
// tells the end. The reason, cut to 256 bytes, reaches the peer.
func (c *Conn) Close(code Code, reason string) {
	if !c.stop(&CloseError{Code: code, Reason: reason}) {
		return
	}
	c.link.Lock()
	c.machine.Cork(false)
	c.link.Unlock()
	c.link.Close(uint64(code), reason)
}

// abort ends the connection without delivering anything more: the peer or this side broke a rule.
func (c *Conn) abort(cause *CloseError) {
	if c.stop(cause) {
		c.link.Abort(uint64(cause.Code), cause.Reason)
	}
}

// stop marks the connection as closed from here and reports whether it was not yet.
func (c *Conn) stop(cause *CloseError) bool {
	if !c.closing.CompareAndSwap(false, true) {
		return false
	}
	select {
	case <-c.done:
	default:
		c.cause.CompareAndSwap(nil, cause)
	}
	return true
}

// usable reports whether something may be sent.
func (c *Conn) usable() bool { return c.joined.Load() && !c.closing.Load() && !c.ended.Load() }

// expected reports whether the connection may still join, and may own actors before that.
func (c *Conn) expected() bool {
	return c.loginAsked.Load() && !c.joined.Load() && !c.closing.Load() && !c.ended.Load()
}

func (c *Conn) String() string {
	name := fmt.Sprintf("conn %d", c.id)
	if identity := c.Identity(); identity != "" {
		name += fmt.Sprintf(" %q", identity)
	}
	if addr := c.RemoteAddr(); addr != nil {
		name += " " + addr.String()
	}
	return name
}

// LogValue is how records show the connection.
func (c *Conn) LogValue() slog.Value {
	attrs := []slog.Attr{slog.Uint64("id", c.id)}
	if identity := c.Identity(); identity != "" {
		attrs = append(attrs, slog.String("identity", identity))
	}
	if addr := c.RemoteAddr(); addr != nil {
		attrs = append(attrs, slog.String("addr", addr.String()))
	}
	return slog.GroupValue(attrs...)
}

// setPriority gives a channel that the server opened the priority of its class here too. It may be closed by now, its
// close waiting behind its open; that is no error.
func (c *Conn) setPriority(channel uint64, p bunch.Priority) {
	c.link.Lock()
	defer c.link.Unlock()
	_ = c.machine.SetPriority(channel, p)
}

// setChannel notes whose channel it is; nil forgets it.
func (c *Conn) setChannel(channel uint64, a *Actor) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a == nil {
		delete(c.channels, channel)
		return
	}
	c.channels[channel] = a
}

// raiseReceiveLimit lets more reliable bytes wait here, when the limit holds up the peer and the budget has room.
func (c *Conn) raiseReceiveLimit() {
	held := int(c.reserved.Load())
	if limit := c.world.lobby.memory.Grow(held, c.world.config.receiveLimit()); limit > held {
		c.reserved.Store(int64(limit))
		c.tellLimit()
	}
}

// tellLimit tells the machine what is reserved now: of two that tell it at once neither sets it back.
func (c *Conn) tellLimit() {
	c.link.Lock()
	defer c.link.Unlock()
	c.machine.SetReceiveLimit(int(c.reserved.Load()))
}

// unsettled reports whether the connection has something that needs a tick though nothing arrives.
func (c *Conn) unsettled() bool {
	switch {
	case !c.usable():
		return false
	case c.shown.state.all || len(c.shown.state.dirty) > 0 || len(c.shown.state.free) < len(c.shown.state.sent): // states leave, or their fates are not known
		return true
	case len(c.copies.waiting.calls) > 0 || c.requests.asked.Len() > 0: // these have a time at which they are given up
		return true
	}
	return c.times.ask.NeedsDriving() || c.mail.in.Owed() > 0
}

// Channel is an actor's channel on one connection. The zero Channel is closed. Its methods are safe from any goroutine.
type Channel struct {
	conn   *Conn
	number uint64
}

// Open reports whether the connection lives and the channel was not closed here.
func (ch Channel) Open() bool {
	if ch.conn == nil || !ch.conn.usable() {
		return false
	}
	ch.conn.link.Lock()
	defer ch.conn.link.Unlock()
	return ch.conn.machine.IsOpen(ch.number)
}

// Reliable returns how many entries of the channel's reliable buffer are taken, and how many it has; one of them is for
// the close alone. UE: NumOutRec, RELIABLE_BUFFER.
func (ch Channel) Reliable() (out, slots int) {
	if ch.conn == nil {
		return 0, 0
	}
	ch.conn.link.Lock()
	defer ch.conn.link.Unlock()
	return ch.conn.machine.Reliable(ch.number)
}

// QueueTime returns how long what waits unsent on the channel, and before it, takes at the present delivery rate.
func (ch Channel) QueueTime() time.Duration {
	if ch.conn == nil {
		return 0
	}
	ch.conn.link.Lock()
	defer ch.conn.link.Unlock()
	return ch.conn.machine.QueueTime(ch.number)
}

// Gate returns what keeps the calls of the channel back now, in one of these words, the nearest to the game first:
//
//	reliable buffer  no entry is free: the next reliable call closes the connection, or is an error (Config.Bunch.Overflow)
//	flow control     the peer takes no more reliable bytes before it has dispatched some: its Config.ReceiveLimit
//	rate             Config.Rate or WorldRate is used up, for unreliable calls and bulk
//	window           the path takes no more: its congestion window or pace, or an outage
//
// It is empty when nothing does: nothing waits, or only for Flush. States, which have no channel of their own, do not count.
func (ch Channel) Gate() string {
	if ch.conn == nil {
		return ""
	}
	ch.conn.link.Lock()
	defer ch.conn.link.Unlock()
	return ch.conn.gate(ch.number)
}

// Watch makes Run tick once as soon as fewer than out entries are taken and the queue time is at most queued.
func (ch Channel) Watch(out int, queued time.Duration) {
	if ch.conn == nil {
		return
	}
	ch.conn.link.Lock()
	defer ch.conn.link.Unlock()
	ch.conn.machine.Watch(ch.number, out, queued)
}
