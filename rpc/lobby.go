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
)

// A lobby holds the connections of a world from their first packet to their end, and the
// inbox of the world's goroutine. Its methods are safe for concurrent use.
type lobby struct {
	config Config
	client atomic.Bool    // the world has connected to a server
	shut   chan struct{}  // closed when the world is closed
	memory *budget.Memory // Config.ReceiveBudget, for reliable messages of all connections

	mu        sync.Mutex       // guards the fields below
	closed    *CloseError      // why the world was closed; nil = it is open
	listeners int              // open listeners
	serial    uint64           // id of the newest connection
	door      *door.Door[Conn] // decides which clients may enter, by address and identity

	// Uses mu. Signalled when Authenticate answers, and when a client
	// leaves that may have been waiting for its turn.
	answered *sync.Cond

	// Connections that are enlisted but not yet attached. None is added once closed is set.
	attaching sync.WaitGroup

	attached map[*Conn]struct{} // connections that have not ended, including half-open ones
	inbox    inbox
}

// An inbox holds what other goroutines hand to the world's goroutine.
// The next Dispatch takes it.
type inbox struct {
	joined  []*Conn
	ended   []*Conn
	refused []*Conn // ended before Join, after Config.Login ran or was about to run for them
	posts   []func()

	taken   uint64 // number of Dispatches that have taken the inbox
	alarmed bool   // expectDispatch has called its alarm
}

// undrivenTime is how long clients wait for a Dispatch before that is logged.
const undrivenTime = 5 * time.Second

// visit is a connection's place among the handshakes.
type visit = door.Visit[Conn]

// open initialises the lobby of a new world.
func (l *lobby) open(config Config) {
	limits := door.Limits{
		Handshakes: config.MaxHandshakes, OfAddress: config.MaxHandshakesPerAddress,
		Connections: config.MaxConnsPerAddress, RetryAbove: config.RetryAbove, Total: config.MaxConns,
	}
	l.config = config
	l.shut = make(chan struct{})
	l.memory = budget.NewMemory(config.ReceiveBudget, minReceiveLimit, config.MaxConns)
	claims := door.NewClaims[Conn](config.MaxConnsPerIdentity, config.RefuseLoginElsewhere)
	l.door = door.New(limits, door.NewFailures(config.MaxLoginFailures), claims)
	l.answered = sync.NewCond(&l.mu)
	l.attached = make(map[*Conn]struct{})
}

// close closes the lobby. From then on it accepts no connection and no post.
func (l *lobby) close(why *CloseError) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed == nil {
		l.closed = why
		close(l.shut)
	}
}

// cause returns why the world was closed, or nil if it is open.
func (l *lobby) cause() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed == nil {
		return nil
	}
	return l.closed
}

// over reports whether the world was closed and has nothing left to run.
func (l *lobby) over() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed != nil && l.door.Conns() == 0 && len(l.inbox.posts)+len(l.inbox.refused) == 0
}

// becomeClient makes the world a client. It returns an error if the world
// has done something that only a server may do.
func (l *lobby) becomeClient(actors int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.refuseClient(actors); err != nil {
		return err
	}
	l.client.Store(true)
	return nil
}

// mayBecomeClient returns the error that becomeClient would return, or the error of a closed
// world. Dial calls it before it contacts a server.
func (l *lobby) mayBecomeClient(actors int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed != nil {
		return worldClosed()
	}
	return l.refuseClient(actors)
}

// refuseClient returns why the world cannot become a client, or nil. The caller holds mu.
func (l *lobby) refuseClient(actors int64) error {
	if !l.client.Load() && (actors > 0 || l.serial > 0 || l.listeners > 0) {
		return errorf("rpc: a world that listens, or has actors or clients, cannot connect to a server, but another of NewWorld can: %w",
			ErrWrongRole)
	}
	return nil
}

// worldClosed returns the error for a connection that begins in a closed world.
func worldClosed() *CloseError {
	return &CloseError{Code: HostClosedConnection, Reason: "the world is closed"}
}

// listen counts a new listener of the world. A world with a listener cannot become a client.
func (l *lobby) listen() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.client.Load() {
		return errorf("rpc: Listen on a world that has connected to a server; take another of NewWorld: %w", ErrWrongRole)
	}
	if l.closed != nil {
		return errorf("rpc: Listen on a closed world: %w", ErrClosed)
	}
	l.listeners++
	return nil
}

// unlisten is called when a listener closes.
func (l *lobby) unlisten() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listeners--
}

// mustProve reports whether a new client must prove its address first, and returns the number
// of open handshakes. A client for which suspect is true must always prove it.
func (l *lobby) mustProve(suspect bool) (must bool, open int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.door.MustProve(suspect, time.Now())
}

// arrive gives a client a place among the handshakes, or returns why it gets none. If out is
// not nil, the caller must evict that connection.
func (l *lobby) arrive(from net.Addr, verified bool) (v *visit, out *Conn, none *door.Full) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.door.Arrive(door.AddressOf(from), verified, time.Now())
}

// enlist counts a new connection against the limits of the world, or returns the limit that
// is reached. If out is not nil, the caller must evict that connection.
//
// v is the client's place among the handshakes. It is nil if the connection's carrier was
// passed to Attach. World.Close waits until every enlisted connection is attached.
func (l *lobby) enlist(c *Conn, from netip.Prefix, v *visit) (out *Conn, refused *CloseError) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed != nil {
		l.door.TurnAway(v)
		return nil, worldClosed()
	}
	v, out, none := l.door.Admit(v, from, time.Now(), l.takeMemory)
	c.visit = v
	if none == nil {
		c.reserved.Store(minReceiveLimit)
		l.serial++
		c.id = l.serial
		l.attaching.Add(1)
	}
	return out, serverFull(none)
}

// takeMemory reserves the memory that a connection may hold before Join.
func (l *lobby) takeMemory() *door.Full {
	if l.memory.Enter() {
		return nil
	}
	return &door.Full{Reason: fmt.Sprintf("no %d bytes left of Config.ReceiveBudget, %d",
		minReceiveLimit, l.config.ReceiveBudget)}
}

// serverFull returns the CloseError for the limit that was reached, or nil if none is nil.
func serverFull(none *door.Full) *CloseError {
	if none == nil {
		return nil
	}
	if none.Busy {
		return &CloseError{Code: ServerBusy, Reason: none.Reason}
	}
	return &CloseError{Code: ServerFull, Reason: none.Reason}
}

// attach adds a connection and starts its link by calling begin. It returns why the world was
// closed, or nil if the world is open.
//
// begin runs with mu held. If the link ends at once, detach therefore
// runs after everything is set.
func (l *lobby) attach(c *Conn, begin func()) *CloseError {
	l.mu.Lock()
	defer l.mu.Unlock()
	begin()
	l.attached[c] = struct{}{}
	if c.server {
		c.visit.WaitFor(c) // until its Login arrives
	}
	return l.closed
}

// hasLogin is called when a client's Login arrives. From then on the client waits for this side.
func (l *lobby) hasLogin(c *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.visit.WaitFor(nil)
}

// awaitTurn waits until Authenticate may be called for a token. If it returns false, the client
// must try again after pause. A pause of 0 means that the client has left.
func (l *lobby) awaitTurn(v *visit, token []byte) (may bool, pause time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !v.Left() {
		if may, pause = l.door.MayAsk(v, token, time.Now()); may || pause > 0 {
			return may, pause
		}
		l.answered.Wait()
	}
	return false, 0
}

// recordAnswer is called when Authenticate answers. refused is true if it refused the
// token, and passed is true if it accepted the token. recordAnswer returns how many
// logins from the client's address were refused.
func (l *lobby) recordAnswer(v *visit, token []byte, refused, passed bool) (failures int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.door.Answered(v)
	l.answered.Broadcast()
	switch {
	case refused:
		return l.door.Refused(v, token, time.Now())
	case passed:
		l.door.Failures.Passed(token)
	}
	return 0
}

// identify sets the identity of a connection that has not joined yet.
func (l *lobby) identify(c *Conn, identity string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.identity = identity
}

// leave ends a visit. Each way in which a handshake can end calls it,
// and only the first call has an effect.
func (l *lobby) leave(v *visit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.door.Leave(v)
}

// awaitJoin is called when this side has answered the client's Login and waits for its Join. From
// then on the client may be evicted again.
func (l *lobby) awaitJoin(c *Conn, welcomed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.door.Await(c.visit, c, welcomed)
}

// claim adds c to the connections of its identity. It returns the connections
// that now exceed the limit, oldest first. With Config.RefuseLoginElsewhere it
// refuses c instead. On a client it does nothing.
func (l *lobby) claim(c *Conn) (replaced []*Conn, refused *CloseError) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !c.server || c.ended.Load() {
		return nil, nil
	}
	replaced, others, full := l.door.Claims.Claim(c.identity, c)
	if full {
		refused = &CloseError{Code: LoginElsewhere,
			Reason: fmt.Sprintf("%q has as many connections as Config.MaxConnsPerIdentity allows, %d",
				shape.Clip(c.identity), others)}
	}
	return replaced, refused
}

// join hands a connection that has joined to the world. It returns false if the connection
// ended or was evicted in the meantime.
func (l *lobby) join(c *Conn) (in bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.closing.Load() || c.ended.Load() || c.visit.Left() {
		return false
	}
	c.joined.Store(true)
	c.reserved.Store(int64(l.memory.Join(l.config.ReceiveLimit)))
	l.door.Join(c.visit)
	l.inbox.joined = append(l.inbox.joined, c)
	return true
}

// noteEnd is called when the link of a connection ends.
func (l *lobby) noteEnd(c *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.ended.Store(true)
}

// detach hands a connection whose link has ended to the world, and
// reports whether the connection had joined.
func (l *lobby) detach(c *Conn) (joined bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.attached, c)
	joined = c.joined.Load()
	if joined {
		l.inbox.ended = append(l.inbox.ended, c) // expel does the rest after its last message runs
		l.door.Quit(c.visit.From())
	} else {
		l.memory.Leave(int(c.reserved.Load()))
		l.door.Fail(c.visit)
		l.answered.Broadcast()
		if c.loginAsked.Load() {
			l.inbox.refused = append(l.inbox.refused, c)
		}
	}
	l.door.Claims.Disclaim(c.identity, c)
	return joined
}

// forget frees the place and the memory of a connection that had joined and has ended.
func (l *lobby) forget(c *Conn) {
	l.memory.Leave(int(c.reserved.Load()))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.door.End()
}

// all returns the connections that have not ended, including half-open ones.
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
		return errorf("rpc: %d posts wait for a Dispatch, the limit is Config.MaxPosts: %w",
			len(l.inbox.posts), ErrBacklogFull)
	}
	l.inbox.posts = append(l.inbox.posts, fn)
	return nil
}

// postUnlimited is like post but has no limit. It is for functions that must not be
// lost and whose number is limited elsewhere.
func (l *lobby) postUnlimited(fn func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inbox.posts = append(l.inbox.posts, fn)
}

// posted returns the number of functions that wait in the inbox.
func (l *lobby) posted() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.inbox.posts)
}

// closedGrace is how long Do waits for a Dispatch of a closed world.
const closedGrace = time.Second

// awaitDispatch makes Do wait until done is closed. It returns an error if ctx ends first, or
// if the world is closed and no Dispatch runs within closedGrace.
func (l *lobby) awaitDispatch(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.shut:
	}
	ctx, cancel := context.WithTimeoutCause(ctx, closedGrace,
		errorf("rpc: Do: the world was closed, and nobody drives it: %w", l.cause()))
	defer cancel()
	return waitFor(ctx, done)
}

// awaitAnswer makes Ask wait until done is closed. It returns an
// error if ctx ends or the world is closed first.
func (l *lobby) awaitAnswer(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		cause := context.Cause(ctx)
		if !errors.Is(cause, ctx.Err()) {
			cause = fmt.Errorf("%w: %w", ctx.Err(), cause)
		}
		return cause
	case <-l.shut:
		return l.cause()
	}
}

// take empties the inbox. It is called on the world's goroutine. The function posts takes the
// queued functions, but must not keep the slice.
func (l *lobby) take(posts func(*[]func())) (joined, ended, refused []*Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	in := &l.inbox
	in.taken++
	joined, ended, refused = in.joined, in.ended, in.refused
	in.joined = nil
	in.ended = nil
	in.refused = nil
	posts(&in.posts)
	return joined, ended, refused
}

// expectDispatch is called when a client waits for a Dispatch. If no Dispatch takes the inbox
// within undrivenTime, it calls alarm, at most once in the life of the world.
func (l *lobby) expectDispatch(alarm func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	in := &l.inbox
	taken := in.taken
	if in.alarmed || l.closed != nil {
		return
	}
	time.AfterFunc(undrivenTime, func() {
		l.mu.Lock()
		overdue := in.taken == taken && !in.alarmed && l.closed == nil
		in.alarmed = in.alarmed || overdue
		l.mu.Unlock()
		if overdue {
			alarm()
		}
	})
}

// stats returns the counts of handshakes.
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
