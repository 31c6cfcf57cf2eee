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

// Dispatch handles what has arrived. It runs handlers, hooks, posted functions, and calls
// that were made in this world. UE: UNetDriver::TickDispatch.
//
// Messages that are sent between Dispatch and Flush wait for Flush, so a tick needs as few
// datagrams as possible. Dispatch panics if another goroutine drives the world at the same
// time, or if a handler calls it.
func (w *World) Dispatch(now time.Time) {
	w.beginDriving(true)
	defer w.drive.Exit()
	w.dispatch(clock.Beat{Game: now, Real: time.Now()}, true)
}

// Flush runs the OnTick hooks, sends states, and sends the packets
// that wait. UE: UNetDriver::TickFlush.
//
// It must be called on the goroutine that called Dispatch. That goroutine remains the world's
// until another one calls Dispatch, and Do and Ask return ErrOnWorld on it.
func (w *World) Flush(now time.Time) {
	w.beginDriving(false)
	defer w.drive.Exit()
	w.flush(now)
}

// beginDriving enters the driver. The caller must leave it by drive.Exit. If
// drives is true, the calling goroutine becomes the world's. beginDriving
// panics if the world is being driven already.
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

// Run drives the world until ctx ends or the world is closed. It returns the cause of ctx, or
// ErrClosed. It panics if another goroutine drives the world.
//
// Change states on the world's goroutine, by Post or Do. Run does not notice other changes.
//
// Run ticks whenever something happens: a message arrives, a function is posted, a call is
// made in this world, or space becomes free that somebody watches. It also ticks
// Config.TickRate times a second. In addition it ticks 30 times a second while states are in
// flight and, on a server with clients, while [At] or [Relevant] decides about actors.
//
// With more than 16 connections, an event makes Run look only at the connections that it
// concerns, and compare states only if there are at most 256. Run then ticks once more for
// the others, within a thirtieth of a second.
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

	// These end a sleep, as the driver does. The end of the context signals the driver,
	// because a select with more channels takes longer.
	tick      <-chan time.Time // of Config.TickRate; nil = none
	settle    *time.Timer      // runs while the world is unsettled
	settled   <-chan time.Time // the channel of settle; nil while it does not run
	gathering driver.Gathering

	happened    bool      // the last sleep was not ended by settle
	lookedAtAll time.Time // time when a step last looked at all connections; zero = the next one must
	last        int       // number of steps since the world was closed
}

// step runs one Dispatch and Flush. It starts settle if there is more
// to do even if nothing happens.
func (r *run) step() {
	w := r.world
	now := time.Now()
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

// tickIn makes settle end the next sleep after d.
func (r *run) tickIn(d time.Duration) {
	r.settle.Reset(d)
	r.settled = r.settle.C
}

// mayEnd is called after each step of a closed world. It reports whether the
// game's last functions have run. After maxLastDispatches steps it drops what
// they still call and ask, and returns true.
func (r *run) mayEnd() bool {
	w := r.world
	n := w.game.Owed() + w.local.Len()
	r.last++
	if r.last <= maxLastDispatches && n > 0 {
		return false
	}
	w.local = localCalls{}
	if n > 0 {
		w.dropped.Add(uint64(n))
		w.log.Warn("the last functions of a closed world call and ask for ever: what is left is dropped",
			"functions", n)
	}
	return true
}

// wait waits until something happens. If ctx has ended, it returns the cause of ctx.
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

// sleep waits for the driver or for a time. It returns true if the driver ended the wait.
// Most waits are for the driver alone, and a plain receive takes half as long as a select.
func (r *run) sleep() (woken bool) {
	wake := r.world.drive.Wake()
	if r.tick == nil && r.settled == nil {
		<-wake
		return true
	}
	select {
	case <-r.tick:
		r.lookedAtAll = time.Time{} // a step at a tick looks at all connections
	case <-r.settled:
		r.happened = false
		r.settled = nil
	case <-wake:
		return true
	}
	return false
}

// maxLastDispatches is how many more steps Run makes after the world was closed, while the
// game's last functions call and ask. Without this limit, a function that asks again whenever
// its request fails would keep Run from returning.
const maxLastDispatches = 16

// settleTime is the time after which Run ticks again while the world is unsettled.
const settleTime = time.Second / 30

// fewConns is the maximum number of connections for which Run looks at all of them in each step.
//
// If there are more, Run looks at all of them at each tick of Config.TickRate and once in
// settleTime. In other steps it looks only at those that called or that the game used. Otherwise
// the cost of each message would grow with the number of connections. Tests set fewConns.
var fewConns = 16

// unsettled reports whether the world needs a tick even if nothing happens.
// That is so if states are in flight, actors and views may move, or
// something waits for a later Flush or for its time.
func (w *World) unsettled() bool {
	mayMove := w.relevance.members > 0 && len(w.announced) > 0
	if mayMove || len(w.toClose) > 0 || w.requests.asked.Len() > 0 || w.replicator.behind {
		return true
	}
	return slices.ContainsFunc(w.announced, (*Conn).unsettled)
}

// Post runs fn on the world's goroutine in the next Dispatch. If the world is
// closed, or if Config.MaxPosts functions wait already, fn is dropped. The drop
// is logged, and counted in [World.Dropped].
func (w *World) Post(fn func()) {
	mustRun("Post", fn == nil)
	if err := w.post(fn); err != nil {
		w.dropped.Add(1)
		w.log.Warn("post dropped", "error", err)
	}
}

// Do runs fn on the world's goroutine in the next Dispatch, and waits until fn has run.
//
// If ctx ends before fn begins, fn does not run, and Do returns the cause of ctx. If
// Config.MaxPosts functions wait already, Do returns ErrBacklogFull. On the world's goroutine
// it returns ErrOnWorld. If fn panicked, Do returns an error.
//
// In a closed world fn does not run, and Do returns ErrClosed at once. If the world is closed
// while fn waits, Do returns ErrClosed when no Dispatch has run fn for a second.
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
	wait := func(done <-chan struct{}) error { return w.lobby.awaitDispatch(ctx, done) }
	if err := w.visit(run, wait); err != nil {
		return err
	}
	return failed
}

// visit runs fn on the world's goroutine in the next Dispatch. It returns when fn has
// returned or panicked, for which it waits by calling wait. If wait returns an error before
// fn begins, fn does not run, and visit returns the error.
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

// Inside reports whether the caller is on the goroutine that last drove the world. On that
// goroutine, a call that waits for the world would wait forever.
func (w *World) Inside() bool { return w.drive.Inside() }

// Dropped returns the number of functions and calls that the world dropped: posts that were
// refused, local calls whose actor was destroyed or had no object, and the last functions of
// a closed world that called or asked again and again.
func (w *World) Dropped() uint64 { return w.dropped.Load() }

// post queues fn for the next Dispatch, or returns an error.
func (w *World) post(fn func()) error {
	err := w.lobby.post(fn)
	if err == nil {
		w.drive.Signal()
	}
	return err
}

// hand posts a function that must not be lost and whose number is limited elsewhere.
func (w *World) hand(fn func()) {
	w.lobby.hand(fn)
	w.drive.Signal()
}

// dispatch is the first half of a step. If cork is true, it handles and corks all
// connections, otherwise only those that called.
//
// It removes each function from its queue before it runs the function. If a function of the
// game never returns, the next Dispatch runs the rest.
func (w *World) dispatch(now clock.Beat, cork bool) {
	w.frame.begin(now)
	w.frame.all = w.frame.all || cork
	w.beginFrame()
	w.takeInbox()
	w.game.RunTasks() // tasks left over after a panic, and those of takeInbox
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
	if len(w.joining) > 0 { // some may have waited for connections that are now expelled, or for time
		w.admitJoined(spent)
		w.drive.Signal()
	}
}

// A Dispatch begins at most maxBegun of the sealed carriers that clients have opened, and
// none after beginTime. The others wait for the next Dispatch.
//
// Each takes 40 µs, or on a busy machine as long as the world's goroutine waits for a
// processor, and very many clients may open one at the same time.
const (
	maxBegun  = 64
	beginTime = 2 * time.Millisecond
)

// maintainSealed calls maintain for the sealed carriers that have requested it by wake.
func (w *World) maintainSealed() {
	begun := 0
	var until time.Time
	for _, c := range w.frame.active {
		s := c.sealed
		if s == nil || !s.attention.Load() {
			continue
		}
		if s.opens > 0 {
			if begun == 0 {
				until = time.Now().Add(beginTime)
			} else if begun == maxBegun || time.Now().After(until) {
				c.call() // makes the next Dispatch look at it
				continue
			}
			begun++
		}
		s.attention.Store(false)
		s.maintain()
	}
}

// admitTime is the time after which a Dispatch admits no further
// connections. It admits at least one.
//
// Each admission opens all actors that are open for everybody. 10,000 actors take 20 ms, and
// all clients of a restarted server may join at the same moment.
const admitTime = 8 * time.Millisecond

// admitJoined admits the connections that have joined. It leaves out those
// that must wait until an earlier connection is expelled. When admitTime is
// used up, the rest wait for the next Dispatch.
//
// spent is the part of admitTime that was used before. admitJoined
// returns the part that is used now.
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

// expelEnded expels the connections that have ended, once the
// messages that arrived before the end have run.
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

// flush is the second half of a step. It is Flush without entering the driver.
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

// runHooks runs the OnTick hooks. If a panic interrupted the last Flush, it first runs the
// hooks that are left over from it.
func (w *World) runHooks() {
	if w.frame.hook > 0 {
		w.frame.runHooks(&w.game)
	}
	w.frame.runHooks(&w.game)
}

// takeInbox takes what other goroutines handed to the world's goroutine.
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

// endedBefore returns the ended connections whose OnDisconnect must run before OnConnect of c,
// which has joined. On a server these are the connections of its identity, on a client all.
func (w *World) endedBefore(c *Conn) []*Conn {
	return slices.DeleteFunc(slices.Clone(w.ending), func(old *Conn) bool {
		same := !c.server || c.identity != "" && c.identity == old.identity
		if !same {
			return true
		}
		return !old.admitted && !slices.Contains(w.joining, old) // old has joined after c
	})
}

// Guard runs fn, a function of the game, and reports whether it returned. It is for packages
// that call functions of the game from their own hooks.
//
// If fn panics, Guard passes the panic to Config.OnPanic with conn, which may be nil. It
// calls function to name what panicked, for OnPanic and the log. Guard closes nothing: the
// package decides what ends. Without Config.OnPanic the panic continues.
//
// The world guards the handlers and hooks that it calls itself. If one panics,
// it closes the connection with HandlerPanic.
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

// panicked closes the connection for which a function of the game panicked.
//
// The close reason may name the function. A peer that has joined declares the same classes,
// and before that only Config.Authenticate and Login run.
func (w *World) panicked(conn *Conn, doing tasks.Doing, recovered any) {
	if conn != nil {
		conn.abort(&CloseError{
			Code:   HandlerPanic,
			Reason: fmt.Sprintf("%v panicked", doing),
			cause:  tasks.Panic{Recovered: recovered},
		})
	}
	w.tellPanic(conn, doing.String(), recovered)
}

// tellPanic logs a panic and calls OnPanic. The deferred function that recovers must call it,
// while the stack of the panic still exists.
func (w *World) tellPanic(conn *Conn, function string, recovered any) {
	log := w.log
	if conn != nil {
		log = log.With("conn", conn)
	}
	log.Error("panic in a function of the game", "function", function, "panic", fmt.Sprint(recovered))
	w.config.OnPanic(conn, function, recovered, debug.Stack())
}

// frame is one step of the game: Dispatch, the game's tick, Flush. It
// is used only by the world's goroutine.
type frame struct {
	now     time.Time  // as passed to the current or last Dispatch or Flush
	beat    clock.Beat // of the current or last Dispatch
	open    bool       // between Dispatch and Flush
	flushes uint64     // number of Flushes that have ended
	all     bool       // this step looks at all connections, not only at those in active
	active  []*Conn    // connections that called or that the game used since the last Flush
	corked  []*Conn    // connections to uncork at Flush
	order   order      // determines which of corked sends first
	onTick  []func(now time.Time)
	hook    int // index of the next OnTick hook; 0 between two Flushes
}

// begin begins a Dispatch.
func (f *frame) begin(now clock.Beat) {
	f.now = now.Game
	f.open = true
	f.beat = now
}

// activate makes the current step look at an admitted connection.
// Between two steps, it makes the next step do so.
func (f *frame) activate(c *Conn) {
	if c.admitted && !c.active {
		c.active = true
		f.active = append(f.active, c)
	}
}

// attended returns the connections that this step looks at. announced is World.announced.
func (f *frame) attended(announced []*Conn) []*Conn {
	if f.all {
		return announced
	}
	return f.active
}

// forget removes an expelled connection.
func (f *frame) forget(c *Conn) {
	f.active = slices.DeleteFunc(f.active, func(other *Conn) bool { return other == c })
	c.active = false
}

// cork makes everything sent on c wait for Flush. The caller holds the link's lock.
func (f *frame) cork(c *Conn) {
	if f.open && !c.corked && !c.closing.Load() {
		c.corked = true
		f.activate(c)
		f.corked = append(f.corked, c)
		c.machine.Cork(true)
	}
}

// runHooks runs the OnTick hooks, beginning with the one at index hook.
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

// maxDirect is the maximum number of connections for which a Flush sends on the world's
// goroutine if their carrier cannot block. Each takes about 5 µs. If there are more, other
// goroutines send the packets, so the tick does not spend its time in system calls.
const maxDirect = 16

// end ends the Flush. It sends everything that waited for it.
func (f *frame) end() {
	unlock := (*link.Link).Unlock
	if len(f.corked) > maxDirect {
		unlock = (*link.Link).UnlockLater
	}
	begin := f.order.begins(len(f.corked))
	for n := range f.corked {
		i := (begin + n) % len(f.corked)
		c := f.corked[i]
		f.corked[i] = nil
		c.corked = false
		c.link.Lock()
		c.machine.Cork(false)
		unlock(c.link)
	}
	for i, c := range f.active {
		f.active[i] = nil
		c.active = false
	}
	f.flushes++
	f.active = f.active[:0]
	f.corked = f.corked[:0]
	f.open = false
}

// order counts the Flushes in which 1 connection sent, 2 to 3, 4 to
// 7, and so on, separately for each range.
//
// Run also flushes when a client's message arrives. With one counter for all ranges, a client
// could choose by its messages the number of Flushes between two ticks. It could thereby make
// others send last in a hundred ticks in a row.
type order [bits.UintSize + 1]uint64

// begins returns the index of the connection, of n, that sends first in this Flush. Each has its
// turn, in steps of the golden ratio, so those that follow it soon have their turn as well.
//
// If the packets of a tick overflow a queue that the connections share, the last ones are lost.
// If the same connections were last for many ticks in a row, their states would be seconds old.
func (o *order) begins(n int) int {
	kind := bits.Len(uint(n))
	first, _ := bits.Mul64(o[kind]*golden, uint64(n))
	o[kind]++
	return int(first)
}

// golden is 2⁶⁴ divided by the golden ratio. Its multiples modulo 2⁶⁴ are spread as evenly as
// possible. See Knuth, The Art of Computer Programming, 6.4.
const golden = 0x9E3779B97F4A7C15
