package rpc

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/internal/clock"
	"github.com/quivernet/quiver/internal/tasks"
)

// Dispatch takes what has arrived and runs handlers, hooks, posted functions and queued local calls.
// UE: UNetDriver::TickDispatch. Until Flush, calls are gathered so that a tick leaves in as few datagrams as it fits.
// It panics when another goroutine drives the world, or when it is called from a handler.
func (w *World) Dispatch(now time.Time) {
	w.enter(true)
	defer w.drive.Exit()
	w.dispatch(now, true)
}

// Flush runs the OnTick hooks and lets packets leave. UE: UNetDriver::TickFlush. Call it on the goroutine that called Dispatch: until
// another goroutine dispatches, that one counts as the world's, where Do and Ask return ErrOnWorld.
func (w *World) Flush(now time.Time) {
	w.enter(false)
	defer w.drive.Exit()
	w.flush(now)
}

// enter takes the driver's seat; drives says that the calling goroutine is the world's from now on.
func (w *World) enter(drives bool) {
	if !w.drive.Enter(drives) {
		panic("rpc: the world is driven twice at once: by two goroutines, or by a handler that ticks it")
	}
}

// Tick is Dispatch and Flush.
func (w *World) Tick(now time.Time) {
	w.enter(true)
	defer w.drive.Exit()
	w.dispatch(now, true)
	w.flush(now)
}

// Run drives the world until ctx ends, and returns its cause, or until the world is closed, and returns ErrClosed. It
// ticks whenever something happens: a message, a post, a local call, freed space that somebody watches; 30 times a second while states
// are on their way, and on a server with clients and actors that [At] or [Relevant] decides on; besides, it ticks Config.TickRate times a
// second. What a game changes from elsewhere than the world's goroutine nobody sees: use Post or Do.
func (w *World) Run(ctx context.Context) error {
	w.enter(true)
	defer w.drive.Exit()
	var tick <-chan time.Time
	if w.config.TickRate > 0 {
		ticker := time.NewTicker(max(1, time.Second/time.Duration(w.config.TickRate)))
		defer ticker.Stop()
		tick = ticker.C
	}
	settle := time.NewTimer(settleTime)
	settle.Stop()
	defer settle.Stop()
	happened, farewells := true, 0
	for {
		now := time.Now()
		if happened {
			w.replicator.news = now
		}
		w.dispatch(now, false)
		w.flush(now)
		if w.unsettled() {
			settle.Reset(settleTime)
		}
		if len(w.local.waiting) > 0 || len(w.turns.late) > 0 {
			w.drive.Signal()
		}
		if w.lobby.over() {
			if farewells++; farewells <= maxFarewells && w.owes() {
				continue
			}
			if n := w.local.drop() + w.game.Owed(); n > 0 {
				w.dropped.Add(uint64(n))
				w.log.Warn("the last functions of a closed world call and ask for ever: what is left is dropped", "functions", n)
			}
			return ErrClosed
		}
		w.rest()
		happened = true
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick:
		case <-settle.C:
			happened = false
		case <-w.drive.Wake():
		}
	}
}

// maxFarewells Dispatches at most follow the one after which a closed world is over, for what its last functions call and ask: who asks
// again whenever that fails would never end.
const maxFarewells = 16

// owes reports whether functions of the game are to run in the next Dispatch.
func (w *World) owes() bool { return w.game.Owed()+len(w.local.waiting) > 0 }

// settleTime is how soon Run ticks again by itself while states are on their way, or actors and views may move: 30 times a second.
const settleTime = time.Second / 30

// unsettled reports whether a Flush may have something to do though nothing happens.
func (w *World) unsettled() bool {
	if w.relevance.members > 0 && len(w.announced) > 0 || len(w.drowsy) > 0 || w.requests.asked.Len() > 0 || w.replicator.behind {
		return true
	}
	return slices.ContainsFunc(w.announced, (*Conn).unsettled)
}

// Post runs fn on the world's goroutine in the next Dispatch. A post beyond Config.MaxPosts, or to a closed world, is
// dropped, logged and counted in [World.Dropped].
func (w *World) Post(fn func()) {
	if err := w.post(fn); err != nil {
		w.dropped.Add(1)
		w.log.Warn("post dropped", "error", err)
	}
}

// Do runs fn on the world's goroutine in the next Dispatch and waits for it. When ctx ends first, fn does not run, unless it
// already does; nor does it when the world was closed a second ago and has not dispatched since, which is ErrClosed. It returns an error
// when fn panicked. Called from the goroutine that drives the world it returns ErrOnWorld.
func (w *World) Do(ctx context.Context, fn func()) error {
	if w.Inside() {
		return fmt.Errorf("%w: Do would wait for itself; call the function", ErrOnWorld)
	}
	var claimed atomic.Bool // by fn that runs, or by a caller that leaves
	done := make(chan struct{})
	failed := errors.New("rpc: the function that Do ran did not return: it panicked, or called runtime.Goexit")
	err := w.post(func() {
		if claimed.CompareAndSwap(false, true) {
			defer close(done)
			fn()
			failed = nil
		}
	})
	if err != nil {
		return err
	}
	if err := w.await(ctx, done); err != nil && claimed.CompareAndSwap(false, true) {
		return err
	}
	<-done
	return failed
}

// closedGrace is how long after its close a world that is driven has for its next Dispatch.
const closedGrace = time.Second

// await returns nil when done is closed, or why nobody should wait for that any longer.
func (w *World) await(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-w.lobby.shut:
	}
	grace := time.NewTimer(closedGrace)
	defer grace.Stop()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-grace.C:
		return fmt.Errorf("rpc: Do: the world was closed, and nobody drives it: %w", w.lobby.cause())
	}
}

// Inside reports whether the caller is on the goroutine that drove the world last, where a call that waits for the
// world would wait for ever.
func (w *World) Inside() bool { return w.drive.Inside() }

// Dropped returns how many posts were refused, and how many local calls found their actor destroyed; and what a closed
// world did not run, whose last functions call and ask again each time.
func (w *World) Dropped() uint64 { return w.dropped.Load() }

func (w *World) post(fn func()) error {
	err := w.lobby.post(fn)
	if err == nil {
		w.drive.Signal()
	}
	return err
}

// hand posts what must not be lost and of which a limit of its own holds the number.
func (w *World) hand(fn func()) {
	w.lobby.hand(fn)
	w.drive.Signal()
}

// dispatch is one step of the world. all takes from every connection and corks it; else only those that called. Whatever
// runs is taken off its queue before, so that a function of the game which never returns leaves the rest to the next
// Dispatch.
func (w *World) dispatch(now time.Time, all bool) {
	w.frame.begin(now)
	w.beginFrame()
	w.takeInbox()
	w.game.RunTasks() // those that a panic left, and of those that did not join
	w.runLocal()
	w.admitJoined()
	w.takeTurns(all)
	w.runAllWaiting()
	w.expireRequests()
	w.takeMessages()
	w.maintainSealed()
	w.game.RunPosts()
	w.expelEnded()
	w.logInWaiting()
	if len(w.joining) > 0 { // they waited for some of those that have ended
		w.admitJoined()
		w.drive.Signal()
	}
}

// maintainSealed looks after the sealed carriers of which something has changed.
func (w *World) maintainSealed() {
	for _, c := range w.announced {
		if c.sealed != nil && c.sealed.attention.Swap(false) {
			c.sealed.maintain()
		}
	}
}

// admitJoined announces the connections that have joined, but for those that wait for the end of one that they replace or follow.
func (w *World) admitJoined() {
	for i := 0; i < len(w.joining); {
		c := w.joining[i]
		if slices.ContainsFunc(c.replaced, func(old *Conn) bool { return slices.Contains(w.ending, old) }) {
			i++
			continue
		}
		w.joining = slices.Delete(w.joining, i, i+1)
		c.replaced = nil // or each connection of a client would hold all those before it
		w.admit(c)
		w.game.RunTasks()
	}
}

// expelEnded says good-bye to the connections that have ended, once what came before their end has run.
func (w *World) expelEnded() {
	for i := 0; i < len(w.ending); {
		c := w.ending[i]
		if c.waits() || slices.Contains(w.joining, c) {
			i++
			continue
		}
		w.ending = slices.Delete(w.ending, i, i+1)
		w.expel(c)
		w.game.RunTasks()
	}
}

// flush runs the hooks and uncorks.
func (w *World) flush(now time.Time) {
	w.frame.now = now
	w.runHooks()
	w.relate(now)
	w.lull()
	w.replicate(now)
	w.sampleRates()
	w.exchangeTimes()
	w.frame.end()
}

// runHooks runs the OnTick hooks, those first that a panic left.
func (w *World) runHooks() {
	if w.frame.hook > 0 {
		w.frame.runHooks(&w.game)
	}
	w.frame.runHooks(&w.game)
}

// takeInbox takes what other goroutines handed over.
func (w *World) takeInbox() {
	joined, ended, refused := w.lobby.take(w.game.Post)
	w.ending = append(w.ending, ended...)
	for _, c := range joined {
		c.replaced = append(c.replaced, w.endedBefore(c)...)
		w.joining = append(w.joining, c)
	}
	for _, c := range refused {
		w.game.Later(c, tasks.Doing{}, c.destroyOwned)
	}
}

// endedBefore returns the connections that have ended and of which the game is to hear before it hears of c, which has joined: those of its
// identity, and all where c is a client's, who has connected again.
func (w *World) endedBefore(c *Conn) []*Conn {
	return slices.DeleteFunc(slices.Clone(w.ending), func(old *Conn) bool {
		same := !c.server || c.identity != "" && c.identity == old.identity
		return !same || !slices.Contains(w.announced, old) && !slices.Contains(w.joining, old) // it has joined after c
	})
}

// Guard runs fn, a function of the game, and reports whether it returned. A package that calls functions of the game from
// hooks of its own runs them here, so that a panic reaches Config.OnPanic with conn, which may be nil, and is the matter of
// that package. Guard closes nothing. Without Config.OnPanic the panic goes on.
//
// The world's own calls of handlers and hooks are guarded already, and close the connection with HandlerPanic besides.
func (w *World) Guard(conn *Conn, fn func()) (returned bool) {
	if w.config.OnPanic == nil {
		fn()
		return true
	}
	defer func() {
		if recovered := recover(); recovered != nil {
			w.tellPanic(conn, tasks.Doing{}, recovered)
		}
	}()
	fn()
	return true
}

// panicked closes the connection for which a function of the game panicked. The peer may read the function's name: it has joined,
// so it declares the same classes. Before that only Config.Authenticate and Login run for it.
func (w *World) panicked(conn *Conn, doing tasks.Doing, recovered any) {
	if conn != nil {
		conn.abort(&CloseError{Code: HandlerPanic, Reason: fmt.Sprintf("%v panicked", doing), cause: tasks.Panic{Recovered: recovered}})
	}
	w.tellPanic(conn, doing, recovered)
}

// tellPanic is called while the stack of the panic still stands.
func (w *World) tellPanic(conn *Conn, doing tasks.Doing, recovered any) {
	log := w.log
	if conn != nil {
		log = log.With("conn", conn)
	}
	log.Error("panic in a function of the game", "function", doing.String(), "panic", fmt.Sprint(recovered))
	w.config.OnPanic(conn, recovered, debug.Stack())
}

// frame is one step of the game: Dispatch, the game's tick, Flush. The world's goroutine owns it.
type frame struct {
	now     time.Time  // of the running or last Dispatch or Flush
	beat    clock.Beat // of the running or last Dispatch
	open    bool       // between Dispatch and Flush
	flushes uint64     // that have ended
	corked  []*Conn    // to uncork at Flush
	onTick  []func(now time.Time)
	hook    int // index of the next OnTick hook; 0 between two Flushes
}

// begin begins a Dispatch.
func (f *frame) begin(now time.Time) {
	f.now, f.open, f.beat = now, true, clock.Beat{Game: now, Real: time.Now()}
}

// cork gathers what is sent on c until the end. It is called under the link's lock.
func (f *frame) cork(c *Conn) {
	if f.open && !c.corked && !c.closing.Load() {
		c.corked = true
		f.corked = append(f.corked, c)
		c.machine.Cork(true)
	}
}

// runHooks runs the OnTick hooks, from the one at hook on.
func (f *frame) runHooks(game *tasks.Runner[*Conn]) {
	for f.hook < len(f.onTick) {
		f.runHooksGuarded(game)
	}
	f.hook = 0
}

func (f *frame) runHooksGuarded(game *tasks.Runner[*Conn]) {
	defer game.Catch(nil)
	for f.hook < len(f.onTick) {
		f.hook++
		game.Doing = tasks.Doing{What: "an OnTick hook"}
		f.onTick[f.hook-1](f.now)
	}
}

// end lets leave what was gathered.
func (f *frame) end() {
	for i, c := range f.corked {
		f.corked[i], c.corked = nil, false
		c.link.Lock()
		c.machine.Cork(false)
		c.link.Unlock()
	}
	f.flushes++
	f.corked, f.open = f.corked[:0], false
}
