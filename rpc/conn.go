package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
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
	"github.com/quivernet/quiver/internal/shape"
	"github.com/quivernet/quiver/internal/statnet"
	"github.com/quivernet/quiver/internal/trace"
	"github.com/quivernet/quiver/internal/words"
)

// A Conn is a connection to one peer. UE (Unreal Engine's counterpart): UNetConnection.
//
// Its methods are safe for concurrent use, except [Conn.Actor], [Conn.View], [Conn.SetView],
// [Conn.SetViewPoint] and [Conn.ServerTime]. Call these methods on the world's goroutine.
//
// A [Call] that was made in this world has a nil *Conn, on which some methods still work: String
// returns "no conn", Identity, RemoteAddr and RTT return zero values, Close does nothing, and
// SendMessage returns an error.
type Conn struct {
	world    *World
	id       uint64 // unique in its world
	server   bool   // this end is the server's
	identity string // written under lobby.mu; may be read without it once loginAsked or joined is set

	life life // the progress from login to end; safe for concurrent use

	// The link and the state machines that it drives. All are set before any other goroutine can
	// reach the connection.
	carrier   link.Carrier      // QUIC, or the carrier given to Attach
	link      *link.Link        // has its own lock
	machine   *bunch.Conn       // guarded by link.Lock, except Waited
	sealed    *sealedCarrier    // nil if this side has none
	trace     *trace.Tap        // nil without Config.Trace
	extended  extend.Conn       // machines that package stream added
	allowance *budget.Allowance // this connection's part of Config.Rate and WorldRate; safe for concurrent use

	// The handshake.
	entry entry
	terms terms

	// Messages and calls. Used only by the world's goroutine, except for what their types say,
	// and for watched, which is written under World.dos.mu and read by other goroutines under
	// that lock.
	inFrame  framePart    // the part in World.frame
	turn     turn         // the part in a Dispatch
	channels channelTable // has its own lock
	waiting  waitingCalls // client: calls that wait for the actors that they name
	requests requests
	mail     mail                      // messages of the game on the control channel
	limits   map[*method]budget.Bucket // budgets of Server RPCs with a RateLimit
	watched  *watched                  // server: nil without Config.DoS
	times    times

	// Actors. Used only by the world's goroutine.
	copies copies // client
	shown  shown  // server

	backlog backlog // used only by the world's goroutine

	// Counters. Safe for concurrent use.
	reserved atomic.Int64 // bytes reserved from Config.ReceiveBudget
	drops    drops.Counters
	deferred atomic.Uint64   // for Stats: Dispatches that left messages of this connection waiting
	rates    statnet.Sampler // for Stats: rates of the last second
}

// newServerConn returns the server's end of a connection. It has neither an id nor a link yet.
func newServerConn(w *World, carrier link.Carrier) *Conn {
	c := newConn(w, carrier)
	c.server = true
	c.shown = newShown()
	return c
}

// newClientConn returns the client's end of a connection. It has neither an id nor a link yet.
func newClientConn(w *World, carrier link.Carrier) *Conn {
	c := newConn(w, carrier)
	c.copies = newCopies()
	return c
}

// newConn returns the part of a Conn that both ends have in common.
func newConn(w *World, carrier link.Carrier) *Conn {
	return &Conn{
		world:     w,
		carrier:   carrier,
		life:      newLife(),
		entry:     entry{wake: bell.New()},
		channels:  channelTable{byNumber: make(map[uint64]*Actor)},
		limits:    make(map[*method]budget.Bucket),
		requests:  newRequests(w.config.MaxRequests),
		allowance: budget.NewAllowance(w.config.Rate, w.rate),
	}
}

// World returns the world that the connection belongs to.
func (c *Conn) World() *World { return c.world }

// Identity returns the identity that the server's Config.Authenticate returned for
// the client's token. It is empty until the connection has joined, except that on a
// server Identity already returns it in Config.Login.
func (c *Conn) Identity() string {
	if c == nil || !c.life.joined.Load() && !c.life.loginAsked.Load() {
		return ""
	}
	return c.identity
}

// party identifies the peer across connections. Jobs that outlast a connection are charged to the
// party's budget, and another connection of the same party may take over a transfer.
//
// If the peer has no identity, the party is its address. On a client, the party is always the
// address, because a client only knows its own identity.
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

// RTT returns the smoothed round trip time, without the peer's ack delay, or 0 before the first
// sample. It is cheaper than [Conn.Stats]. UE: AvgLag.
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

// Sealed reports whether this end currently sends everything in sealed packets rather than in
// QUIC's datagrams: see [Config].Sealed. If it doesn't, [SealedStats] shows why.
//
// Sealed packets are first sent at least a round trip after Dial. The other end may begin a moment
// later than this one.
func (c *Conn) Sealed() bool { return c.link.Sealed() }

// Done returns a channel that is closed when the connection has ended. At that time, goroutines of
// the connection and its socket may still exist: see [Conn.Wait].
func (c *Conn) Done() <-chan struct{} { return c.life.done }

// Wait waits until all goroutines of the connection have ended and, if Dial made the connection,
// its socket is closed. That can take up to a second after Done, because the socket stays open to
// repeat a close that was lost. It takes longer if a call of Config.Authenticate ignores its
// context, because its goroutine ends only when the call returns.
//
// If ctx ends first, Wait returns its cause. Wait doesn't close the connection, so on the world's
// goroutine, which must not block, it would hold up the game for as long as the connection is open.
func (c *Conn) Wait(ctx context.Context) error { return waitFor(ctx, c.life.stopped) }

// Err returns why the connection ended, as a *CloseError, or nil until Done is closed.
//
// For a while after Close, Err therefore still returns nil, although calls already have no effect:
// a client's calls fail with ErrClosed, and a server's calls are counted in Drops.Gone.
func (c *Conn) Err() error {
	if !bell.Closed(c.life.done) {
		return nil
	}
	return c.closeError()
}

// closeError returns the error for Err. The connection must have ended or be closing.
func (c *Conn) closeError() *CloseError {
	if cause := c.life.cause.Load(); cause != nil {
		return cause
	}
	e := closeErrorOf(c.link.Err())
	if carrier, ok := c.carrier.(*quicconn.Carrier); ok && e.Code == ConnectionTimeout && !e.Remote {
		return withUnsent(*e, carrier.Unsent())
	}
	return e
}

// Close closes the connection once everything that was sent reliably has been delivered or one
// second has passed, whichever comes first. Close itself returns immediately: Done is closed when
// the connection has ended.
//
// The peer receives code and reason. The code is one of the game's own codes, 1,024 or above, or
// a suitable [Code] of this package. The reason is shortened to 256 bytes. Since the close may get
// lost, it is repeated for a few round trips for as long as the peer sends packets. A peer that
// misses all of these closes times out.
//
// Close logs a warning if code belongs to the packages below the game, such as 5, which the peer
// would see as a violation of the protocol, or ConnectionLost, after which it would dial again.
func (c *Conn) Close(code Code, reason string) {
	if c != nil {
		c.world.warnOfCode(code, reason)
		c.close(code, reason)
	}
}

// close implements Close.
func (c *Conn) close(code Code, reason string) {
	if !c.life.stop(&CloseError{Code: code, Reason: reason}) {
		return
	}

	// Send everything that was waiting for the next Flush.
	c.link.Lock()
	c.machine.Cork(false)
	c.link.Unlock()

	c.link.Close(uint64(code), reason)
}

// abort ends the connection immediately, without waiting for messages to be delivered. It is called
// when the peer or this side has broken a rule.
func (c *Conn) abort(cause *CloseError) {
	if c.life.stop(cause) {
		c.link.Abort(uint64(cause.Code), cause.Reason)
	}
}

// usable reports whether messages may be sent: see life.usable.
func (c *Conn) usable() bool { return c.life.usable() }

// String returns the connection's number, which is unique only within its world, its identity
// and its remote address.
func (c *Conn) String() string {
	name := c.name()
	if c == nil {
		return name
	}
	if identity := c.Identity(); identity != "" {
		name += fmt.Sprintf(" %q", identity)
	}
	if addr := c.RemoteAddr(); addr != nil {
		name += " " + addr.String()
	}
	return name
}

// name returns the connection's name without its identity and address.
func (c *Conn) name() string {
	if c == nil {
		return "no conn"
	}
	return fmt.Sprintf("conn %d", c.id)
}

// LogValue implements slog.LogValuer. On a client, it adds the local address to tell the clients of
// one program apart, because each world numbers its connections from 1.
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

// newMachine returns the state machine that sends and receives the connection's messages. Until
// Join, it accepts only channel 0, and holds at most minReceiveLimit bytes for the peer.
func (c *Conn) newMachine(now time.Time) *bunch.Conn {
	w := c.world
	config := w.config.Bunch
	config.Client = !c.server
	config.ReceiveLimit = minReceiveLimit
	config.SendLimit = w.config.SendLimit
	config.KeepAlive = 0
	if !c.server {
		// QUIC's own keep-alive packets are so small that a restarted server wouldn't answer them
		// with a stateless reset, so the machine sends keep-alives.
		config.KeepAlive = w.config.KeepAlive
	}
	config.Random = w.extended.Random(c.id)
	config.Rate = c.allowance.MaxRate()
	c.trace = w.trace.Tap(c.id, c.String(), now, &config)
	machine, err := bunch.NewConn(now, config)
	if err != nil {
		panic(err) // can't happen, because NewWorld has validated the config
	}
	machine.Refuse(bunch.Code(BunchPrematureChannel))
	return machine
}

// origin returns the source address whose limits the connection counts towards. It is zero on a
// client.
func (c *Conn) origin() netip.Prefix {
	if !c.server {
		return netip.Prefix{}
	}
	return door.AddressOf(c.RemoteAddr())
}

// start starts the link and the handshake. If the world is closed, start does nothing and returns
// the reason.
func (c *Conn) start() *CloseError {
	w := c.world
	machines := c.extended.Take(&w.extended, c.machine, &c.life.joined, c.id)
	config := link.Config{Wake: c.onWake, Ended: c.finish, Logger: w.log.With("conn", c)}
	if c.allowance.Limited() {
		config.Rate = c.allowance
	}

	// As soon as there's a link, it may end and call finish. The lobby makes finish wait until this
	// function has set all of these fields.
	return w.lobby.attach(c, func() {
		c.link = link.New(c.carrier, config, c.machine, machines...)
		c.extended.Link = c.link
		c.life.work.Go(func() { runHandshake(c) })
	})
}

// onWake is called by the link when something has arrived for the world or the handshake. It may
// run on a goroutine that finish is waiting for.
func (c *Conn) onWake() {
	if !c.life.joined.Load() {
		c.entry.wake.Ring()
		return
	}
	c.extended.Wake()
	c.requestDispatch()
}

// joinWorld hands a connection to the world at the end of its handshake. It returns false if the
// connection has ended or was evicted in the meantime.
func (c *Conn) joinWorld() (joined bool) {
	c.endOlderConns()
	if !c.world.lobby.join(c) {
		return false
	}
	c.applyReceiveLimit()
	close(c.life.welcomed)

	// Expect the Dispatch before onWake causes it. In the reverse order, the Dispatch might already
	// be over. In a world with nothing else to do, no other Dispatch would follow, and we would log
	// that nobody drives the world.
	c.expectDispatch()
	c.onWake()
	return true
}

// endOlderConns ends older connections of the same identity if there are now more than
// Config.MaxConnsPerIdentity. It waits until they have ended, so that the world learns of their end
// before it learns of c.
func (c *Conn) endOlderConns() {
	old, refused := c.world.lobby.claim(c)
	if refused != nil {
		// With RefuseLoginElsewhere, it's the new connection that ends. welcome has already checked
		// this, but other connections may have joined since.
		c.abort(refused)
	}
	c.entry.predecessors = append(c.entry.predecessors, old...)
	for _, other := range old {
		reason := fmt.Sprintf("%q logged in from elsewhere; Config.MaxConnsPerIdentity is %d",
			shape.Clip(c.identity), c.world.config.MaxConnsPerIdentity)
		other.abort(&CloseError{Code: LoginElsewhere, Reason: reason})
		select {
		case <-other.life.done:
		case <-c.link.Done():
		}
	}
}

// finish ends the connection after its link has ended. The link calls it once, on a new goroutine,
// because finish waits for goroutines that use the link, such as the sealed carrier's.
func (c *Conn) finish() {
	w := c.world
	w.lobby.markEnded(c)
	if c.sealed != nil {
		c.sealed.carriers.close()
		c.sealed.carriers.wait()
	}
	joined := w.lobby.detach(c)
	if !joined {
		c.trace.Ended("the handshake failed")
		if !c.life.refused.Load() {
			w.logs.LogUnjoined(logs.Failed, "handshake failed", "conn", c, "error", c.closeError())
		}
	}
	close(c.life.done)
	w.drive.Signal() // the world has to expel the connection

	// Done doesn't wait for this, but Wait does.
	c.life.work.Wait()
	if quic, ok := c.carrier.(*quicconn.Carrier); ok {
		quic.Wait()
	}
	close(c.life.stopped)
}

// setPriority sets the priority of a channel that the server has opened to that of the actor's
// class, as the server has done at its own end.
func (c *Conn) setPriority(channel uint64, p bunch.Priority) {
	c.link.Lock()
	defer c.link.Unlock()
	// An error means that the channel has already closed, because the close arrived together with
	// the open.
	_ = c.machine.SetPriority(channel, p)
}

// raiseReceiveLimit is called when the peer has to stop because too many bytes of its reliable
// messages are waiting here. It raises the peer's limit if Config.ReceiveBudget has room.
func (c *Conn) raiseReceiveLimit() {
	reserved := int(c.reserved.Load())
	limit := c.world.lobby.memory.Grow(reserved, c.world.config.ReceiveLimit)
	if limit > reserved {
		c.reserved.Store(int64(limit))
		c.applyReceiveLimit()
	}
}

// applyReceiveLimit sets the machine's limit to reserved.
func (c *Conn) applyReceiveLimit() {
	c.link.Lock()
	defer c.link.Unlock()
	// Load reserved while holding the lock, because otherwise the later of two concurrent calls
	// could set the older value.
	c.machine.SetReceiveLimit(int(c.reserved.Load()))
}

// A backlog is the memory held by unacknowledged reliable messages to a peer. World.sampleRates
// updates it at each of its samples.
type backlog struct {
	bytes     int       // at the last sample
	freed     uint64    // Stats.Freed of the machine at the last sample
	rate      float64   // bytes freed by acks from one sample to the next, smoothed
	lastSmall time.Time // when bytes was last below minReceiveLimit
}

// set records a sample.
func (b *backlog) set(bytes int, freed uint64, now time.Time) {
	b.rate += (float64(freed-b.freed) - b.rate) / 2
	b.freed = freed
	b.bytes = bytes
	if bytes < minReceiveLimit || b.lastSmall.IsZero() {
		b.lastSmall = now
	}
}

// maxSamples caps the number of samples until a backlog is acknowledged, which is infinite for a
// peer that acknowledges nothing. Beyond that number, peers differ only in their bytes and in how
// long they have held them.
const maxSamples = 60

// weight says how much the connection is to blame if Config.SendBudget is exceeded: the bytes of
// its backlog, multiplied by the number of samples until they are acknowledged at the current rate,
// and by the seconds since the backlog was last small. One second is added because even a new
// backlog takes memory.
func (b *backlog) weight(now time.Time) float64 {
	bytes := float64(b.bytes)
	samples := min(max(1, bytes/max(1, b.rate)), maxSamples)
	return bytes * samples * (now.Sub(b.lastSmall).Seconds() + 1)
}

// logClosed logs the error of a call or an open if it has closed the connection.
func (c *Conn) logClosed(err error) {
	if cause, ok := errors.AsType[*CloseError](err); ok {
		c.world.log.Error("connection closed by a call",
			"conn", c, "code", cause.Code.String(), "reason", cause.Reason)
	}
}

// openFailed returns the error for an open of an actor that the machine did not accept. If the
// machine has failed because it holds too much for the client (Config.SendLimit), openFailed also
// aborts the connection. The caller holds the link's lock.
func (c *Conn) openFailed(class *Class, err error) error {
	var fatal *bunch.Error
	switch {
	case !c.machine.OverSendLimit():
		return err
	case !errors.As(err, &fatal):
		return fmt.Errorf("%s: %w", c.describeOverLimit(), bunch.ErrReliableBufferFull)
	}
	cause := &CloseError{
		Code:   Code(fatal.Code),
		Reason: fmt.Sprintf("open %s: %s", class.name, c.describeOverLimit()),
		cause:  err,
	}
	c.abort(cause)
	return cause
}

// describeOverLimit is like Actor.describeFull, but for Config.SendLimit. The caller holds the
// link's lock.
func (c *Conn) describeOverLimit() string {
	return fmt.Sprintf("unacknowledged messages have reached the limit of %s (Config.SendLimit): %s",
		words.Bytes(c.world.config.SendLimit), c.describeUnacked())
}

// describeUnacked describes, for an error, how much memory unacknowledged messages hold on the
// connection, which calls these are, and what to do about them. The caller holds the link's lock.
func (c *Conn) describeUnacked() string {
	var held statnet.Holders
	var blocked time.Duration
	for _, channel := range c.channels.sorted() {
		a := c.channels.byNumber[channel]
		if o := a.openingOn(c); o != nil {
			a.listBuffered(&held, o)
			blocked = max(blocked, c.machine.BlockedFor(channel))
		}
	}
	return fmt.Sprintf("%d bytes on this connection, with %s on open channels; %s", c.machine.Stats().Unacked, held.String(), advice(blocked))
}

// needsTick reports whether the connection needs a tick even if nothing arrives.
func (c *Conn) needsTick() bool {
	switch {
	case !c.usable():
		return false
	case c.server && (c.shown.state.pending() || len(c.shown.unacked) > 0):
		return true
	case len(c.waiting.calls) > 0 || c.requests.asked.Len() > 0:
		// Waiting calls and requests may time out.
		return true
	}
	return c.times.ask.NeedsDriving() || c.mail.in.Open() > 0
}

// requestDispatch wakes the world and makes its next Dispatch look at the connection. It is safe
// for concurrent use.
func (c *Conn) requestDispatch() {
	if !c.life.joined.Load() {
		// If nobody drove the world for a while, World.callers would keep connections that never
		// join in memory. Once a connection has joined, admit calls requestDispatch again.
		return
	}
	c.world.callers.Call(c, &c.inFrame.inCallers)
	c.world.drive.Signal()
}

// expectDispatch makes the world log a warning if there is no Dispatch for undrivenTime although
// the connection is waiting for one, because neither end would notice otherwise. Call it before
// waking the world for that Dispatch.
func (c *Conn) expectDispatch() {
	// Don't let the timer refer to c, or it would keep an ended connection in memory.
	w, waiting := c.world, "clients are"
	if !c.server {
		waiting = "a connection to a server is"
	}
	w.lobby.expectDispatch(func() {
		w.log.Warn(waiting+" waiting for a Dispatch: nobody drives the world (World.Run, Tick, or Dispatch and Flush), or a game function does not return",
			"for", undrivenTime)
	})
}

// A channelTable holds the actors that have a channel on a connection.
//
// Only the world's goroutine writes byNumber, while holding mu. It may read byNumber without mu,
// but other goroutines need mu to read it.
type channelTable struct {
	mu       sync.Mutex
	byNumber map[uint64]*Actor

	// The last result of of; last is nil if there is none. Used only by the world's goroutine.
	last       *Actor
	lastNumber uint64
}

// of returns the actor of a channel, or nil if there is none. It caches the last result, because
// most messages are for the same actor as the message before, and a lookup in the map would often
// miss the processor's cache.
func (t *channelTable) of(channel uint64) *Actor {
	if t.last == nil || t.lastNumber != channel {
		t.last = t.byNumber[channel]
		t.lastNumber = channel
	}
	return t.last
}

// set sets the actor of a channel, or removes the channel if a is nil.
func (t *channelTable) set(channel uint64, a *Actor) {
	t.last = nil
	t.mu.Lock()
	defer t.mu.Unlock()
	if a == nil {
		delete(t.byNumber, channel)
		return
	}
	t.byNumber[channel] = a
}

// sorted returns the numbers of the channels in ascending order. Iterating over the map would use a
// different order in each run.
func (t *channelTable) sorted() []uint64 { return slices.Sorted(maps.Keys(t.byNumber)) }

// stats returns an entry for the control channel, followed by an entry for each open channel,
// sorted by number. Only the channel's number and class are filled in. actors is the number of
// channels that belong to actors of the game, rather than to extensions such as package stream.
// stats is safe for concurrent use.
func (t *channelTable) stats() (channels []ChannelStats, actors int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	channels = make([]ChannelStats, 1, len(t.byNumber)+1)
	for _, number := range t.sorted() {
		class := t.byNumber[number].class
		channels = append(channels, ChannelStats{Channel: number, Class: class.name})
		if !class.ofExtension() {
			actors++
		}
	}
	return channels, actors
}

// A Channel is an actor's channel on one connection. The zero Channel is closed. Its
// methods are safe for concurrent use.
type Channel struct {
	conn   *Conn
	number uint64
}

// withMachine calls fn with the machine of the channel's connection, under the link's lock. It
// does nothing for the zero Channel.
func (ch Channel) withMachine(fn func(machine *bunch.Conn)) {
	if ch.conn != nil {
		ch.conn.link.Lock()
		defer ch.conn.link.Unlock()
		fn(ch.conn.machine)
	}
}

// Open reports whether the connection is usable and this side has not closed the channel.
func (ch Channel) Open() (open bool) {
	ch.withMachine(func(machine *bunch.Conn) { open = ch.conn.usable() && machine.IsOpen(ch.number) })
	return open
}

// Reliable returns the number of entries in the channel's reliable buffer that are in use, and
// the total number. The last entry is reserved for the close. UE: NumOutRec, RELIABLE_BUFFER.
func (ch Channel) Reliable() (out, slots int) {
	ch.withMachine(func(machine *bunch.Conn) { out, slots = machine.Reliable(ch.number) })
	return out, slots
}

// QueueTime estimates how long it will take, at the current delivery rate, to send all bytes that
// are waiting on this channel and on other channels of the same or a higher priority. It returns 0
// while the rate is unknown.
func (ch Channel) QueueTime() (queued time.Duration) {
	ch.withMachine(func(machine *bunch.Conn) { queued = machine.QueueTime(ch.number) })
	return queued
}

// Gate returns what is currently holding up the channel's calls. If there are several causes, it
// returns the first in this list:
//
//	reliable buffer  no entry is free: the next reliable call closes the connection, or is an error (Config.Bunch.Overflow)
//	earlier channel  the actor was closed for the client and is opening again: the client has yet to acknowledge that close
//	flow control     the peer accepts no more reliable bytes until it has dispatched some: its Config.ReceiveLimit
//	rate             Config.Rate or WorldRate is used up, for unreliable calls and bulk (transfers of package stream)
//	window           the path accepts no more packets: its congestion window or pace, or an outage
//
// Gate returns "" if no calls are waiting, or if they are only waiting for Flush. It ignores
// states.
func (ch Channel) Gate() (gate string) {
	ch.withMachine(func(*bunch.Conn) { gate = ch.conn.gate(ch.number) })
	return gate
}

// Watch makes Run tick once as soon as the reliable buffer has fewer than out entries in use and
// QueueTime is at most queued, or if nothing in the buffer is in use. It fires once and replaces an
// earlier Watch of the channel. Without [World.Run], or if the channel closes first, nothing
// happens.
func (ch Channel) Watch(out int, queued time.Duration) {
	ch.withMachine(func(machine *bunch.Conn) { machine.Watch(ch.number, out, queued) })
}

// without deletes c from conns.
func without(conns []*Conn, c *Conn) []*Conn {
	return slices.DeleteFunc(conns, func(other *Conn) bool { return other == c })
}
