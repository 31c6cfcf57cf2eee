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
	"time"

	"github.com/quivernet/quiver/internal/bell"
	"github.com/quivernet/quiver/internal/budget"
	"github.com/quivernet/quiver/internal/door"
	"github.com/quivernet/quiver/internal/link"
	"github.com/quivernet/quiver/internal/logs"
	"github.com/quivernet/quiver/internal/quicconn"
	"github.com/quivernet/quiver/internal/roster"
	"github.com/quivernet/quiver/internal/shape"
	"github.com/quivernet/quiver/internal/tasks"
)

// A Carrier is the transport of one connection: it exchanges datagrams with one peer. Datagrams
// may be lost, and may arrive in any order.
//
// [Listen] and [Dial] make carriers from QUIC connections. [World.Attach] and [World.Connect]
// accept any other carrier, such as a WebTransport session. Tests in virtual time can use a pair
// in memory, like the one in bubble_test.go.
//
// A carrier must encrypt and authenticate datagrams, because nothing above it does. Its methods
// are called concurrently.
//
// It may have two more methods:
//
//   - RemoteAddr() net.Addr returns the peer's address. [Conn.RemoteAddr] returns it, and it is
//     the address to which the per-address limits apply.
//   - SendQueue() int returns the number of datagrams that the carrier accepts, and sends in
//     order, before SendDatagram blocks. The number must never change. With SendQueue, calls are
//     sent without waking a goroutine.
type Carrier interface {
	// SendDatagram sends p without retaining it. It may block, but CloseWithError must then
	// unblock it. It must accept 1,163 bytes, and it returns a [*TooLargeError] for a datagram
	// that is too large for the path. Any other error ends the connection.
	SendDatagram(p []byte) error

	// ReceiveDatagram returns the next datagram, which the caller may keep. It returns soon
	// after ctx is done. Any error ends the connection.
	//
	// If the peer has closed the connection, the error should be, or wrap, a [*CloseError] with
	// Remote set and the peer's code and reason. Any other error becomes the cause of
	// ConnectionLost.
	ReceiveDatagram(ctx context.Context) ([]byte, error)

	// Path returns what the carrier currently knows about the path. It is called for every
	// datagram and must not block.
	Path() Path

	// CloseWithError closes the connection and sends code and reason to the peer. code is a
	// [Code], and reason has at most 256 bytes. It is called once, at the end.
	CloseWithError(code uint64, reason string) error
}

// Path describes the path to a peer, as its [Carrier] knows it. A zero field is unknown.
type Path struct {
	Cwnd        int           // bytes that may be in flight; any more would wait inside the carrier
	SmoothedRTT time.Duration // round trip time
	MaxDatagram int           // bytes that SendDatagram accepts, at least 1,163; 0 means 1,163
}

// A TooLargeError is returned by a [Carrier]'s SendDatagram for a datagram that is too large
// for the path. We then send its content again in smaller datagrams.
type TooLargeError struct {
	Max int // size of the largest datagram that the path takes now, in bytes
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("rpc: datagram too large, the path takes %d bytes", e.Max)
}

// A carrierAdapter turns a Carrier into a link.Carrier by adding the methods that a Carrier may
// lack.
type carrierAdapter struct{ Carrier }

// SendQueue returns 0 if the Carrier has no SendQueue.
func (a carrierAdapter) SendQueue() int {
	if q, ok := a.Carrier.(interface{ SendQueue() int }); ok {
		return q.SendQueue()
	}
	return 0
}

// RemoteAddr returns nil if the Carrier has no RemoteAddr.
func (a carrierAdapter) RemoteAddr() net.Addr {
	if addressed, ok := a.Carrier.(interface{ RemoteAddr() net.Addr }); ok {
		return addressed.RemoteAddr()
	}
	return nil
}

func (a carrierAdapter) Path() link.Path { return link.Path(a.Carrier.Path()) }

func (a carrierAdapter) SendDatagram(p []byte) error { return linkError(a.Carrier.SendDatagram(p)) }

func (a carrierAdapter) ReceiveDatagram(ctx context.Context) ([]byte, error) {
	p, err := a.Carrier.ReceiveDatagram(ctx)
	return p, linkError(err)
}

// linkError converts an error from a Carrier into the one that package link expects.
func linkError(err error) error {
	if large, ok := errors.AsType[*TooLargeError](err); ok {
		return &link.TooLargeError{Max: large.Max}
	}
	if closed, ok := errors.AsType[*CloseError](err); ok {
		return &link.CloseError{
			Code:   uint64(closed.Code),
			Reason: closed.Reason,
			Remote: closed.Remote,
			Cause:  err,
		}
	}
	return err
}

// HandshakeStats counts the clients that have connected or have tried to.
type HandshakeStats struct {
	Open    int    // in their handshake now
	Begun   uint64 // got a place; below Config.RetryAbove, this includes forged first packets
	Retries uint64 // had to prove their address first

	// Refused counts clients that hit a limit: MaxHandshakes, MaxConns, or a limit per address.
	// A client that QUIC refuses counts once for each packet.
	Refused uint64

	Evicted uint64 // lost their place during their handshake, to make room for another client
	Failed  uint64 // had a carrier but didn't join, for any reason

	LoginsFailed uint64 // logins that Authenticate refused
	LoginsSlowed uint64 // logins refused without asking Authenticate: see Config.MaxLoginFailures
}

// HandshakeStats returns a snapshot. It is safe for concurrent use.
func (w *World) HandshakeStats() HandshakeStats { return w.lobby.stats() }

// Attach uses carrier as the server's end of a new connection. It returns without waiting for the
// handshake, which runs in the background and ends with OnConnect or Done. The world owns the
// carrier from this call on, even if Attach returns an error.
func (w *World) Attach(carrier Carrier) (*Conn, error) {
	if !w.IsServer() {
		err := errorf("rpc: Attach on a client's world; a client takes its end by Connect: %w", ErrWrongRole)
		_ = carrier.CloseWithError(uint64(HostClosedConnection), "this is a client")
		return nil, err
	}
	return w.attach(carrierAdapter{carrier}, true, nil)
}

// Connect uses carrier as the client's end of a new connection, and returns when the server
// has welcomed the client. The world need not be driven for that. The world owns the
// carrier from this call on, even if Connect returns an error.
//
// The first Connect makes the world a client for good, so the world must not have a listener,
// actors or clients. A client may connect again, to the same server or another one, whether its
// earlier connections have ended or not. Each connection has its own actors, for which
// [Actor.Conn] returns that connection. The actors end in the Dispatch that runs the connection's
// OnDisconnect.
func (w *World) Connect(ctx context.Context, carrier Carrier) (*Conn, error) {
	return w.connect(ctx, carrierAdapter{carrier})
}

// connect attaches the carrier of a client, and waits until the server welcomes us, unless the
// connection or ctx ends first.
func (w *World) connect(ctx context.Context, carrier link.Carrier) (*Conn, error) {
	if err := w.lobby.becomeClient(w.actors.alive.Load()); err != nil {
		_ = carrier.CloseWithError(uint64(HostClosedConnection), "this is a server")
		return nil, err
	}
	c, err := w.attach(carrier, false, nil)
	if err != nil {
		return nil, err
	}
	select {
	case <-c.welcomed:
		return c, nil
	case <-c.done:
		return nil, c.closeError()
	case <-ctx.Done():
		c.abort(&CloseError{Reason: "the client gave up"})
		<-c.done
		return nil, context.Cause(ctx)
	}
}

// attach makes a connection from a carrier. v is the client's place among the handshakes if it
// came through a [Listener], and nil otherwise.
func (w *World) attach(carrier link.Carrier, server bool, v *visit) (*Conn, error) {
	w.freeze()
	c := &Conn{
		world:         w,
		server:        server,
		carrier:       carrier,
		done:          make(chan struct{}),
		stopped:       make(chan struct{}),
		welcomed:      make(chan struct{}),
		handshakeWake: bell.New(),
		channels:      make(map[uint64]*Actor),
		limits:        make(map[*method]budget.Bucket),
		requests:      newRequests(w.config.MaxRequests),
		allowance:     budget.NewAllowance(w.config.Rate, w.rate),
	}
	if server {
		c.shown = newShown()
	} else {
		c.copies = newCopies()
	}

	// Take a place in the world, which may cost another client its handshake.
	evicted, full := w.lobby.enlist(c, c.origin(), v)
	w.evict(evicted)
	if full != nil {
		w.logs.Stranger(logs.Refused, "connection refused",
			"conn", c, "code", full.Code.String(), "reason", full.Reason)
		_ = carrier.CloseWithError(uint64(full.Code), full.Reason)
		return nil, full
	}

	now := time.Now()
	c.machine = c.newMachine(now)
	c.rates.Start(now)
	c.sealed = newSealedCarrier(c)
	closed := c.start(carrier)
	w.lobby.attaching.Done()
	if closed != nil {
		// The world was closed in the meantime.
		c.Close(closed.Code, closed.Reason)
	}
	return c, nil
}

// origin returns the address to which the connection is charged in the per-address limits. It is
// zero on a client.
func (c *Conn) origin() netip.Prefix {
	if !c.server {
		return netip.Prefix{}
	}
	return door.AddressOf(c.RemoteAddr())
}

// evict ends a handshake to make room for another one. It does nothing if c is nil.
func (w *World) evict(c *Conn) {
	if c == nil {
		return
	}
	busy := &CloseError{
		Code:   ServerBusy,
		Reason: "it had not joined yet, and a full server or address gave its place away: see Config.MaxHandshakes, MaxHandshakesPerAddress",
	}

	// Abort the link even if we have already closed the connection and are still sending the
	// client a refusal. Conn.abort wouldn't do so in that case.
	c.stop(busy)
	c.link.Abort(uint64(busy.Code), busy.Reason)
}

// start starts the link and the handshake. It returns why the world was closed, or nil if it
// is open.
func (c *Conn) start(carrier link.Carrier) *CloseError {
	w := c.world
	machines := c.extended.Take(&w.extended, c.machine, &c.joined)
	config := link.Config{Wake: c.onWake, Ended: c.finish, Logger: w.log.With("conn", c)}
	if c.allowance.Limited() {
		config.Rate = c.allowance
	}

	// As soon as there's a link, it may end and call finish. The lobby makes finish wait until
	// all of these fields are set.
	return w.lobby.attach(c, func() {
		c.link = link.New(carrier, config, c.machine, machines...)
		c.extended.Link = c.link
		c.work.Go(c.runHandshake)
	})
}

// onWake is called by the link when something has arrived for the world or the handshake. It may
// run on a goroutine that finish is waiting for.
func (c *Conn) onWake() {
	if !c.joined.Load() {
		c.handshakeWake.Ring()
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
	close(c.welcomed)

	// Expect the Dispatch before onWake causes it. If the world has nothing else to do, no
	// further Dispatch follows, and we would warn that nobody drives the world.
	c.expectDispatch()
	c.onWake()
	return true
}

// finish ends the connection after its link has ended. The link calls it once, on a new
// goroutine, because it has to wait for goroutines that use the link, such as the sealed
// carrier's.
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
		if !c.refused.Load() {
			w.logs.Stranger(logs.Failed, "handshake failed", "conn", c, "error", c.closeError())
		}
	}
	close(c.done)
	w.drive.Signal() // the world has to expel the connection

	// Done doesn't wait for this, but Wait does.
	c.work.Wait()
	if quic, ok := c.carrier.(*quicconn.Carrier); ok {
		quic.Wait()
	}
	close(c.stopped)
}

// endOlderConns ends older connections of the same identity if there are more than
// Config.MaxConnsPerIdentity now. It waits until they have ended, so that the world learns of
// their end before it learns of c.
func (c *Conn) endOlderConns() {
	old, refused := c.world.lobby.claim(c)
	if refused != nil {
		// With RefuseLoginElsewhere, the new connection is the one that ends. welcome has already
		// checked this, but others may have joined since.
		c.abort(refused)
	}
	c.predecessors = append(c.predecessors, old...)
	for _, other := range old {
		reason := fmt.Sprintf("%q logged in from elsewhere; Config.MaxConnsPerIdentity is %d",
			shape.Clip(c.identity), c.world.config.MaxConnsPerIdentity)
		other.abort(&CloseError{Code: LoginElsewhere, Reason: reason})
		select {
		case <-other.done:
		case <-c.link.Done():
		}
	}
}

// admit announces a connection that has joined to the game. The hooks and the opens are queued
// as tasks, so that each of them runs even if another one panics.
func (w *World) admit(c *Conn) {
	w.announced = append(w.announced, c)
	c.admitted = true
	c.requestDispatch() // something may have arrived while c waited in joining
	w.watchCalls(c)
	w.logs.Guest(slog.LevelInfo, logs.Joined, c.party(), "connected", "conn", c)
	logSealedMismatch(c)
	c.trace.Joined(c.identity)
	for _, hook := range w.extended.Joined {
		w.game.Later(c, tasks.Doing{}, func() { hook(c) })
	}
	w.game.Later(c, tasks.Doing{}, func() { w.tellGonePlaced(c) })
	w.openOwned(c)
	w.greeting.conn = c
	for _, hook := range w.onConnect {
		w.game.Later(c, tasks.Doing{What: "an OnConnect hook"}, func() { hook(c) })
	}
	if w.config.OnConnect != nil {
		w.game.Later(c, tasks.Doing{What: "Config.OnConnect"}, func() { w.config.OnConnect(w, c) })
	}
	for a := range w.actors.always.all {
		w.game.Later(c, tasks.Doing{What: "the state of ", Of: a.class}, func() { w.greeting.show(a) })
	}
	w.game.Later(c, tasks.Doing{}, func() { w.greeting = greeting{} })
}

// A greeting is the part of a connection's admission in which OnConnect runs and then the
// AlwaysRelevant actors open. Because of this order, an actor that OnConnect gives to the
// connection opens as the connection's own. UE: nothing replicates to a connection before
// PostLogin returns.
type greeting struct {
	conn   *Conn           // the connection that is joining, or nil
	closed map[*Actor]bool // don't open these, because the game has called CloseTo(conn) for them
}

// show opens an AlwaysRelevant actor for the connection that is joining, if there is one. It is
// called when the actor's turn comes, or earlier if OnConnect calls one of its Multicasts.
func (g *greeting) show(a *Actor) {
	isListed := a.seats.always != roster.Seat{} // not anymore if it was destroyed or torn off
	if g.conn != nil && isListed && !g.closed[a] {
		_ = a.world.openAlways(a, g.conn)
	}
}

// close prevents this greeting from opening an actor that the game has closed for c.
func (g *greeting) close(a *Actor, c *Conn) {
	if c != g.conn {
		return
	}
	if g.closed == nil {
		g.closed = make(map[*Actor]bool)
	}
	g.closed[a] = true
}

// openOwned queues the opens of the actors that Config.Login has given to a connection, and of
// the actors that those own in turn.
func (w *World) openOwned(c *Conn) {
	for root := range c.shown.owned.all {
		for _, a := range root.withOwned(nil) {
			w.game.Later(c, tasks.Doing{What: "the state of ", Of: a.class}, func() {
				if a.conn == c { // a hook may have given the actor to somebody else
					w.openAlways(a, c)
				}
			})
		}
	}
}

// openAlways opens an actor for a connection. It logs any error before returning it.
func (w *World) openAlways(a *Actor, c *Conn) error {
	if a.dead || a.tornOff {
		return nil // this happened while the open was queued
	}
	err := a.ensureOpen(c)
	if err == nil || !c.usable() || a.dead {
		return nil
	}
	a.logNotOpened(c, err)
	return err
}

// expel undoes admit after a connection has ended. The end of its actors and the OnDisconnect
// hooks are queued as tasks.
func (w *World) expel(c *Conn) {
	w.discard(c)
	if c.watched != nil {
		w.dos.detector.Leave(c.watched.peer)
	}
	w.relevance.connLeaves(w.announced, c)
	w.lobby.free(c)
	w.announced = slices.DeleteFunc(w.announced, func(other *Conn) bool { return other == c })
	w.frame.remove(c)
	c.admitted = false

	err := c.closeError()
	if err.Code == ReliableBufferOverflow {
		w.overflows++
	}
	c.requests.end(nil, err)
	w.background.jobs.End(&c.requests.running, c.party())
	c.trace.Ended(err.Code.String())
	w.logs.Guest(slog.LevelInfo, logs.Left, c.party(), "disconnected",
		"conn", c, "code", err.Code.String(), "reason", err.Reason, "remote", err.Remote)

	// Sort the channels, because the order of a map differs from run to run.
	for _, channel := range slices.Sorted(maps.Keys(c.channels)) {
		w.game.Later(c, tasks.Doing{}, func() { c.endActor(channel) })
	}
	for _, ref := range slices.Sorted(maps.Keys(c.copies.byRef)) {
		w.game.Later(c, tasks.Doing{}, func() { c.endDetached(ref) })
	}
	c.shown.unacked = nil
	for a := range c.shown.detached {
		a.forgetDetached(c)
	}

	for _, hook := range w.onDisconnect {
		w.game.Later(c, tasks.Doing{What: "an OnDisconnect hook"}, func() { hook(c, err) })
	}
	if w.config.OnDisconnect != nil {
		w.game.Later(c, tasks.Doing{What: "Config.OnDisconnect"}, func() { w.config.OnDisconnect(w, c, err) })
	}
	w.game.Later(c, tasks.Doing{}, c.destroyOwned)
}

// endActor clears one channel of a connection that has ended. On a server, the actor is just no
// longer open there. On a client, the copy ends.
func (c *Conn) endActor(channel uint64) {
	a := c.channels[channel]
	if a == nil {
		return // the game has ended the actor in the meantime
	}
	c.setChannel(channel, nil)
	if o := a.openingOn(c); o != nil {
		a.forget(o)
	}
	if !c.server {
		// Drop the references in its states first. Otherwise, if the states refer to a torn-off
		// copy, OnRep would run later, when that copy ends.
		a.states.removeReferences(c)
		a.end(Disconnected)
	}
}

// endDetached is called after the client's connection has ended, to end a copy whose channel had
// closed earlier. A torn-off copy survives, because it belongs to the client.
func (c *Conn) endDetached(ref Ref) {
	if a := c.copies.byRef[ref]; a != nil && !a.tornOff {
		a.states.removeReferences(c)
		a.end(Disconnected)
	}
}
