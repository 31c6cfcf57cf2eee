package rpc

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/budget"
	"github.com/quivernet/quiver/internal/door"
	"github.com/quivernet/quiver/internal/link"
	"github.com/quivernet/quiver/internal/logs"
	"github.com/quivernet/quiver/internal/quicconn"
	"github.com/quivernet/quiver/internal/refs"
	"github.com/quivernet/quiver/internal/shape"
	"github.com/quivernet/quiver/internal/tasks"
)

// HandshakeStats is a snapshot of who came to a world's door.
type HandshakeStats struct {
	Open    int    // clients on the way in now
	Begun   uint64 // got a place: forged first packets below Config.RetryAbove included
	Retries uint64 // had to prove their address first
	Refused uint64 // found a limit reached: MaxHandshakes, MaxConns, or one of their address; those that QUIC refuses count by packets
	Evicted uint64 // were waited for, and had to make room
	Failed  uint64 // had a carrier and did not join, for whatever reason

	LoginsFailed uint64 // Authenticate refused the token
	LoginsSlowed uint64 // were not asked about: see Config.MaxLoginFailures
}

// HandshakeStats returns a snapshot. It is safe from any goroutine.
func (w *World) HandshakeStats() HandshakeStats {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := &w.door.Counts
	return HandshakeStats{
		Open: w.door.Open(time.Now()), Begun: c.Begun, Retries: c.Retries, Refused: c.Refused, Evicted: c.Evicted, Failed: c.Failed,
		LoginsFailed: c.LoginsFailed, LoginsSlowed: c.LoginsSlowed,
	}
}

// visit is a connection's place at the door.
type visit = door.Visit[Conn]

// serverFull says what the door says as the world says it.
func serverFull(none *door.Full) *CloseError {
	if none == nil {
		return nil
	}
	return &CloseError{Code: ServerFull, Reason: none.Reason}
}

// Attach takes a carrier as the server's end of a connection. It returns at once: the handshake goes on by itself and
// ends in OnConnect, or with Done. The world owns the carrier from here, also after an error.
func (w *World) Attach(carrier Carrier) (*Conn, error) {
	if !w.IsServer() {
		err := fmt.Errorf("rpc: Attach on a client's world: %w", ErrWrongRole)
		_ = carrier.CloseWithError(uint64(HostClosedConnection), "this is a client")
		return nil, err
	}
	return w.attach(linkedCarrier(carrier), true, nil)
}

// Connect takes a carrier as the client's end of a connection and returns when the server has welcomed it. The world
// need not be driven for that. The world owns the carrier from here, also after an error.
//
// The first Connect makes the world a client's for good, so it must have no listener, and no actors or connections of a server.
// A client's world may connect again, to the same server or another, after a connection has ended or beside it: each
// connection has actors of its own, which [Actor.Conn] tells apart, and which end in the Dispatch that runs its OnDisconnect.
func (w *World) Connect(ctx context.Context, carrier Carrier) (*Conn, error) {
	return w.connect(ctx, linkedCarrier(carrier))
}

func (w *World) connect(ctx context.Context, carrier link.Carrier) (*Conn, error) {
	if err := w.becomeClient(); err != nil {
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

// becomeClient makes the world a client's.
func (w *World) becomeClient() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.client.Load() {
		return nil
	}
	if w.actors.alive.Load() > 0 || w.serial > 0 || w.listeners > 0 {
		return fmt.Errorf("rpc: a world that listens, or has actors or clients, can not connect to a server: %w", ErrWrongRole)
	}
	w.client.Store(true)
	return nil
}

// attach makes a connection; v is the place that a client of [Listen] has at the door already.
func (w *World) attach(carrier link.Carrier, server bool, v *visit) (*Conn, error) {
	w.freeze()
	c := &Conn{
		world:         w,
		server:        server,
		carrier:       carrier,
		done:          make(chan struct{}),
		gone:          make(chan struct{}),
		welcomed:      make(chan struct{}),
		handshakeWake: make(chan struct{}, 1),
		channels:      make(map[uint64]*Actor), actorsByRef: make(map[Ref]*Actor), referrers: make(refs.Index[Ref, replica]), openings: make(map[*Actor]*opening),
		leaving: make(map[Ref]uint64), asleep: make(map[*Actor]CloseReason), razed: make(map[string]bool),
		limits: make(map[*method]budget.Bucket), requests: newRequests(w.config.maxRequests()),

		allowance: budget.NewAllowance(w.config.Rate, w.rate),
	}
	if full := w.enlist(c, c.origin(), v); full != nil {
		w.logs.Warn(logs.Refused, "connection refused", "conn", c, "code", full.Code.String(), "reason", full.Reason)
		_ = carrier.CloseWithError(uint64(full.Code), full.Reason)
		return nil, full
	}
	config := w.config.Bunch
	config.Client, config.ReceiveLimit = !server, minReceiveLimit
	config.Random, config.Rate = w.guests.Random(c.id), c.allowance.Most()
	if config.IdleTimeout == 0 {
		config.IdleTimeout = w.config.idleTimeout()
	}
	now := time.Now()
	c.trace = w.trace.Tap(c.id, c.String(), now, &config)
	machine, err := bunch.NewConn(now, config)
	if err != nil { // NewWorld has tried the same
		panic(err)
	}
	machine.Refuse(bunch.Code(BunchPrematureChannel)) // nobody opens anything before Join
	c.machine = machine
	c.rates.Start(now)
	c.sealed = newSealedCarrier(c)
	closed := c.start(carrier)
	w.attaching.Done()
	if closed != nil { // while this was under way
		c.Close(closed.Code, closed.Reason)
	}
	return c, nil
}

// enlist counts a new connection against the limits of the world, or says which one is reached. v is its place among the
// handshakes, nil when its carrier came without. A Close of the world waits for what was enlisted to be live.
func (w *World) enlist(c *Conn, from netip.Prefix, v *visit) *CloseError {
	w.mu.Lock()
	if w.closed != nil {
		w.door.TurnAway(v)
		w.mu.Unlock()
		return &CloseError{Code: HostClosedConnection, Reason: "the world is closed"}
	}
	v, out, none := w.door.Admit(v, from, time.Now(), w.takeMemory)
	if c.visit = v; none == nil {
		c.reserved.Store(minReceiveLimit)
		w.serial++
		c.id = w.serial
		w.attaching.Add(1)
	}
	w.mu.Unlock()
	w.evict(out)
	return serverFull(none)
}

// takeMemory reserves what a connection may hold before Join.
func (w *World) takeMemory() *door.Full {
	if w.memory.Enter() {
		return nil
	}
	return &door.Full{Reason: fmt.Sprintf("no %d bytes left of Config.ReceiveBudget, %d", minReceiveLimit, w.config.receiveBudget())}
}

// origin returns what the limits of an address count by: nothing on a client.
func (c *Conn) origin() netip.Prefix {
	if !c.server {
		return netip.Prefix{}
	}
	return door.AddressOf(c.RemoteAddr())
}

// leave ends a visit. It may be called from each place where a handshake can end; the first call counts.
func (w *World) leave(v *visit) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.door.Leave(v)
}

// await says that c has answered its client's Login, and may have to make room until the client joins or leaves.
func (w *World) await(c *Conn, welcomed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.door.Await(c.visit, c, welcomed)
}

// evict ends a handshake that has to make room, also one that is telling its client why it is refused. It does nothing for nil.
func (w *World) evict(c *Conn) {
	if c == nil {
		return
	}
	full := &CloseError{Code: ServerFull, Reason: "it had not joined yet, and a full server or address gave its place away: see Config.MaxHandshakes, MaxHandshakesPerAddress"}
	c.stop(full)
	c.link.Abort(uint64(full.Code), full.Reason)
}

// start begins the connection's traffic, under World.mu, so that finish finds all of it set. It returns why the world is closed, nil when
// it is not.
func (c *Conn) start(carrier link.Carrier) *CloseError {
	w := c.world
	machines := c.guests.Take(&w.guests, c.machine, &c.joined)
	config := link.Config{Wake: c.onWake, Ended: c.finish, Logger: w.log.With("conn", c)}
	if c.allowance.Limited() {
		config.Rate = c.allowance
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	c.link = link.New(carrier, config, machines...)
	c.guests.Link = c.link
	w.attached[c] = struct{}{}
	if c.server {
		c.visit.WaitFor(c) // until it has said Login
	}
	c.work.Go(c.shake)
	return w.closed
}

// onWake is called by the link, on any goroutine, even on one that finish waits for.
func (c *Conn) onWake() {
	if !c.joined.Load() {
		select {
		case c.handshakeWake <- struct{}{}:
		default:
		}
		return
	}
	c.guests.Woken.Store(true)
	c.readable.Store(true)
	c.world.drive.Signal()
}

// enter hands a connection that has joined to the world, and reports false when it ended meanwhile or had to make room.
func (c *Conn) enter() (in bool) {
	w := c.world
	c.replace()
	w.mu.Lock()
	if c.closing.Load() || c.ended.Load() || c.visit.Left() {
		w.mu.Unlock()
		return false
	}
	c.joined.Store(true)
	limit := w.memory.Join(w.config.receiveLimit())
	c.reserved.Store(int64(limit))
	w.door.Join(c.visit)
	w.inbox.joined = append(w.inbox.joined, c)
	w.mu.Unlock()

	c.tellLimit()
	close(c.welcomed)
	c.onWake()
	return true
}

// finish does what is left to do when the link has ended. The link calls it once, on a goroutine for which nobody waits: it
// waits itself for goroutines that use the link, such as the sealed carrier's, which may be on their way into onWake.
func (c *Conn) finish() {
	w := c.world
	w.mu.Lock()
	c.ended.Store(true)
	w.mu.Unlock()
	if c.sealed != nil {
		c.sealed.close()
		c.sealed.wait()
	}
	w.mu.Lock()
	delete(w.attached, c)
	joined := c.joined.Load()
	if joined {
		w.inbox.ended = append(w.inbox.ended, c) // expel does the rest when its last message has run
		w.door.Quit(c.visit.From())
	} else {
		w.memory.Leave(int(c.reserved.Load()))
		w.door.Fail(c.visit)
		w.answered.Broadcast()
		if c.loginAsked.Load() {
			w.inbox.refused = append(w.inbox.refused, c)
		}
	}
	w.door.Claims.Disclaim(c.identity, c)
	w.mu.Unlock()
	if !joined {
		c.trace.Ended("the handshake failed")
		w.logs.Warn(logs.Failed, "handshake failed", "conn", c, "error", c.closeError())
	}
	close(c.done)
	w.drive.Signal()
	c.work.Wait()
	if quic, ok := c.carrier.(*quicconn.Carrier); ok {
		quic.Wait()
	}
	close(c.gone)
}

// claim makes c one of its identity's connections, and returns those that are too many now, the oldest first. With
// Config.RefuseLoginElsewhere c is one too many instead: refused says so. A client claims nothing.
func (w *World) claim(c *Conn) (replaced []*Conn, refused *CloseError) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !c.server || c.ended.Load() {
		return nil, nil
	}
	replaced, others, full := w.door.Claims.Claim(c.identity, c)
	if full {
		refused = &CloseError{Code: LoginElsewhere,
			Reason: fmt.Sprintf("%q has %d connections, the limit is Config.MaxConnsPerIdentity", shape.Clip(c.identity), others)}
	}
	return replaced, refused
}

// replace ends the connections that c is one too many beside, and waits for their end, so that the world hears of it before
// it hears of c.
func (c *Conn) replace() {
	old, refused := c.world.claim(c)
	if refused != nil { // claimed before Welcome
		c.abort(refused)
	}
	c.replaced = append(c.replaced, old...)
	for _, o := range old {
		o.abort(&CloseError{Code: LoginElsewhere,
			Reason: fmt.Sprintf("%q logged in from elsewhere; the limit is %d connections, Config.MaxConnsPerIdentity", shape.Clip(c.identity), c.world.config.MaxConnsPerIdentity)})
		select {
		case <-o.done:
		case <-c.link.Done():
		}
	}
}

// admit introduces a connection to the world's game, in tasks.
func (w *World) admit(c *Conn) {
	w.announced = append(w.announced, c)
	w.watchCalls(c)
	w.log.Info("connected", "conn", c)
	c.trace.Joined(c.identity)
	w.game.Later(c, tasks.Doing{}, func() { w.razeFor(c) })
	w.openOwned(c)
	for a := range w.actors.always.all {
		w.game.Later(c, tasks.Doing{What: "the state of ", Of: a.class}, func() { _ = w.openAlways(a, c) })
	}
	for _, hook := range w.onConnect {
		w.game.Later(c, tasks.Doing{What: "an OnConnect hook"}, func() { hook(c) })
	}
	if w.config.OnConnect != nil {
		w.game.Later(c, tasks.Doing{What: "Config.OnConnect"}, func() { w.config.OnConnect(w, c) })
	}
}

// openOwned opens, in tasks, what Config.Login gave to a connection that has joined.
func (w *World) openOwned(c *Conn) {
	for a := range c.owned.all {
		for _, heir := range a.household(nil) {
			w.game.Later(c, tasks.Doing{What: "the state of ", Of: heir.class}, func() {
				if heir.conn == c {
					w.openAlways(heir, c)
				}
			})
		}
	}
}

// openAlways opens an AlwaysRelevant actor, or one that is relevant, for a connection.
func (w *World) openAlways(a *Actor, c *Conn) error {
	if a.dead || a.torn { // since this task was made
		return nil
	}
	err := a.OpenTo(c)
	if err == nil || !c.usable() || a.dead {
		return nil
	}
	a.notOpened(c, err)
	return err
}

// expel takes a connection that has ended out of the world's game, in tasks.
func (w *World) expel(c *Conn) {
	w.discard(c)
	w.unwatchCalls(c)
	w.relevance.expel(w.announced, c)
	w.memory.Leave(int(c.reserved.Load()))
	w.announced = slices.DeleteFunc(w.announced, func(other *Conn) bool { return other == c })
	w.mu.Lock()
	w.door.End()
	w.mu.Unlock()
	err := c.closeError()
	if err.Code == ReliableBufferOverflow {
		w.overflows++
	}
	c.requests.end(nil, err)
	c.trace.Ended(err.Code.String())
	w.log.Info("disconnected", "conn", c, "code", err.Code.String(), "reason", err.Reason, "remote", err.Remote)
	for _, channel := range slices.Sorted(maps.Keys(c.channels)) {
		w.game.Later(c, tasks.Doing{}, func() { c.endActor(channel) })
	}
	for _, ref := range slices.Sorted(maps.Keys(c.actorsByRef)) {
		w.game.Later(c, tasks.Doing{}, func() { c.endSleeper(ref) })
	}
	for a := range c.asleep {
		a.wakeAt(c)
	}
	for _, hook := range w.onDisconnect {
		w.game.Later(c, tasks.Doing{What: "an OnDisconnect hook"}, func() { hook(c, err) })
	}
	if w.config.OnDisconnect != nil {
		w.game.Later(c, tasks.Doing{What: "Config.OnDisconnect"}, func() { w.config.OnDisconnect(w, c, err) })
	}
	w.game.Later(c, tasks.Doing{}, c.destroyOwned)
}

// endActor closes the actor of a channel: a client's copy ends, a server's actor is no longer open there.
func (c *Conn) endActor(channel uint64) {
	a := c.channels[channel]
	if a == nil { // the game ended it meanwhile
		return
	}
	c.setChannel(channel, nil)
	if o := a.openingOn(c); o != nil {
		a.forget(o)
	}
	if !c.server {
		a.end(Disconnected)
	}
}

// endSleeper ends, on a client, a copy that is dormant.
func (c *Conn) endSleeper(ref Ref) {
	if a := c.actorsByRef[ref]; a != nil && !a.torn {
		a.end(Disconnected)
	}
}
