package rpc

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/internal/clock"
	"github.com/quivernet/quiver/internal/driver"
	"github.com/quivernet/quiver/internal/link"
	"github.com/quivernet/quiver/internal/tasks"
)

// Dispatch handles what has arrived: it runs handlers, hooks, posted functions, and calls
// that were made in this world. Messages that are sent between it and Flush wait for
// Flush, so that a tick needs as few datagrams as possible. It panics if another goroutine
// drives the world at the same time, or a handler calls it. UE: UNetDriver::TickDispatch.
func (w *World) Dispatch(now time.Time) {
	w.beginDriving(true)
	defer w.drive.Exit()
	w.dispatch(clock.Beat{Game: now, Real: time.Now()}, true)
}

// Flush runs the OnTick hooks, sends states, and sends the packets that wait. It must be
// called on the goroutine that called Dispatch, which remains the world's until another
// one dispatches; on it Do and Ask return ErrOnWorld. UE: UNetDriver::TickFlush.
func (w *World) Flush(now time.Time) {
	w.beginDriving(false)
	defer w.drive.Exit()
	w.flush(now)
}

// beginDriving enters the driver, which must be left by drive.Exit. If drives is true, the
// calling goroutine becomes the world's. It panics if the world is being driven already.
func (w *World) beginDriving(drives bool) {
	if !w.drive.Enter(drives) {
		panic("rpc: the world is driven twice at once: by two goroutines, or by a handler that ticks it")
	}
}

// Tick calls Dispatch and Flush.
func (w *World) Tick(now time.Time) {
	w.beginDriving(true)
	defer w.drive.Exit()
	w.dispatch(clock.Beat{Game: now, Real: time.Now()}, true)
	w.flush(now)
}

// Run drives the world until ctx ends, and returns its cause, or until the world is closed,
// and returns ErrClosed. It panics if another goroutine drives the world. Change states on
// the world's goroutine, by Post or Do, because Run does not notice other changes.
//
// Run ticks whenever something happens: a message arrives, a function is posted, a call is made
// in this world, or space becomes free that somebody watches. It also ticks Config.TickRate times
// a second, and 30 times a second while states are in flight, and, on a server with clients,
// while [At] or [Relevant] decides about actors. With more than 16 connections, an event makes
// Run look only at the connections that it concerns, and compare states only if there are at
// most 256. So Run then also ticks once, within a thirtieth of a second, for the others.
func (w *World) Run(ctx context.Context) error {
	w.beginDriving(true)
	defer w.drive.Exit()
	r := run{world: w, settle: time.NewTimer(settleTime), happened: true}
	r.settle.Stop()
	defer r.settle.Stop()
	defer context.AfterFunc(ctx, w.drive.Signal)()
	if w.config.TickRate > 0 {
		ticker := time.NewTicker(max(1, time.Second/time.Duration(w.config.TickRate)))
		defer ticker.Stop()
		r.tick = ticker.C
	}
	for {
		r.step()
		if w.lobby.over() {
			if r.mayEnd() {
				return ErrClosed
			}
			continue
		}
		if err := r.wait(ctx); err != nil {
			return err
		}
	}
}

// run is the state of Run between two steps. It is used only by the goroutine in Run.
type run struct {
	world *World

	// What ends a sleep, besides the driver. The driver is also signaled when
	// the context ends, because a select with more channels takes longer.
	tick      <-chan time.Time // of Config.TickRate; nil = none
	settle    *time.Timer      // runs while the world is unsettled
	settled   <-chan time.Time // the channel of settle; nil while it does not run
	gathering driver.Gathering

	happened    bool      // the last sleep was ended by something else than settle
	lookedAtAll time.Time // when a step last looked at all connections; zero = the next one must
	last        int       // steps since the world was closed
}

// step runs one Dispatch and Flush. It starts settle if there is more to do
// even if nothing happens.
func (r *run) step() {
	w, now := r.world, time.Now()
	if r.happened {
		w.replicator.news = now
	}
	w.frame.all = len(w.announced) <= fewConns || now.Sub(r.lookedAtAll) >= settleTime
	w.dispatch(clock.Beat{Game: now, Real: now}, false)
	w.flush(now)

	switch {
	case !w.frame.all:
		r.tickIn(r.lookedAtAll.Add(settleTime).Sub(now))
	case w.unsettled():
		r.tickIn(settleTime)
	}
	if w.frame.all {
		r.lookedAtAll = now
	}
	if w.local.Len() > 0 || len(w.turns.late) > 0 {
		w.drive.Signal()
	}
}

// tickIn starts settle.
func (r *run) tickIn(d time.Duration) {
	r.settle.Reset(d)
	r.settled = r.settle.C
}

// mayEnd is called after each step of a closed world. It reports whether the game's last functions
// have run. After maxLastDispatches steps it drops what they still call and ask, and reports true.
func (r *run) mayEnd() bool {
	w := r.world
	n := w.game.Owed() + w.local.Len()
	if r.last++; r.last <= maxLastDispatches && n > 0 {
		return false
	}
	if w.local = (localCalls{}); n > 0 {
		w.dropped.Add(uint64(n))
		w.log.Warn("the last functions of a closed world call and ask for ever: what is left is dropped", "functions", n)
	}
	return true
}

// wait waits until something happens. If ctx has ended, it returns the cause.
func (r *run) wait(ctx context.Context) error {
	w := r.world
	w.rest()
	r.happened = true
	w.drive.Rest(true)
	defer w.drive.Rest(false)
	if r.sleep() {
		r.gathering.Yield(w.lobby.posted)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// sleep waits for the driver, in which case it returns true, or for a time.
// Most waits are for the driver alone, which takes half as long as a select.
func (r *run) sleep() (woken bool) {
	wake := r.world.drive.Wake()
	if r.tick == nil && r.settled == nil {
		<-wake
		return true
	}
	select {
	case <-r.tick:
		r.lookedAtAll = time.Time{} // the step of a tick looks at all connections
	case <-r.settled:
		r.happened, r.settled = false, nil
	case <-wake:
		return true
	}
	return false
}

// maxLastDispatches is how many more steps Run makes after the world was closed,
// while the game's last functions call and ask. Without this limit, a function
// that asks again whenever its request fails would keep Run from returning.
const maxLastDispatches = 16

// settleTime is how soon Run ticks again by itself while the world is unsettled: 30 times a second.
const settleTime = time.Second / 30

// fewConns is the most connections at all of which Run looks in each step. If there
// are more, it does so at each tick of Config.TickRate and once in settleTime, and
// otherwise looks at those that have called or that the game has used. Otherwise
// the cost of each message would grow with the number of connections. Tests set it.
var fewConns = 16

// unsettled reports whether the world needs a tick even if nothing happens:
// states are in flight, or actors and views may move.
func (w *World) unsettled() bool {
	if w.relevance.members > 0 && len(w.announced) > 0 || len(w.toClose) > 0 || w.requests.asked.Len() > 0 || w.replicator.behind {
		return true
	}
	return slices.ContainsFunc(w.announced, (*Conn).unsettled)
}

// Post runs fn on the world's goroutine in the next Dispatch. If Config.MaxPosts functions wait
// already, or the world is closed, fn is dropped, which is logged and counted in [World.Dropped].
func (w *World) Post(fn func()) {
	mustRun("Post", fn == nil)
	if err := w.post(fn); err != nil {
		w.dropped.Add(1)
		w.log.Warn("post dropped", "error", err)
	}
}

// Do runs fn on the world's goroutine in the next Dispatch, and waits until it has
// run. If ctx ends before fn begins, fn does not run, and Do returns the cause of
// ctx. In a closed world fn does not run, and Do returns ErrClosed: at once, or, if
// the world is closed while fn waits, when no Dispatch has run fn for a second. If
// Config.MaxPosts functions wait already, Do returns ErrBacklogFull. It returns an
// error if fn panicked, and ErrOnWorld if Do is called on the world's goroutine.
func (w *World) Do(ctx context.Context, fn func()) error {
	mustRun("Do", fn == nil)
	if w.Inside() {
		return fmt.Errorf("%w: Do would wait for itself; call the function", ErrOnWorld)
	}
	failed := errors.New("rpc: the function that Do ran did not return: it panicked, or called runtime.Goexit")
	run := func() {
		fn()
		failed = nil
	}
	if err := w.visit(run, func(done <-chan struct{}) error { return w.lobby.awaitDispatch(ctx, done) }); err != nil {
		return err
	}
	return failed
}

// visit runs fn on the world's goroutine in the next Dispatch, and returns when
// fn has returned or panicked. wait waits for that. If wait returns an error
// before fn begins, fn does not run, and visit returns the error.
func (w *World) visit(fn func(), wait func(done <-chan struct{}) error) error {
	var claimed atomic.Bool // by the Dispatch that runs fn, or by a caller that stops waiting
	done := make(chan struct{})
	err := w.post(func() {
		if claimed.CompareAndSwap(false, true) {
			defer close(done)
			fn()
		}
	})
	if err != nil {
		return err
	}
	if err := wait(done); err != nil && claimed.CompareAndSwap(false, true) {
		return err
	}
	<-done
	return nil
}

// Inside reports whether the caller is on the goroutine that drove the world
// last. There a call that waits for the world would wait forever.
func (w *World) Inside() bool { return w.drive.Inside() }

// Dropped returns how many posts were refused, how many local calls found their
// actor destroyed or without an object, and how many of a closed world's last
// functions were dropped because each of them called or asked again.
func (w *World) Dropped() uint64 { return w.dropped.Load() }

// post queues fn for the next Dispatch, or returns an error.
func (w *World) post(fn func()) error {
	err := w.lobby.post(fn)
	if err == nil {
		w.drive.Signal()
	}
	return err
}

// hand posts a function that must not be lost, and of which another limit bounds the number.
func (w *World) hand(fn func()) {
	w.lobby.hand(fn)
	w.drive.Signal()
}

// dispatch is the first half of a step. If cork is true, it handles and corks all connections,
// otherwise only those that called. It takes each function off its queue before it runs it, so
// that if a function of the game never returns, the next Dispatch runs the rest.
func (w *World) dispatch(now clock.Beat, cork bool) {
	w.frame.begin(now)
	w.frame.all = w.frame.all || cork
	w.beginFrame()
	w.takeInbox()
	w.game.RunTasks() // those that remain after a panic, and those of takeInbox
	w.runLocal()
	spent := w.admitJoined(0)
	w.takeTurns(cork)
	for _, c := range w.frame.attended(w.announced) {
		w.runWaiting(c)
		w.expire(&c.requests)
		c.tellTaken()
	}
	w.expireOwn()
	w.maintainSealed()
	w.game.RunPosts()
	w.expelEnded()
	w.logInWaiting()
	if len(w.joining) > 0 { // some may have waited for connections that are expelled now, or for time
		w.admitJoined(spent)
		w.drive.Signal()
	}
}

// A Dispatch begins at most maxBegun of the sealed carriers that clients have
// opened, and none after beginTime; the others wait for the next Dispatch. Each
// takes 40 µs, or on a busy machine as long as the world's goroutine waits for
// a processor, and very many clients may open one at the same time.
const (
	maxBegun  = 64
	beginTime = 2 * time.Millisecond
)

// maintainSealed calls maintain for the sealed carriers that have requested it by wake.
func (w *World) maintainSealed() {
	begun, until := 0, time.Time{}
	for _, c := range w.frame.active {
		s := c.sealed
		if s == nil || !s.attention.Load() {
			continue
		}
		if s.opens > 0 {
			if begun == 0 {
				until = time.Now().Add(beginTime)
			} else if begun == maxBegun || time.Now().After(until) {
				c.call() // so the next Dispatch looks at it
				continue
			}
			begun++
		}
		s.attention.Store(false)
		s.maintain()
	}
}

// admitTime is after how long a Dispatch admits no further connections; it admits at
// least one. Each admission opens all actors that are open for everybody: 10,000 actors
// take 20 ms, and all clients of a restarted server may join in the same moment.
const admitTime = 8 * time.Millisecond

// admitJoined admits the connections that have joined, except those that must wait until an
// earlier one is expelled. Those for which admitTime does not suffice wait for the next Dispatch.
// spent is how much of admitTime has been used before; admitJoined returns how much is used now.
func (w *World) admitJoined(spent time.Duration) time.Duration {
	if len(w.joining) == 0 {
		return spent
	}
	began := time.Now().Add(-spent)
	for i := 0; i < len(w.joining) && time.Since(began) < admitTime; {
		c := w.joining[i]
		if slices.ContainsFunc(c.replaced, func(old *Conn) bool { return slices.Contains(w.ending, old) }) {
			i++
			continue
		}
		w.joining = slices.Delete(w.joining, i, i+1)
		c.replaced = nil // otherwise each connection of a client would keep all earlier ones in memory
		w.admit(c)
		w.game.RunTasks()
	}
	return time.Since(began)
}

// expelEnded expels the connections that have ended, once the messages that had
// arrived before have run.
func (w *World) expelEnded() {
	for i := 0; i < len(w.ending); {
		c := w.ending[i]
		if c.mayStillRun() || slices.Contains(w.joining, c) {
			i++
			continue
		}
		w.ending = slices.Delete(w.ending, i, i+1)
		w.expel(c)
		w.game.RunTasks()
	}
}

// flush is the second half of a step: Flush, without entering the driver.
func (w *World) flush(now time.Time) {
	w.frame.now = now
	w.runHooks()
	w.updateRelevancy(now)
	w.closeChannels()
	w.replicate(now)
	if w.frame.all {
		w.sampleRates()
	}
	w.exchangeTimes()
	w.frame.end()
}

// runHooks runs the OnTick hooks, after those that remain from the last Flush because of a panic.
func (w *World) runHooks() {
	if w.frame.hook > 0 {
		w.frame.runHooks(&w.game)
	}
	w.frame.runHooks(&w.game)
}

// takeInbox takes what other goroutines have handed to the world's.
func (w *World) takeInbox() {
	w.callers.Take(w.frame.activate)
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

// endedBefore returns the connections that have ended and whose OnDisconnect must run before
// OnConnect of c, which has joined: on a server those of its identity, on a client all.
func (w *World) endedBefore(c *Conn) []*Conn {
	return slices.DeleteFunc(slices.Clone(w.ending), func(old *Conn) bool {
		same := !c.server || c.identity != "" && c.identity == old.identity
		return !same || !old.admitted && !slices.Contains(w.joining, old) // the second condition: old has joined after c
	})
}

// Guard runs fn, a function of the game, and reports whether it returned. It is
// for packages that call functions of the game from their own hooks. If fn panics,
// Guard passes the panic to Config.OnPanic with conn, which may be nil, and calls
// function to name what panicked, for OnPanic and the log. Guard closes nothing:
// the package decides what ends. Without Config.OnPanic the panic continues.
//
// The world guards the handlers and hooks that it calls itself, and closes the
// connection with HandlerPanic.
func (w *World) Guard(conn *Conn, function func() string, fn func()) (returned bool) {
	if w.config.OnPanic == nil {
		fn()
		return true
	}
	defer func() {
		if recovered := recover(); recovered != nil {
			w.tellPanic(conn, function(), recovered)
		}
	}()
	fn()
	return true
}

// panicked closes the connection for which a function of the game panicked. The
// reason may name the function: a peer that has joined declares the same
// classes, and before that only Config.Authenticate and Login run.
func (w *World) panicked(conn *Conn, doing tasks.Doing, recovered any) {
	if conn != nil {
		conn.abort(&CloseError{Code: HandlerPanic, Reason: fmt.Sprintf("%v panicked", doing), cause: tasks.Panic{Recovered: recovered}})
	}
	w.tellPanic(conn, doing.String(), recovered)
}

// tellPanic logs a panic and calls OnPanic. It must be called by the deferred
// function that recovers, while the stack of the panic still exists.
func (w *World) tellPanic(conn *Conn, function string, recovered any) {
	log := w.log
	if conn != nil {
		log = log.With("conn", conn)
	}
	log.Error("panic in a function of the game", "function", function, "panic", fmt.Sprint(recovered))
	w.config.OnPanic(conn, function, recovered, debug.Stack())
}

// frame is one step of the game: Dispatch, the game's tick, Flush. It is used
// only by the world's goroutine.
type frame struct {
	now     time.Time  // as passed to the running or last Dispatch or Flush
	beat    clock.Beat // of the running or last Dispatch
	open    bool       // between Dispatch and Flush
	flushes uint64     // number of Flushes that have ended
	all     bool       // this step looks at all connections, not only at those in active
	active  []*Conn    // have called, or were used by the game, since the last Flush
	corked  []*Conn    // to uncork at Flush
	order   order      // in which order they send
	onTick  []func(now time.Time)
	hook    int // index of the next OnTick hook; 0 between two Flushes
}

// begin begins a Dispatch.
func (f *frame) begin(now clock.Beat) { f.now, f.open, f.beat = now.Game, true, now }

// activate makes the running step, or between two steps the next one, look at
// an admitted connection.
func (f *frame) activate(c *Conn) {
	if c.admitted && !c.active {
		c.active = true
		f.active = append(f.active, c)
	}
}

// attended returns the connections at which this step looks. announced is World.announced.
func (f *frame) attended(announced []*Conn) []*Conn {
	if f.all {
		return announced
	}
	return f.active
}

// forget removes a connection that is expelled.
func (f *frame) forget(c *Conn) {
	f.active = slices.DeleteFunc(f.active, func(other *Conn) bool { return other == c })
	c.active = false
}

// cork makes what is sent on c wait for Flush. The caller holds the link's lock.
func (f *frame) cork(c *Conn) {
	if f.open && !c.corked && !c.closing.Load() {
		c.corked = true
		f.activate(c)
		f.corked = append(f.corked, c)
		c.machine.Cork(true)
	}
}

// runHooks runs the OnTick hooks from index hook on.
func (f *frame) runHooks(game *tasks.Runner[*Conn]) {
	game.All(func() bool {
		if f.hook == len(f.onTick) {
			return false
		}
		f.hook++
		game.Doing = tasks.Doing{What: "an OnTick hook"}
		f.onTick[f.hook-1](f.now)
		return true
	})
	f.hook = 0
}

// maxDirect is the most connections for which a Flush sends on the world's goroutine, at
// about 5 µs each, if their carrier cannot block. If there are more, other goroutines
// send the packets, so that the tick does not spend its time in system calls.
const maxDirect = 16

// end ends the Flush: it sends what has waited for it.
func (f *frame) end() {
	unlock := (*link.Link).Unlock
	if len(f.corked) > maxDirect {
		unlock = (*link.Link).UnlockLater
	}
	begin := f.order.begins(len(f.corked))
	for i := range f.corked {
		i = (begin + i) % len(f.corked)
		c := f.corked[i]
		f.corked[i], c.corked = nil, false
		c.link.Lock()
		c.machine.Cork(false)
		unlock(c.link)
	}
	for i, c := range f.active {
		f.active[i], c.active = nil, false
	}
	f.flushes++
	f.active, f.corked, f.open = f.active[:0], f.corked[:0], false
}

// order counts the Flushes in which 1 connection sent, 2 to 3, 4 to 7, and so on, each
// range separately. Run also flushes when a message of a client arrives. With one
// counter for all ranges, a client could choose with its messages the number of Flushes
// between two ticks, and so make others the last to send in a hundred ticks in a row.
type order [bits.UintSize + 1]uint64

// begins returns which of n connections sends first in this Flush: each in turn, in steps of the
// golden ratio, so that those that come after it soon have their turn as well. If the packets of
// a tick overflow a queue that the connections share, the last ones are lost: if the same
// connections were last each time, or for many ticks in a row, their states would be seconds old.
func (o *order) begins(n int) int {
	kind := bits.Len(uint(n))
	first, _ := bits.Mul64(o[kind]*golden, uint64(n))
	o[kind]++
	return int(first)
}

// golden is 2⁶⁴ divided by the golden ratio. Its multiples modulo 2⁶⁴ are the
// most evenly spread. See Knuth, The Art of Computer Programming, 6.4.
const golden = 0x9E3779B97F4A7C15
