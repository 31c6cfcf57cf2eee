package rpc

import (
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/internal/bell"
	"github.com/quivernet/quiver/internal/logs"
	"github.com/quivernet/quiver/internal/tasks"
)

// A life is a connection's progress from login to end. Each flag is set once and stays set, except
// for admitted. A life is safe for concurrent use, again except for admitted.
type life struct {
	loginAsked atomic.Bool                // server: Config.Login was called, and identity is set
	joined     atomic.Bool                // written under lobby.mu
	admitted   bool                       // in World.announced; used only by the world's goroutine
	closing    atomic.Bool                // this side closed it; nothing more is dispatched or sent
	cause      atomic.Pointer[CloseError] // why this side closed it; set by the first call of stop
	ended      atomic.Bool                // the link has ended; written under lobby.mu
	refused    atomic.Bool                // this side refused the login and logged that

	welcomed chan struct{} // closed when the connection joins
	done     chan struct{} // closed when both carriers have ended, maybe before OnDisconnect
	stopped  chan struct{} // closed when all goroutines have ended and all sockets are closed

	work sync.WaitGroup // the connection's goroutines, which end soon after the link
}

func newLife() life {
	return life{
		welcomed: make(chan struct{}),
		done:     make(chan struct{}),
		stopped:  make(chan struct{}),
	}
}

// over reports whether the connection was closed by this side or has ended.
func (l *life) over() bool { return l.closing.Load() || l.ended.Load() }

// usable reports whether messages may be sent, which they may from Join until the connection is
// closed or ends.
func (l *life) usable() bool { return l.joined.Load() && !l.over() }

// beforeJoin reports whether the connection hasn't joined yet but still may.
func (l *life) beforeJoin() bool { return !l.joined.Load() && !l.over() }

// mayJoin reports whether Config.Login was called for a client that hasn't joined yet but still
// may. Such a client may already own actors that Login has given to it.
func (l *life) mayJoin() bool { return l.loginAsked.Load() && l.beforeJoin() }

// stop marks the connection as closed by this side. Only the first call returns true, and further
// calls have no effect.
func (l *life) stop(cause *CloseError) (first bool) {
	if !l.closing.CompareAndSwap(false, true) {
		return false
	}
	if !bell.Closed(l.done) {
		// Once Done is closed, Err returns the cause, which must not change.
		l.cause.CompareAndSwap(nil, cause)
	}
	return true
}

// An admission lets connections that have joined into the world's game, and those that have ended
// out of it. It is used only by the world's goroutine.
type admission struct {
	world     *World
	joining   []*Conn      // joined, and waiting to be admitted
	ending    []*Conn      // ended, and waiting to be expelled
	loggingIn []*handshake // waiting until ended connections of the same identity are expelled

	// The connection whose tasks from admit are running: OnConnect runs first, and then the
	// AlwaysRelevant actors open. Because of this order, an actor that OnConnect gives to the
	// connection opens as the connection's own. UE (Unreal Engine's counterpart): nothing
	// replicates to a connection before PostLogin returns.
	current  *Conn           // nil if there is none
	excluded map[*Actor]bool // don't open these, because the game has called CloseTo(current)

	onConnect    []func(*Conn)
	onDisconnect []func(*Conn, error)
}

// takeInbox takes what other goroutines have handed to the world's goroutine.
func (m *admission) takeInbox() {
	w := m.world
	w.callers.Take(w.frame.activate)
	arrived := w.lobby.take(w.game.Post)
	m.ending = append(m.ending, arrived.ended...)
	for _, c := range arrived.joined {
		c.entry.predecessors = append(c.entry.predecessors, m.endedBefore(c)...)
		m.joining = append(m.joining, c)
	}
	for _, c := range arrived.refused {
		// The connection never joined, but Login may have given it actors.
		w.game.Later(c, tasks.Doing{}, c.destroyOwned)
	}
}

// endedBefore returns the ended connections whose OnDisconnect must run before OnConnect of c. On a
// server, these are the earlier connections of the same identity. On a client, they are all of its
// earlier connections.
func (m *admission) endedBefore(c *Conn) (before []*Conn) {
	for _, old := range m.ending {
		sameClient := !c.server || c.identity != "" && c.identity == old.identity
		if !sameClient {
			continue
		}
		if old.life.admitted || slices.Contains(m.joining, old) {
			before = append(before, old) // it joined before c
		}
	}
	return before
}

// logInWaiting decides again about each login in loggingIn. decideLogin puts a login back if it
// still has to wait.
func (m *admission) logInWaiting() {
	for range m.loggingIn {
		h := m.loggingIn[0]
		m.loggingIn = slices.Delete(m.loggingIn, 0, 1)
		h.decideLogin()
	}
}

// admitTime is the time after which a Dispatch stops admitting connections. It admits at least one.
//
// Each admission opens all AlwaysRelevant actors, which takes 20 ms for 10,000 of them. When a
// server restarts, all of its clients may join at the same moment, so without a limit a single
// Dispatch could take seconds. 8 ms is a quarter of a tick at 30 Hz.
const admitTime = 8 * time.Millisecond

// admitJoined admits connections that have joined, until admitTime is used up. The rest wait for
// the next Dispatch. A connection also waits until all earlier connections of the same client have
// been expelled.
//
// spent is the part of admitTime that earlier calls in this Dispatch have used, and the result is
// spent plus the time that this call has used.
func (m *admission) admitJoined(spent time.Duration) time.Duration {
	w := m.world
	if len(m.joining) == 0 {
		return spent
	}
	began := time.Now().Add(-spent)
	for i := 0; i < len(m.joining) && time.Since(began) < admitTime; {
		c := m.joining[i]
		isEnding := func(old *Conn) bool { return slices.Contains(m.ending, old) }
		if slices.ContainsFunc(c.entry.predecessors, isEnding) {
			i++
			continue
		}
		m.joining = slices.Delete(m.joining, i, i+1)
		c.entry.predecessors = nil // otherwise a connection would keep all earlier ones in memory
		m.admit(c)
		w.game.RunTasks()
	}
	return time.Since(began)
}

// admit announces a connection that has joined to the game. The hooks and the opens are queued
// as tasks, so that each of them runs even if another one panics.
func (m *admission) admit(c *Conn) {
	w := m.world
	w.announced = append(w.announced, c)
	c.life.admitted = true
	c.requestDispatch() // something may have arrived while c waited in joining
	w.dos.watch(c)
	w.logs.LogJoined(slog.LevelInfo, logs.Joined, c.party(), "connected", "conn", c)
	logSealedMismatch(c)
	c.trace.Joined(c.identity)
	for _, hook := range w.extended.Joined {
		w.game.Later(c, tasks.Doing{}, func() { hook(c) })
	}
	w.game.Later(c, tasks.Doing{}, func() { w.tellGonePlaced(c) })
	m.openOwned(c)
	m.current = c
	for _, hook := range m.onConnect {
		w.game.Later(c, tasks.Doing{What: "an OnConnect hook"}, func() { hook(c) })
	}
	if w.config.OnConnect != nil {
		w.game.Later(c, tasks.Doing{What: "Config.OnConnect"}, func() { w.config.OnConnect(w, c) })
	}
	for a := range w.actors.always.all {
		w.game.Later(c, tasks.Doing{What: "the state of ", Of: a.class}, func() { m.openForCurrent(a) })
	}
	w.game.Later(c, tasks.Doing{}, func() { m.current, m.excluded = nil, nil })
}

// openForCurrent opens an AlwaysRelevant actor for the connection that is being admitted, if there
// is one. It is called when the actor's turn comes, or earlier if OnConnect calls one of its
// Multicasts. It does nothing if the actor was destroyed or torn off since admit queued the open.
func (m *admission) openForCurrent(a *Actor) {
	if m.current != nil && m.world.actors.inAlways(a) && !m.excluded[a] {
		_ = a.tryOpen(m.current)
	}
}

// exclude is called when the game closes an actor for c. If c is being admitted, it prevents
// openForCurrent from opening the actor.
func (m *admission) exclude(a *Actor, c *Conn) {
	if c != m.current {
		return
	}
	if m.excluded == nil {
		m.excluded = make(map[*Actor]bool)
	}
	m.excluded[a] = true
}

// openOwned queues the opens of the actors that Config.Login has given to a connection, and of
// the actors that those own in turn.
func (m *admission) openOwned(c *Conn) {
	w := m.world
	for root := range c.shown.owned.all {
		for _, a := range root.withOwned(nil) {
			w.game.Later(c, tasks.Doing{What: "the state of ", Of: a.class}, func() {
				if a.conn == c { // a hook may have given the actor to another owner
					_ = a.tryOpen(c)
				}
			})
		}
	}
}

// expelEnded expels connections that have ended, once all messages that arrived before the end
// have run.
func (m *admission) expelEnded() {
	w := m.world
	for i := 0; i < len(m.ending); {
		c := m.ending[i]
		mustWait := !c.life.closing.Load() && c.turn.waitForLate()
		if mustWait || slices.Contains(m.joining, c) {
			i++
			continue
		}
		m.ending = slices.Delete(m.ending, i, i+1)
		m.expel(c)
		w.game.RunTasks()
	}
}

// expel undoes admit after a connection has ended. The end of its actors and the OnDisconnect
// hooks are queued as tasks.
func (m *admission) expel(c *Conn) {
	w := m.world
	w.discard(c)
	if c.watched != nil {
		w.dos.detector.Leave(c.watched.peer)
	}
	w.relevance.removeConn(w.announced, c)
	w.lobby.free(c)
	w.announced = without(w.announced, c)
	w.frame.remove(c)
	c.life.admitted = false

	err := c.closeError()
	if err.Code == ReliableBufferOverflow {
		w.overflows++
	}
	c.requests.end(nil, err)
	w.background.jobs.End(&c.requests.running, c.party())
	c.trace.Ended(err.Code.String())
	w.logs.LogJoined(slog.LevelInfo, logs.Left, c.party(), "disconnected",
		"conn", c, "code", err.Code.String(), "reason", err.Reason, "remote", err.Remote)

	for _, channel := range c.channels.sorted() {
		w.game.Later(c, tasks.Doing{}, func() { c.endActor(channel) })
	}
	for _, ref := range slices.Sorted(maps.Keys(c.copies.byRef)) {
		w.game.Later(c, tasks.Doing{}, func() { c.endDetached(ref) })
	}
	c.shown.unacked = nil
	for a := range c.shown.detached {
		a.forgetDetached(c)
	}

	for _, hook := range m.onDisconnect {
		w.game.Later(c, tasks.Doing{What: "an OnDisconnect hook"}, func() { hook(c, err) })
	}
	if w.config.OnDisconnect != nil {
		w.game.Later(c, tasks.Doing{What: "Config.OnDisconnect"}, func() { w.config.OnDisconnect(w, c, err) })
	}
	w.game.Later(c, tasks.Doing{}, c.destroyOwned)
}

// endActor clears one channel of a connection that has ended. On a client, the actor's copy ends as
// well.
func (c *Conn) endActor(channel uint64) {
	a := c.channels.byNumber[channel]
	if a == nil {
		return // the game has ended the actor in the meantime
	}
	c.channels.set(channel, nil)
	if o := a.openingOn(c); o != nil {
		a.forget(o)
	}
	if !c.server {
		// First drop the references in its states. If they refer to a torn-off copy, OnRep would
		// otherwise run when that copy ends later.
		a.states.removeReferences(c)
		a.end(Disconnected)
	}
}

// endDetached ends a client's copy whose channel closed before the connection ended. A torn-off
// copy stays, because it belongs to the client.
func (c *Conn) endDetached(ref Ref) {
	if a := c.copies.byRef[ref]; a != nil && !a.tornOff {
		a.states.removeReferences(c)
		a.end(Disconnected)
	}
}
