package rpc

import (
	"context"
	"math/bits"
	"slices"
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/internal/clock"
	"github.com/quivernet/quiver/internal/driver"
	"github.com/quivernet/quiver/internal/link"
	"github.com/quivernet/quiver/internal/tasks"
)

// Dispatch handles the messages that have arrived. It runs handlers, hooks, posted functions, and
// calls that were made in this world. UE: UNetDriver::TickDispatch.
//
// Messages sent between Dispatch and Flush are held back until Flush, so that a tick needs as
// few datagrams as possible. Dispatch panics if another goroutine is driving the world at the
// same time, or if a handler calls it.
func (w *World) Dispatch(now time.Time) {
	w.beginDriving()
	defer w.drive.Exit()
	w.dispatch(clock.Beat{Game: now, Real: time.Now()}, allConns)
}

// Flush runs the OnTick hooks, then sends states along with all packets that were held back.
// UE: UNetDriver::TickFlush.
//
// It must be called on the goroutine that called Dispatch. The world belongs to that goroutine
// until another one calls Dispatch, so Do and Ask return ErrOnWorld there.
func (w *World) Flush(now time.Time) {
	w.resumeDriving()
	defer w.drive.Exit()
	w.flush(now)
}

// Tick calls Dispatch and then Flush.
func (w *World) Tick(now time.Time) {
	w.beginDriving()
	defer w.drive.Exit()
	w.dispatch(clock.Beat{Game: now, Real: time.Now()}, allConns)
	w.flush(now)
}

// beginDriving gives the world to the calling goroutine. It must be paired with drive.Exit.
func (w *World) beginDriving() { mustEnter(w.drive.Enter(true)) }

// resumeDriving is like beginDriving, but leaves the world to the goroutine that has it.
func (w *World) resumeDriving() { mustEnter(w.drive.Enter(false)) }

// mustEnter panics if the world is being driven already.
func mustEnter(entered bool) {
	if !entered {
		panic("rpc: the world is already being driven, by another goroutine or by the caller of this handler")
	}
}

// A reach says from which connections a Dispatch takes messages.
type reach uint8

const (
	activeConns reach = iota // connections whose peer has called, or that the game has used
	allConns
)

// dispatch is the first half of a step. It takes messages from the connections in the given reach,
// and corks these connections: everything sent on them waits until Flush.
//
// Functions of the game may panic or exit the goroutine. Each is therefore removed from its queue
// before it runs, so that the next Dispatch carries on with the rest.
func (w *World) dispatch(now clock.Beat, of reach) {
	w.frame.begin(now)
	w.frame.allConns = w.frame.allConns || of == allConns
	w.dos.beginFrame()
	w.admission.takeInbox()
	w.game.RunTasks() // tasks left over by a panic, and then those that takeInbox added
	w.runLocal()
	spent := w.admission.admitJoined(0)
	w.takeTurns(of)

	for _, c := range w.frame.attended(w.announced) {
		w.runWaiting(c)
		w.expire(&c.requests)
		c.sendTaken()
	}
	w.expireOwn()
	w.maintainSealed()
	w.game.RunPosts()

	w.admission.expelEnded()
	w.admission.logInWaiting()
	if len(w.admission.joining) > 0 {
		// Try again, because some connections may have been waiting for others to be expelled.
		// Any that are still joining afterwards need another Dispatch.
		w.admission.admitJoined(spent)
		w.drive.Signal()
	}
}

// flush is the second half of a step. The caller must have entered the driver.
func (w *World) flush(now time.Time) {
	w.frame.now = now
	w.runHooks()
	w.updateRelevancy(now)
	w.closeChannels()
	w.replicate(now)
	if w.frame.allConns {
		w.sampleRates()
	}
	w.exchangeTimes()
	w.frame.end()
}

// runHooks runs the OnTick hooks.
func (w *World) runHooks() {
	if w.frame.nextHook > 0 {
		// A panic interrupted the last Flush. Run the hooks that it missed first.
		w.frame.runHooks(&w.game)
	}
	w.frame.runHooks(&w.game)
}

// Run drives the world until ctx ends or the world is closed. It returns the cause of ctx, or
// ErrClosed. It panics if another goroutine drives the world.
//
// States must be changed on the world's goroutine, by Post or Do, because Run does not notice other
// changes.
//
// Run ticks whenever something happens: a message arrives, a function is posted, a call is made in
// this world, or buffer space that something is waiting for becomes free. It also ticks
// Config.TickRate times a second. In addition, it ticks 30 times a second while states are in
// flight, and on a server with clients while [At] or [Relevant] decides about actors.
//
// With more than 16 connections, a tick for an event handles only the connections that are
// involved, and compares states only if there are no more than 256. Another tick handles the rest
// within a thirtieth of a second.
func (w *World) Run(ctx context.Context) error {
	w.beginDriving()
	defer w.drive.Exit()
	r := run{world: w, settle: time.NewTimer(settleTime), happened: true}
	r.settle.Stop()
	defer r.settle.Stop()
	defer context.AfterFunc(ctx, w.drive.Signal)()
	if w.config.TickRate > 0 {
		ticker := time.NewTicker(time.Second / time.Duration(w.config.TickRate))
		defer ticker.Stop()
		r.tick = ticker.C
	}
	for {
		r.step()
		if w.lobby.drained() {
			if r.finish() {
				return ErrClosed
			}
			continue
		}
		if err := r.wait(ctx); err != nil {
			return err
		}
	}
}

// A run is the state of a call to Run from one step to the next. It is used only by the
// goroutine in Run.
type run struct {
	world *World

	// These end a sleep, and so does the driver's signal. There's no channel for the end of the
	// context, because a select takes longer the more channels it has. The end of the context
	// signals the driver instead.
	tick      <-chan time.Time // ticks at Config.TickRate; nil if there is no rate
	settle    *time.Timer      // runs while the world is unsettled
	settled   <-chan time.Time // settle.C; nil while settle doesn't run
	gathering driver.Gathering

	happened    bool      // the last sleep ended for a reason other than settle
	lookedAtAll time.Time // last step that looked at all connections; zero if the next one must
	lastSteps   int       // steps since the world was closed
}

// step runs one Dispatch and one Flush. If another step is needed even if nothing happens, it
// starts settle.
func (r *run) step() {
	w := r.world
	now := time.Now()
	if r.happened {
		w.replicator.lastEvent = now
	}
	w.frame.allConns = len(w.announced) <= fewConns || now.Sub(r.lookedAtAll) >= settleTime
	w.dispatch(clock.Beat{Game: now, Real: now}, activeConns)
	w.flush(now)

	switch {
	case !w.frame.allConns:
		// Come back for the connections that this step has skipped.
		r.tickIn(r.lookedAtAll.Add(settleTime).Sub(now))
	case w.unsettled():
		r.tickIn(settleTime)
	}
	if w.frame.allConns {
		r.lookedAtAll = now
	}
	if w.local.Len() > 0 || len(w.turns.late) > 0 {
		w.drive.Signal() // there's a backlog, so don't sleep
	}
}

// tickIn makes settle end the next sleep after d.
func (r *run) tickIn(d time.Duration) {
	r.settle.Reset(d)
	r.settled = r.settle.C
}

// finish is called after each step of a closed world, and reports whether Run may return. Run goes
// on while functions of the game are waiting to run, but only for maxLastSteps steps, after which
// finish drops the remaining functions.
func (r *run) finish() (done bool) {
	w := r.world
	n := w.game.Pending() + w.local.Len()
	r.lastSteps++
	if r.lastSteps <= maxLastSteps && n > 0 {
		return false
	}
	w.local = localCalls{}
	if n > 0 {
		w.dropped.Add(uint64(n))
		w.log.Warn("functions of a closed world dropped: they kept making new calls and requests",
			"functions", n)
	}
	return true
}

// wait sleeps until something happens. If ctx has ended, it returns the cause of ctx.
func (r *run) wait(ctx context.Context) error {
	w := r.world
	w.dos.noteIdle()
	r.happened = true
	w.drive.Rest(true)
	defer w.drive.Rest(false)
	if r.sleep() {
		// Give other goroutines a chance to post as well, so that one step serves them all.
		r.gathering.Yield(w.lobby.posted)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// sleep waits for the driver's signal or for a timer, and reports whether it was the signal.
func (r *run) sleep() (woken bool) {
	wake := r.world.drive.Wake()
	if r.tick == nil && r.settled == nil {
		// Usually there's no timer to wait for, and a plain receive takes half as long as a
		// select.
		<-wake
		return true
	}
	select {
	case <-r.tick:
		r.lookedAtAll = time.Time{} // look at all connections in each regular tick
	case <-r.settled:
		r.happened = false
		r.settled = nil
	case <-wake:
		return true
	}
	return false
}

// maxLastSteps is the maximum number of steps that Run makes after the world was closed, while the
// game's last functions keep making calls and requests. Without it, a function that repeats its
// request whenever it fails would keep Run from ever returning.
const maxLastSteps = 16

// settleTime is the time until Run ticks again while the world is unsettled.
const settleTime = time.Second / 30

// fewConns is the maximum number of connections for which Run looks at all of them in every step.
//
// If there are more, most steps look only at connections whose peer has sent something, or that the
// game has used. Otherwise the cost of each message would grow with the number of connections. Run
// looks at all connections at each tick of Config.TickRate, and at least once per settleTime. Tests
// set fewConns.
var fewConns = 16

// unsettled reports whether the world needs another tick even if nothing happens: because states
// are in flight, because actors and views may move, or because something is waiting for a later
// Flush or for a deadline.
func (w *World) unsettled() bool {
	mayMove := w.relevance.members > 0 && len(w.announced) > 0
	if mayMove || len(w.toClose) > 0 || w.requests.asked.Len() > 0 || w.replicator.behind {
		return true
	}
	return slices.ContainsFunc(w.announced, (*Conn).needsTick)
}

// A frame is one step of the game: Dispatch, then the game's own tick, then Flush. The world reuses
// a single frame, and only on its goroutine.
type frame struct {
	now     time.Time  // as passed to the latest Dispatch or Flush
	beat    clock.Beat // the game's time and the real time of the latest Dispatch
	game    clock.Game // the game's clock, for Conn.ServerTime
	open    bool       // between Dispatch and Flush
	flushes uint64     // completed Flushes

	// Connections that this step has to deal with.
	allConns bool    // look at all connections, not only at the active ones
	active   []*Conn // those that have called or were used by the game since the last Flush
	corked   []*Conn // to be uncorked at Flush
	order    sendOrder

	// Hooks.
	onTick   []func(now time.Time)
	nextHook int // index into onTick; 0 unless a panic has interrupted runHooks
}

// A framePart is a connection's part in the frame. It is used only by the world's goroutine,
// except for inCallers.
type framePart struct {
	active    bool        // the connection is in frame.active
	corked    bool        // the connection is in frame.corked: what we send now waits for Flush
	inCallers atomic.Bool // the connection is in World.callers; safe for concurrent use
}

// begin is called at the beginning of a Dispatch.
func (f *frame) begin(now clock.Beat) {
	f.now = now.Game
	f.open = true
	f.beat = now
	f.game.Tick(now)
}

// activate includes a connection in the current step or, between two steps, in the next one. It
// does nothing until the connection has been admitted.
func (f *frame) activate(c *Conn) {
	if c.life.admitted && !c.inFrame.active {
		c.inFrame.active = true
		f.active = append(f.active, c)
	}
}

// attended returns the connections that this step looks at. announced is World.announced.
func (f *frame) attended(announced []*Conn) []*Conn {
	if f.allConns {
		return announced
	}
	return f.active
}

// remove removes a connection that is being expelled.
func (f *frame) remove(c *Conn) {
	f.active = without(f.active, c)
	c.inFrame.active = false
}

// cork holds back everything sent on c until Flush. The caller holds the link's lock.
func (f *frame) cork(c *Conn) {
	if f.open && !c.inFrame.corked && !c.life.closing.Load() {
		c.inFrame.corked = true
		f.activate(c)
		f.corked = append(f.corked, c)
		c.machine.Cork(true)
	}
}

// runHooks runs the OnTick hooks, starting from nextHook.
func (f *frame) runHooks(game *tasks.Runner[*Conn]) {
	game.All(func() bool {
		if f.nextHook == len(f.onTick) {
			return false
		}
		// Advance first. If the hook panics, it must not run again.
		f.nextHook++
		game.Doing = tasks.Doing{What: "an OnTick hook"}
		f.onTick[f.nextHook-1](f.now)
		return true
	})
	f.nextHook = 0
}

// maxDirect is the maximum number of connections for which a Flush sends packets on the world's
// goroutine, provided that their carriers can't block. Each takes about 5 µs. If there are more
// connections, other goroutines send the packets, so that system calls don't prolong the tick.
const maxDirect = 16

// end is called at the end of a Flush. It sends everything that was held back.
func (f *frame) end() {
	unlock := (*link.Link).Unlock
	if len(f.corked) > maxDirect {
		unlock = (*link.Link).UnlockLater
	}

	first := f.order.next(len(f.corked))
	for n := range f.corked {
		i := (first + n) % len(f.corked)
		c := f.corked[i]
		f.corked[i] = nil
		c.inFrame.corked = false
		c.link.Lock()
		c.machine.Cork(false)
		unlock(c.link)
	}
	for i, c := range f.active {
		f.active[i] = nil
		c.inFrame.active = false
	}

	f.flushes++
	f.active = f.active[:0]
	f.corked = f.corked[:0]
	f.open = false
}

// A sendOrder decides which connection sends first in a Flush, so that they take turns.
//
// The last connections to send are at a disadvantage, because when the packets of a tick overflow a
// queue that the connections share, the last packets are lost. If this happened to the same
// connections many ticks in a row, their states would be seconds old.
//
// It keeps separate counts of the Flushes in which 1 connection sent, 2 to 3 connections sent, 4 to
// 7, and so on, because Run also flushes when a client's message arrives. With a single counter, a
// client could control by its messages how far the counter moves between two ticks, and make other
// clients send last for a hundred ticks in a row.
type sendOrder [bits.UintSize + 1]uint64

// next returns which of n connections sends first in this Flush, as an index. It advances by n
// divided by the golden ratio, so that the connections right behind the first one don't have to
// wait long for their turn to be first.
func (o *sendOrder) next(n int) int {
	size := bits.Len(uint(n))
	first, _ := bits.Mul64(o[size]*golden, uint64(n))
	o[size]++
	return int(first)
}

// golden is 2⁶⁴ divided by the golden ratio. Its multiples modulo 2⁶⁴ are spread as evenly as
// possible. See Knuth, The Art of Computer Programming, 6.4.
const golden = 0x9E3779B97F4A7C15
