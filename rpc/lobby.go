package rpc

import (
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

// lobby knows the connections of a world from their first packet to their end, and keeps what other goroutines hand to the world's. All
// goroutines may call its methods.
type lobby struct {
	config Config
	client atomic.Bool    // the world has dialled
	shut   chan struct{}  // closed with the world
	memory *budget.Memory // for reliable messages that wait, of all connections

	mu        sync.Mutex // guards what follows
	closed    *CloseError
	listeners int
	serial    uint64             // id of the newest connection
	door      *door.Entry[Conn]  // who may come in, from where, and as whom
	answered  *sync.Cond         // with mu: Authenticate answered, or a client left that may have waited for its turn
	attaching sync.WaitGroup     // connections that are enlisted and not attached yet; none is added once closed is set
	attached  map[*Conn]struct{} // and not yet ended, half-open ones included
	inbox     inbox
}

// inbox is what other goroutines hand to the world's.
type inbox struct {
	joined  []*Conn
	ended   []*Conn
	refused []*Conn // Config.Login has run for them, or would have, and they did not join
	posts   []func()
}

// visit is a connection's place at the door.
type visit = door.Visit[Conn]

// open makes an empty lobby.
func (l *lobby) open(config Config) {
	limits := door.Limits{
		Handshakes: config.maxHandshakes(), OfAddress: config.MaxHandshakesPerAddress,
		Connections: config.maxConnsPerAddress(), RetryAbove: config.retryAbove(),
	}
	l.config = config
	l.shut = make(chan struct{})
	l.memory = budget.NewMemory(config.receiveBudget(), minReceiveLimit, config.maxConns())
	l.door = door.NewEntry(door.New[Conn](limits), door.NewFailures(config.maxLoginFailures()),
		door.NewClaims[Conn](config.MaxConnsPerIdentity, config.RefuseLoginElsewhere), config.maxConns())
	l.answered = sync.NewCond(&l.mu)
	l.attached = make(map[*Conn]struct{})
}

// close takes nothing more.
func (l *lobby) close(why *CloseError) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed == nil {
		l.closed = why
		close(l.shut)
	}
}

// cause returns why the world was closed, nil when it was not.
func (l *lobby) cause() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed == nil {
		return nil
	}
	return l.closed
}

// over reports whether the world was closed and nothing is left to tell.
func (l *lobby) over() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed != nil && l.door.Conns() == 0 && len(l.inbox.posts)+len(l.inbox.refused) == 0
}

// becomeClient makes the world a client's, which has no actors of its own.
func (l *lobby) becomeClient(actors int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.client.Load() {
		return nil
	}
	if actors > 0 || l.serial > 0 || l.listeners > 0 {
		return fmt.Errorf("rpc: a world that listens, or has actors or clients, can not connect to a server: %w", ErrWrongRole)
	}
	l.client.Store(true)
	return nil
}

// listen counts a listener, until unlisten: a world that has one is a server's.
func (l *lobby) listen() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.client.Load() {
		return fmt.Errorf("rpc: Listen on a client's world: %w", ErrWrongRole)
	}
	if l.closed != nil {
		return fmt.Errorf("rpc: Listen on a closed world: %w", ErrClosed)
	}
	l.listeners++
	return nil
}

// unlisten counts a listener that has closed.
func (l *lobby) unlisten() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listeners--
}

// mustProve reports whether a new client has to prove its address first, and how many handshakes are open.
func (l *lobby) mustProve() (must bool, open int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.door.MustProve(time.Now())
}

// arrive gives a client a place at the door, for which out, if there is one, has to make room.
func (l *lobby) arrive(from net.Addr, verified bool) (v *visit, out *Conn, none *door.Full) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.door.Arrive(door.AddressOf(from), verified, time.Now())
}

// enlist counts a new connection against the limits of the world, or says which one is reached; out has to make room for it. v is its
// place among the handshakes, nil when its carrier came without. A Close of the world waits for what was enlisted to be attached.
func (l *lobby) enlist(c *Conn, from netip.Prefix, v *visit) (out *Conn, refused *CloseError) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed != nil {
		l.door.TurnAway(v)
		return nil, &CloseError{Code: HostClosedConnection, Reason: "the world is closed"}
	}
	v, out, none := l.door.Admit(v, from, time.Now(), l.takeMemory)
	if c.visit = v; none == nil {
		c.reserved.Store(minReceiveLimit)
		l.serial++
		c.id = l.serial
		l.attaching.Add(1)
	}
	return out, serverFull(none)
}

// takeMemory reserves what a connection may hold before Join.
func (l *lobby) takeMemory() *door.Full {
	if l.memory.Enter() {
		return nil
	}
	return &door.Full{Reason: fmt.Sprintf("no %d bytes left of Config.ReceiveBudget, %d", minReceiveLimit, l.config.receiveBudget())}
}

// serverFull says what the door says as the world says it.
func serverFull(none *door.Full) *CloseError {
	if none == nil {
		return nil
	}
	return &CloseError{Code: ServerFull, Reason: none.Reason}
}

// attach enters a connection, and has begin start its traffic under the lock, so that detach, should the link end at once, comes after all
// is set. It returns why the world is closed, nil when it is not.
func (l *lobby) attach(c *Conn, begin func()) *CloseError {
	l.mu.Lock()
	defer l.mu.Unlock()
	begin()
	l.attached[c] = struct{}{}
	if c.server {
		c.visit.WaitFor(c) // until it has said Login
	}
	return l.closed
}

// hasLogin notes that a client has said Login: from here on it waits.
func (l *lobby) hasLogin(c *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.visit.WaitFor(nil)
}

// turn waits until Authenticate may be asked about a token. If it may not, the client is gone, or has to come again after a pause.
func (l *lobby) turn(v *visit, token []byte) (may bool, pause time.Duration) {
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

// heard notes that Authenticate has answered, and whether it refused the token or let it pass.
func (l *lobby) heard(v *visit, token []byte, refused, passed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.door.Answered(v)
	l.answered.Broadcast()
	switch {
	case refused:
		l.door.Refused(v, token, time.Now())
	case passed:
		l.door.Failures.Passed(token)
	}
}

// identify notes whose connection it is, before it has joined.
func (l *lobby) identify(c *Conn, identity string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.identity = identity
}

// leave ends a visit. It may be called from each place where a handshake can end; the first call counts.
func (l *lobby) leave(v *visit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.door.Leave(v)
}

// await says that c has answered its client's Login, and may have to make room until the client joins or leaves.
func (l *lobby) await(c *Conn, welcomed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.door.Await(c.visit, c, welcomed)
}

// claim makes c one of its identity's connections, and returns those that are too many now, the oldest first. With
// Config.RefuseLoginElsewhere c is one too many instead: refused says so. A client claims nothing.
func (l *lobby) claim(c *Conn) (replaced []*Conn, refused *CloseError) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !c.server || c.ended.Load() {
		return nil, nil
	}
	replaced, others, full := l.door.Claims.Claim(c.identity, c)
	if full {
		refused = &CloseError{Code: LoginElsewhere,
			Reason: fmt.Sprintf("%q has %d connections, the limit is Config.MaxConnsPerIdentity", shape.Clip(c.identity), others)}
	}
	return replaced, refused
}

// join hands over a connection that has joined. Not in: it ended meanwhile, or had to make room.
func (l *lobby) join(c *Conn) (in bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.closing.Load() || c.ended.Load() || c.visit.Left() {
		return false
	}
	c.joined.Store(true)
	c.reserved.Store(int64(l.memory.Join(l.config.receiveLimit())))
	l.door.Join(c.visit)
	l.inbox.joined = append(l.inbox.joined, c)
	return true
}

// noteEnd notes that the link of a connection has ended.
func (l *lobby) noteEnd(c *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.ended.Store(true)
}

// detach hands over a connection that has ended, and reports whether it had joined.
func (l *lobby) detach(c *Conn) (joined bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.attached, c)
	if joined = c.joined.Load(); joined {
		l.inbox.ended = append(l.inbox.ended, c) // expel does the rest when its last message has run
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

// forget gives back what a connection that had joined and has ended took.
func (l *lobby) forget(c *Conn) {
	l.memory.Leave(int(c.reserved.Load()))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.door.End()
}

// all returns the connections that have begun and not ended.
func (l *lobby) all() []*Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.attached))
}

// post hands a function over.
func (l *lobby) post(fn func()) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed != nil:
		return fmt.Errorf("rpc: post to a closed world: %w", ErrClosed)
	case len(l.inbox.posts) >= l.config.maxPosts():
		return fmt.Errorf("rpc: %d posts wait for a Dispatch, the limit is Config.MaxPosts: %w", len(l.inbox.posts), ErrBacklogFull)
	}
	l.inbox.posts = append(l.inbox.posts, fn)
	return nil
}

// hand hands over a function that must not be lost, and of which a limit of its own holds the number.
func (l *lobby) hand(fn func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inbox.posts = append(l.inbox.posts, fn)
}

// take gives what was handed over to the world's goroutine, and the posts to a function, which does not keep the slice.
func (l *lobby) take(posts func(*[]func())) (joined, ended, refused []*Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	in := &l.inbox
	joined, ended, refused = in.joined, in.ended, in.refused
	in.joined, in.ended, in.refused = nil, nil, nil
	posts(&in.posts)
	return joined, ended, refused
}

// stats counts handshakes.
func (l *lobby) stats() HandshakeStats {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := &l.door.Counts
	return HandshakeStats{
		Open: l.door.Open(time.Now()), Begun: c.Begun, Retries: c.Retries, Refused: c.Refused, Evicted: c.Evicted, Failed: c.Failed,
		LoginsFailed: c.LoginsFailed, LoginsSlowed: c.LoginsSlowed,
	}
}
