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

// Dispatch handles what has arrived: it runs handlers, hooks, posted functions and calls that were made in this world. Calls
// that are made between it and Flush are gathered, so that a tick leaves in as few datagrams as possible. It panics when
// another goroutine drives the world at the same time, or when a handler calls it. UE: UNetDriver::TickDispatch.
func (w *World) Dispatch(now time.Time) {
	w.beginDriving(true)
	defer w.drive.Exit()
	w.dispatch(clock.Beat{Game: now, Real: time.Now()}, true)
}

// Flush runs the OnTick hooks, sends states, and lets packets leave. Call it on the goroutine that called Dispatch, which counts as the
// world's until another one dispatches: there Do and Ask return ErrOnWorld. UE: UNetDriver::TickFlush.
func (w *World) Flush(now time.Time) {
	w.beginDriving(false)
	defer w.drive.Exit()
	w.flush(now)
}

// beginDriving begins to drive the world; with drives the calling goroutine is the world's from now on.
func (w *World) beginDriving(drives bool) {
	if !w.drive.Enter(drives) {
		panic("rpc: the world is driven twice at once: by two goroutines, or by a handler that ticks it")
	}
}

// Tick is Dispatch and Flush.
func (w *World) Tick(now time.Time) {
	w.beginDriving(true)
	defer w.drive.Exit()
	w.dispatch(clock.Beat{Game: now, Real: time.Now()}, true)
	w.flush(now)
}

// Run drives the world until ctx ends, and returns its cause, or until the world is closed, and returns ErrClosed. It ticks whenever
// something happens: a message comes, a post, a call in this world, or freed space that somebody watches. It ticks 30 times a second while
// states are on their way, and on a server with clients while [At] or [Relevant] decides about actors; once more within a thirtieth of a second
// after something has happened among more than 16 connections, where only such ticks send what has changed in more than 256 states; and besides
// Config.TickRate times a second. Change states on the world's goroutine, by Post or Do: Run does not notice changes from elsewhere. Run
// panics if another goroutine drives the world.
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

// run is what Run knows from one step to the next. Only the goroutine in Run uses it.
type run struct {
	world *World

	// What ends a sleep. The driver does so too, also when the context ends, because a select takes the longer the more channels it has.
	tick      <-chan time.Time // of Config.TickRate; nil = none
	settle    *time.Timer      // runs while the world is unsettled
	settled   <-chan time.Time // of settle; nil while that does not run
	gathering driver.Gathering

	happened    bool      // something else than settle has ended the last sleep
	lookedAtAll time.Time // when a step last looked at all connections; zero = the next one does
	last        int       // steps since the world was closed
}

// step is one Dispatch and Flush. It sets settle when more is to be done, even if nothing happens.
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

// tickIn sets settle.
func (r *run) tickIn(d time.Duration) {
	r.settle.Reset(d)
	r.settled = r.settle.C
}

// mayEnd reports, in a closed world, whether the last functions of the game are through. It drops what they call and ask for ever.
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

// wait waits for something to happen. The error is the cause of ctx, which has ended.
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

// sleep waits for the driver, which is woken then, or a time. Most waits are for the driver alone, and cost half of a select.
func (r *run) sleep() (woken bool) {
	wake := r.world.drive.Wake()
	if r.tick == nil && r.settled == nil {
		<-wake
		return true
	}
	select {
	case <-r.tick:
		r.lookedAtAll = time.Time{} // the step of a tick looks at all
	case <-r.settled:
		r.happened, r.settled = false, nil
	case <-wake:
		return true
	}
	return false
}

// maxLastDispatches is how often Run dispatches after the world was closed, as long as the last functions of the game call and ask.
// Without the limit a function that asks again whenever its question fails would keep Run from returning.
const maxLastDispatches = 16

// settleTime is how soon Run ticks again by itself while the world is unsettled: 30 times a second.
const settleTime = time.Second / 30

// fewConns is with how many connections Run looks at all of them in each step. With more it does so at each tick of Config.TickRate and once
// in settleTime, and else looks at those that have called or that the game has touched: otherwise each message of one would cost as much as
// there are others. Tests set it.
var fewConns = 16

// unsettled reports whether the world needs a tick even if nothing happens: states are on their way, or actors and views may move.
func (w *World) unsettled() bool {
	if w.relevance.members > 0 && len(w.announced) > 0 || len(w.toClose) > 0 || w.requests.asked.Len() > 0 || w.replicator.behind {
		return true
	}
	return slices.ContainsFunc(w.announced, (*Conn).unsettled)
}

// Post runs fn on the world's goroutine in the next Dispatch. A post beyond Config.MaxPosts, or to a closed world, is
// dropped, logged and counted in [World.Dropped].
func (w *World) Post(fn func()) {
	mustRun("Post", fn == nil)
	if err := w.post(fn); err != nil {
		w.dropped.Add(1)
		w.log.Warn("post dropped", "error", err)
	}
}

// Do runs fn on the world's goroutine in the next Dispatch and waits for it. When ctx ends before fn begins, fn does not run. When the
// world was closed a second ago and has not dispatched since, Do returns ErrClosed, and fn does not run. It returns an error if fn
// panicked, and ErrOnWorld when it is called on the world's goroutine.
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

// visit runs fn on the world's goroutine in the next Dispatch, and returns when it has run, or panicked. When wait, which waits for that, returns an
// error before fn begins, fn does not run, and visit returns that error.
func (w *World) visit(fn func(), wait func(done <-chan struct{}) error) error {
	var claimed atomic.Bool // by the Dispatch that runs fn, or by a caller that gives up
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

// Inside reports whether the caller is on the goroutine that drove the world last, where a call that waits for the
// world would wait for ever.
func (w *World) Inside() bool { return w.drive.Inside() }

// Dropped returns how many posts were refused, and how many local calls found their actor destroyed or without an object; and what a
// closed world did not run, whose last functions call and ask again each time.
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

// dispatch is one step of the world. With cork it takes from every connection and corks it; else only from those that called. Whatever
// runs is taken off its queue before, so that a function of the game which never returns leaves the rest to the next
// Dispatch.
func (w *World) dispatch(now clock.Beat, cork bool) {
	w.frame.begin(now)
	w.frame.all = w.frame.all || cork
	w.beginFrame()
	w.takeInbox()
	w.game.RunTasks() // those that a panic left over, and those of takeInbox
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
	if len(w.joining) > 0 { // some may have waited for the connections that were expelled, or for their turn
		w.admitJoined(spent)
		w.drive.Signal()
	}
}

// A Dispatch begins at most maxBegun of the carriers that clients have opened, and none after beginTime; the others wait for the next. To begin
// one takes 40 µs, or on a busy machine as long as the world's goroutine waits for a processor, and a whole crowd may open one at once.
const (
	maxBegun  = 64
	beginTime = 2 * time.Millisecond
)

// maintainSealed runs maintain of the sealed carriers that have asked for it by wake.
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
				c.call() // it has its turn in the next Dispatch
				continue
			}
			begun++
		}
		s.attention.Store(false)
		s.maintain()
	}
}

// admitTime is after how long a Dispatch announces no more of the connections that have joined; it announces one in any case. Each opens all that is
// for everybody: 10,000 actors take 20 ms, and the whole crowd of a server that was restarted may join in the same moment.
const admitTime = 8 * time.Millisecond

// admitJoined announces the connections that have joined, except those that must wait until an earlier one is expelled. It returns how much of
// admitTime is spent, of which spent was before; the others wait for the next Dispatch.
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
		c.replaced = nil // else each connection of a client would keep all earlier ones in memory
		w.admit(c)
		w.game.RunTasks()
	}
	return time.Since(began)
}

// expelEnded expels the connections that have ended, once the messages that came before have run.
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

// flush is Flush, without entering.
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

// runHooks runs the OnTick hooks; first those that a panic left over from the last Flush.
func (w *World) runHooks() {
	if w.frame.hook > 0 {
		w.frame.runHooks(&w.game)
	}
	w.frame.runHooks(&w.game)
}

// takeInbox takes what other goroutines have handed over to the world's.
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

// endedBefore returns the connections that have ended and whose OnDisconnect must run before OnConnect of c, which has joined: on a server
// those of its identity, on a client all.
func (w *World) endedBefore(c *Conn) []*Conn {
	return slices.DeleteFunc(slices.Clone(w.ending), func(old *Conn) bool {
		same := !c.server || c.identity != "" && c.identity == old.identity
		return !same || !old.admitted && !slices.Contains(w.joining, old) // the second: old has joined after c
	})
}

// Guard runs fn, a function of the game, and reports whether it returned. It is for packages that call functions of the game
// from hooks of their own: Config.OnPanic is told of a panic, with conn, which may be nil, and the package decides what ends.
// Guard closes nothing. function is called only when fn has panicked: it names what did, for OnPanic and the log. Without Config.OnPanic
// the panic goes on.
//
// The world guards the handlers and hooks that it calls itself, and closes the connection with HandlerPanic.
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

// panicked closes the connection for which a function of the game panicked. The reason may name the function: a peer that has joined
// declares the same classes, and before that only Config.Authenticate and Login run.
func (w *World) panicked(conn *Conn, doing tasks.Doing, recovered any) {
	if conn != nil {
		conn.abort(&CloseError{Code: HandlerPanic, Reason: fmt.Sprintf("%v panicked", doing), cause: tasks.Panic{Recovered: recovered}})
	}
	w.tellPanic(conn, doing.String(), recovered)
}

// tellPanic logs a panic and calls OnPanic. It must be called by the deferred function that recovers, where the stack is still there.
func (w *World) tellPanic(conn *Conn, function string, recovered any) {
	log := w.log
	if conn != nil {
		log = log.With("conn", conn)
	}
	log.Error("panic in a function of the game", "function", function, "panic", fmt.Sprint(recovered))
	w.config.OnPanic(conn, function, recovered, debug.Stack())
}

// frame is one step of the game: Dispatch, the game's tick, Flush. The world's goroutine owns it.
type frame struct {
	now     time.Time  // of the running or last Dispatch or Flush
	beat    clock.Beat // of the running or last Dispatch
	open    bool       // between Dispatch and Flush
	flushes uint64     // that have ended
	all     bool       // this step looks at all connections, not at those in active alone
	active  []*Conn    // have called, or were touched by the game, since the last Flush
	corked  []*Conn    // to uncork at Flush
	order   order      // in which they send
	onTick  []func(now time.Time)
	hook    int // index of the next OnTick hook; 0 between two Flushes
}

// begin begins a Dispatch.
func (f *frame) begin(now clock.Beat) { f.now, f.open, f.beat = now.Game, true, now }

// activate has the running step look at an admitted connection; between two steps, the next one.
func (f *frame) activate(c *Conn) {
	if c.admitted && !c.active {
		c.active = true
		f.active = append(f.active, c)
	}
}

// attended returns those of the world's connections at which this step looks.
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

// cork gathers what is sent on c until Flush. It is called under the link's lock.
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

// maxDirect is for how many connections a Flush sends on the world's goroutine, some 5 µs each, where the carrier cannot block. The packets
// of more leave on goroutines of others, so that a tick does not spend its time in system calls.
const maxDirect = 16

// end ends the Flush: what was gathered leaves.
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

// order counts the Flushes in which 1 connection sent, 2 to 3, 4 to 7, and so on, each kind by itself: Run flushes as well whenever a message of a
// client has come, and a client whose messages chose the number of Flushes between two ticks could have others come last in a hundred ticks in a row.
type order [bits.UintSize + 1]uint64

// begins returns which of n connections sends first in this Flush: each in turn, in steps of the golden ratio, so that those which come after it soon
// have their turn as well. Where the packets of a tick overflow a queue that they share, the last ones are lost: had the same connections come last
// each time, or for many ticks in a row, their states would be seconds old.
func (o *order) begins(n int) int {
	kind := bits.Len(uint(n))
	first, _ := bits.Mul64(o[kind]*golden, uint64(n))
	o[kind]++
	return int(first)
}

// golden is 2⁶⁴ divided by the golden ratio: its multiples modulo 2⁶⁴ are the most evenly spread. Knuth, The Art of Computer Programming 6.4.
const golden = 0x9E3779B97F4A7C15
