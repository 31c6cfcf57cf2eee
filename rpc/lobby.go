package rpc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/internal/budget"
	"github.com/quivernet/quiver/internal/door"
	"github.com/quivernet/quiver/internal/shape"
	"github.com/quivernet/quiver/internal/words"
)

// A lobby tracks a world's connections from their first packet to their end. It also holds the
// inbox, in which other goroutines leave work for the world's goroutine. Its methods are safe for
// concurrent use.
type lobby struct {
	config Config
	client atomic.Bool    // set when the world first connects to a server; never cleared
	shut   chan struct{}  // closed when the world is closed
	memory *budget.Memory // Config.ReceiveBudget, shared by all connections; has its own lock

	mu        sync.Mutex       // guards the fields below
	closed    *CloseError      // why the world was closed; nil while it's open
	listeners int              // number of open listeners
	serial    uint64           // id of the newest connection, counted from 1
	door      *door.Door[Conn] // enforces the limits on clients, by address and by identity

	// Uses mu. Signaled when Authenticate has answered, and when a client that may have been
	// waiting for its turn to be authenticated leaves.
	answered *sync.Cond

	// Counts connections between enlist and attach. None is added after closed is set.
	attaching sync.WaitGroup

	attached map[*Conn]struct{} // connections that haven't ended, including half-open ones
	inbox    inbox
}

// An inbox holds the work that other goroutines have left for the world's goroutine. The next
// Dispatch takes everything.
type inbox struct {
	conns handover
	posts []func()

	dispatches uint64 // number of Dispatches that have taken the inbox
	alarmed    bool   // expectDispatch has reported that nothing drives the world
}

// A handover lists the connections that the world's goroutine has to handle.
type handover struct {
	joined  []*Conn
	ended   []*Conn
	refused []*Conn // ended before Join, after Config.Login was called or scheduled for them
}

// undrivenTime is how long a connection may wait for a Dispatch before we log that nothing drives
// the world. It is far longer than a tick, and shorter than the default HandshakeTimeout, after
// which the clients would be gone.
const undrivenTime = 5 * time.Second

// A handshakeSlot is one of the Config.MaxHandshakes slots that clients occupy from their first
// packet until they have joined or failed.
type handshakeSlot = door.Slot[Conn]

// open sets up the lobby of a new world.
func (l *lobby) open(config Config) {
	limits := door.Limits{
		MaxHandshakes: config.MaxHandshakes, MaxHandshakesPerAddress: config.MaxHandshakesPerAddress,
		MaxConnsPerAddress: config.MaxConnsPerAddress, RetryAbove: config.RetryAbove, MaxConns: config.MaxConns,
	}
	l.config = config
	l.shut = make(chan struct{})
	l.memory = budget.NewMemory(config.ReceiveBudget, minReceiveLimit, config.MaxConns)
	claims := door.NewClaims[Conn](config.MaxConnsPerIdentity, config.RefuseLoginElsewhere)
	l.door = door.New(limits, door.NewFailures(config.MaxLoginFailures), claims)
	l.answered = sync.NewCond(&l.mu)
	l.attached = make(map[*Conn]struct{})
}

// close makes the lobby refuse any further connections and posts. Only the first call has an
// effect.
func (l *lobby) close(why *CloseError) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed == nil {
		l.closed = why
		close(l.shut)
	}
}

// cause returns why the world was closed, or nil while it's open.
func (l *lobby) cause() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed == nil {
		return nil
	}
	return l.closed
}

// drained reports whether the world was closed and there's nothing left for it to run.
func (l *lobby) drained() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed != nil && l.door.Conns() == 0 && len(l.inbox.posts)+len(l.inbox.conns.refused) == 0
}

// becomeClient makes the world a client permanently. It returns an error if the world has already
// done something that only a server does. actors is the number of actors in the world.
func (l *lobby) becomeClient(actors int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.checkClient(actors); err != nil {
		return err
	}
	l.client.Store(true)
	return nil
}

// mayBecomeClient returns an error if becomeClient would return one, or if the world is closed.
// Dial checks this before it contacts a server.
func (l *lobby) mayBecomeClient(actors int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed != nil {
		return worldClosed()
	}
	return l.checkClient(actors)
}

// checkClient returns an error if the world can't become a client. The caller holds mu.
func (l *lobby) checkClient(actors int64) error {
	if !l.client.Load() && (actors > 0 || l.serial > 0 || l.listeners > 0) {
		return errorf("rpc: a world with a listener, actors or clients cannot connect to a server: use another World: %w",
			ErrWrongRole)
	}
	return nil
}

// worldClosed returns the error for a new connection of a closed world.
func worldClosed() *CloseError {
	return &CloseError{Code: HostClosedConnection, Reason: "the world is closed"}
}

// addListener counts a new listener. While the world has one, it can't become a client.
func (l *lobby) addListener() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.client.Load() {
		return errorf("rpc: cannot listen for a world that has connected to a server: use another World: %w", ErrWrongRole)
	}
	if l.closed != nil {
		return errorf("rpc: cannot listen for a closed world: %w", ErrClosed)
	}
	l.listeners++
	return nil
}

// removeListener is called when a listener closes.
func (l *lobby) removeListener() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listeners--
}

// decideRetry decides whether a new client's address must be validated first, and counts a Retry if
// so. It also returns the number of open handshakes. If crowded is set, the address must always be
// validated.
func (l *lobby) decideRetry(crowded bool) (must bool, open int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.door.DecideRetry(crowded, time.Now())
}

// arrive gives a client a handshake slot, or says in full why there is none. If another client
// lost its slot, the caller must pass that client's connection, evicted, to World.evict.
func (l *lobby) arrive(from net.Addr, verified bool) (slot *handshakeSlot, evicted *Conn, full *door.Full) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.door.Arrive(door.AddressOf(from), verified, time.Now())
}

// enlist counts a new connection towards the world's limits and reserves memory for it. It
// refuses the connection if a limit has been reached, or if the world is closed. Whether or not it
// does, the caller must pass evicted, which may be nil, to World.evict.
//
// slot is the client's handshake slot, or nil if the connection came through Attach or Connect.
// World.Close waits until every connection enlisted here is attached.
func (l *lobby) enlist(c *Conn, from netip.Prefix, slot *handshakeSlot) (evicted *Conn, refused *CloseError) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed != nil {
		l.door.TurnAway(slot)
		return nil, worldClosed()
	}
	slot, evicted, full := l.door.Admit(slot, from, time.Now(), l.reserveMemory)
	c.entry.slot = slot
	if full == nil {
		c.reserved.Store(minReceiveLimit)
		l.serial++
		c.id = l.serial
		l.attaching.Add(1)
	}
	return evicted, serverFull(full)
}

// reserveMemory reserves the memory that a connection may use until it joins. If another connection
// was evicted for it, that is the other one's memory. The caller holds mu.
func (l *lobby) reserveMemory(evicted *Conn) *door.Full {
	if evicted != nil {
		evicted.reserved.Store(0) // it was minReceiveLimit, because evicted hasn't joined
		l.memory.Replace()
		return nil
	}
	if l.memory.Enter() {
		return nil
	}
	return &door.Full{Reason: fmt.Sprintf("less than %d bytes are free of the server's %d (Config.ReceiveBudget)",
		minReceiveLimit, l.config.ReceiveBudget)}
}

// serverFull returns the error for a client that was refused because of a limit, or nil if
// full is nil.
func serverFull(full *door.Full) *CloseError {
	if full == nil {
		return nil
	}
	if full.Busy {
		return &CloseError{Code: ServerBusy, Reason: full.Reason}
	}
	return &CloseError{Code: ServerFull, Reason: full.Reason}
}

// attach calls begin to start a connection's link, and adds the connection. It returns the reason
// if the world has been closed since enlist, and nil otherwise.
func (l *lobby) attach(c *Conn, begin func()) *CloseError {
	l.mu.Lock()
	defer l.mu.Unlock()
	// Hold mu while the link starts. If the link ends at once, detach then has to wait until the
	// connection has been added.
	begin()
	l.attached[c] = struct{}{}
	if c.server {
		// We're waiting for the client's Login, so the client may be evicted from now on.
		c.entry.slot.WaitFor(c)
	}
	return l.closed
}

// noteLogin is called when a client's Login arrives. From now on the client is waiting for us, so
// it isn't evicted to make room for another client.
func (l *lobby) noteLogin(c *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.entry.slot.WaitFor(nil)
}

// awaitTurn waits until Authenticate may be called for a client's token. If it returns false, the
// client may try again after the pause or, if the pause is 0, has left.
func (l *lobby) awaitTurn(slot *handshakeSlot, token []byte) (may bool, pause time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !slot.Left() {
		may, pause = l.door.Ask(slot, token, time.Now())
		if may || pause > 0 {
			return may, pause
		}
		l.answered.Wait()
	}
	return false, 0
}

// recordAnswer is called with Authenticate's answer about a token. It returns the number of logins
// from the client's address that have been refused.
func (l *lobby) recordAnswer(slot *handshakeSlot, token []byte, answer tokenAnswer) (failures int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.door.Answered(slot)
	l.answered.Broadcast()
	switch answer {
	case tokenRefused:
		return l.door.Refused(slot, token, time.Now())
	case tokenAccepted:
		l.door.Failures.Passed(token)
	}
	return 0
}

// identify sets the identity of a connection that hasn't joined yet.
func (l *lobby) identify(c *Conn, identity string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.identity = identity
}

// leave frees a handshake slot. A handshake may end in several ways that all call leave, so all
// calls but the first are no-ops.
func (l *lobby) leave(slot *handshakeSlot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.door.Leave(slot)
}

// awaitJoin is called when we have decided about a client's Login. From now on we're waiting for
// the client again, so it may be evicted.
func (l *lobby) awaitJoin(c *Conn, welcomed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.door.Await(c.entry.slot, c, welcomed)
}

// claim adds c to the connections of its identity. It returns the connections that now exceed the
// limit, oldest first, for the caller to close. With Config.RefuseLoginElsewhere, it refuses c
// instead. On a client, claim is a no-op.
func (l *lobby) claim(c *Conn) (replaced []*Conn, refused *CloseError) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !c.server || c.life.ended.Load() {
		return nil, nil
	}
	replaced, _, full := l.door.Claims.Claim(c.identity, c)
	if full {
		refused = &CloseError{Code: LoginElsewhere,
			Reason: fmt.Sprintf("%q has reached its limit of connections, %d (Config.MaxConnsPerIdentity)",
				shape.Clip(c.identity), l.config.MaxConnsPerIdentity)}
	}
	return replaced, refused
}

// join hands a connection that has joined to the world. It returns false if the connection has
// ended or was evicted in the meantime.
func (l *lobby) join(c *Conn) (joined bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.life.over() || c.entry.slot.Left() {
		return false
	}
	c.life.joined.Store(true)
	c.reserved.Store(int64(l.memory.Join(l.config.ReceiveLimit)))
	l.door.Join(c.entry.slot)
	l.inbox.conns.joined = append(l.inbox.conns.joined, c)
	return true
}

// markEnded is called when the link of a connection has ended.
func (l *lobby) markEnded(c *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.life.ended.Store(true)
}

// detach removes a connection whose link has ended, and reports whether it had joined. If it had
// joined, or if Config.Login was called for it, detach leaves it to the world's goroutine to handle
// the end.
func (l *lobby) detach(c *Conn) (joined bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.attached, c)
	joined = c.life.joined.Load()
	if joined {
		// Keep the connection's memory for now, because its last messages haven't run yet. expel
		// frees it later.
		l.inbox.conns.ended = append(l.inbox.conns.ended, c)
		l.door.Quit(c.entry.slot.From())
	} else {
		l.memory.Leave(int(c.reserved.Load()))
		l.door.Fail(c.entry.slot)
		l.answered.Broadcast()
		if c.life.loginAsked.Load() {
			l.inbox.conns.refused = append(l.inbox.conns.refused, c)
		}
	}
	l.door.Claims.Disclaim(c.identity, c)
	return joined
}

// free releases what a joined connection still holds after detach: its memory, and its share of
// MaxConns.
func (l *lobby) free(c *Conn) {
	l.memory.Leave(int(c.reserved.Load()))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.door.End()
}

// all returns the connections that haven't ended, including half-open ones.
func (l *lobby) all() []*Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.attached))
}

// post queues a function for the world's goroutine.
func (l *lobby) post(fn func()) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed != nil:
		return errorf("rpc: post to a closed world: %w", ErrClosed)
	case len(l.inbox.posts) >= l.config.MaxPosts:
		return errorf("rpc: %s waiting for a Dispatch; the limit is %d (Config.MaxPosts): %w",
			words.Plural(len(l.inbox.posts), "post is", "posts are"), l.config.MaxPosts, ErrBacklogFull)
	}
	l.inbox.posts = append(l.inbox.posts, fn)
	return nil
}

// postUnlimited is like post without a limit, for functions that must not be lost and that are
// limited elsewhere.
func (l *lobby) postUnlimited(fn func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inbox.posts = append(l.inbox.posts, fn)
}

// posted returns the number of functions in the inbox.
func (l *lobby) posted() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.inbox.posts)
}

// closedGrace is how long Do waits for a Dispatch after the world was closed. It is longer than any
// tick, so a world that is still driven runs the function.
const closedGrace = time.Second

// awaitDispatch waits for Do until done is closed. It returns an error if ctx ends first, or if
// the world is closed and nothing drives it for closedGrace after that.
func (l *lobby) awaitDispatch(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.shut:
	}
	ctx, cancel := context.WithTimeoutCause(ctx, closedGrace,
		errorf("rpc: Do: the world was closed, and nothing drives it: %w", l.cause()))
	defer cancel()
	return waitFor(ctx, done)
}

// awaitAnswer waits for Ask until done is closed. It returns an error if ctx ends or the world is
// closed first.
func (l *lobby) awaitAnswer(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		cause := context.Cause(ctx)
		// Make sure that the error is context.Canceled or DeadlineExceeded as well as the
		// game's own cause.
		if !errors.Is(cause, ctx.Err()) {
			cause = fmt.Errorf("%w: %w", ctx.Err(), cause)
		}
		return cause
	case <-l.shut:
		return l.cause()
	}
}

// take empties the inbox. It is called on the world's goroutine. It passes the queued functions to
// posts, which must remove them from the slice and must not keep the slice.
func (l *lobby) take(posts func(*[]func())) handover {
	l.mu.Lock()
	defer l.mu.Unlock()
	in := &l.inbox
	in.dispatches++
	conns := in.conns
	in.conns = handover{}
	posts(&in.posts)
	return conns
}

// expectDispatch is called when a connection starts to wait for a Dispatch. If there is no Dispatch
// within undrivenTime, it calls alarm, but only once in a world's lifetime.
func (l *lobby) expectDispatch(alarm func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	in := &l.inbox
	taken := in.dispatches
	if in.alarmed || l.closed != nil {
		return
	}
	time.AfterFunc(undrivenTime, func() {
		l.mu.Lock()
		overdue := in.dispatches == taken && !in.alarmed && l.closed == nil
		if overdue {
			in.alarmed = true
		}
		l.mu.Unlock()
		if overdue {
			alarm()
		}
	})
}

// stats returns the counters behind World.HandshakeStats.
func (l *lobby) stats() HandshakeStats {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := &l.door.Counts
	return HandshakeStats{
		Open:         l.door.Open(time.Now()),
		Begun:        c.Begun,
		Retries:      c.Retries,
		Refused:      c.Refused,
		Evicted:      c.Evicted,
		Failed:       c.Failed,
		LoginsFailed: c.LoginsFailed,
		LoginsSlowed: c.LoginsSlowed,
	}
}
