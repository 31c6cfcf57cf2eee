package rpc

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"
)

// inbox is what other goroutines hand to the world.
type inbox struct {
	joined []*Conn
	ended  []*Conn
	posts  []func()
}

// Dispatch takes what has arrived and runs handlers, hooks, posted functions and queued local calls.
// UE: UNetDriver::TickDispatch. Until Flush, calls are gathered so that a tick leaves in as few datagrams as it fits.
// It panics when another goroutine drives the world, or when it is called from a handler.
func (w *World) Dispatch(now time.Time) {
	w.enter(true)
	defer w.exit()
	w.dispatch(now, true)
}

// Flush runs the OnTick hooks and lets packets leave. UE: UNetDriver::TickFlush.
func (w *World) Flush(now time.Time) {
	w.enter(false)
	defer w.exit()
	w.flush(now)
}

// Tick is Dispatch and Flush.
func (w *World) Tick(now time.Time) {
	w.enter(true)
	defer w.exit()
	w.dispatch(now, true)
	w.flush(now)
}

// Run drives the world until ctx ends, and returns its cause, or until the world is closed, and returns ErrClosed. It
// ticks whenever something happens: a message, a post, a local call, freed space that somebody watches; besides, it
// ticks Config.TickRate times a second.
func (w *World) Run(ctx context.Context) error {
	w.enter(true)
	defer w.exit()
	var tick <-chan time.Time
	if w.config.TickRate > 0 {
		ticker := time.NewTicker(time.Second / time.Duration(w.config.TickRate))
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		now := time.Now()
		w.dispatch(now, false)
		w.flush(now)
		if len(w.local) > 0 {
			w.signal()
		}
		if w.over() {
			return ErrClosed
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick:
		case <-w.wake:
		}
	}
}

// Post runs fn on the world's goroutine in the next Dispatch. A post beyond Config.MaxPosts, or to a closed world, is
// dropped, logged and counted in [World.Dropped].
func (w *World) Post(fn func()) {
	if err := w.post(fn); err != nil {
		w.dropped.Add(1)
		w.log.Warn("post dropped", "error", err)
	}
}

// Do runs fn on the world's goroutine in the next Dispatch and waits for it. When ctx ends first, fn does not run,
// unless it already does. Called from the goroutine that drives the world it returns ErrOnWorld.
func (w *World) Do(ctx context.Context, fn func()) error {
	if w.Inside() {
		return fmt.Errorf("%w: Do would wait for itself; call the function", ErrOnWorld)
	}
	var claimed atomic.Bool // by fn that runs, or by a caller that leaves
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
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		if claimed.CompareAndSwap(false, true) {
			return context.Cause(ctx)
		}
		<-done
		return nil
	}
}

// Inside reports whether the caller is on the goroutine that drove the world last, where a call that waits for the
// world would wait for ever.
func (w *World) Inside() bool { return w.driver.Load() == goroutineID(new([64]byte)) }

// Dropped returns how many posts were refused, and how many local calls found their actor destroyed.
func (w *World) Dropped() uint64 { return w.dropped.Load() }

func (w *World) post(fn func()) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed != nil:
		return fmt.Errorf("rpc: post to a closed world: %w", ErrClosed)
	case len(w.inbox.posts) >= w.config.maxPosts():
		return fmt.Errorf("rpc: %d posts wait for a Dispatch, the limit is Config.MaxPosts: %w", len(w.inbox.posts), ErrBacklogFull)
	}
	w.inbox.posts = append(w.inbox.posts, fn)
	w.signal()
	return nil
}

// enter claims the world. drives says that the calling goroutine is the world's from now on.
func (w *World) enter(drives bool) {
	if !w.driving.CompareAndSwap(false, true) {
		panic("rpc: the world is driven twice at once: by two goroutines, or by a handler that ticks it")
	}
	if drives {
		w.driver.Store(goroutineID(&w.stack))
	}
}

func (w *World) exit() { w.driving.Store(false) }

// dispatch is one step of the world. all takes from every connection and corks it; else only those that called.
func (w *World) dispatch(now time.Time, all bool) {
	w.now, w.inFrame = now, true
	in := w.takeInbox()
	w.runLocal()
	for _, c := range in.joined {
		w.admit(c)
	}
	for _, c := range w.conns {
		if all || c.dirty.Load() {
			c.dirty.Store(false) // before the look: what comes during it sets it again
			w.receive(c)
		}
		if c.raw != nil && c.raw.attention.Swap(false) {
			c.raw.tend()
		}
	}
	for i, fn := range in.posts {
		in.posts[i] = nil
		fn()
	}
	for _, c := range in.ended {
		w.expel(c)
	}
}

// flush runs the hooks and uncorks.
func (w *World) flush(now time.Time) {
	w.now = now
	for _, hook := range w.onTick {
		hook(now)
	}
	for i, c := range w.corked {
		w.corked[i], c.isCorked = nil, false
		c.link.Lock()
		c.machine.Cork(false)
		c.link.Unlock()
	}
	w.corked, w.inFrame = w.corked[:0], false
}

// cork gathers what is sent on c until Flush. It is called under the link's lock.
func (w *World) cork(c *Conn) {
	if w.inFrame && !c.isCorked && !c.closing.Load() {
		c.isCorked = true
		w.corked = append(w.corked, c)
		c.machine.Cork(true)
	}
}

func (w *World) takeInbox() inbox {
	w.mu.Lock()
	defer w.mu.Unlock()
	in := w.inbox
	w.inbox = inbox{posts: w.posts[:0]}
	w.posts = in.posts
	return in
}

// over reports whether the world was closed and nothing is left to tell.
func (w *World) over() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed != nil && w.count == 0 && len(w.inbox.posts) == 0
}

// goroutineID returns the runtime's number of the calling goroutine; no two ever have the same. It takes about 10 µs.
func goroutineID(buf *[64]byte) uint64 {
	head := buf[:runtime.Stack(buf[:], false)] // "goroutine 18 [running]:…"
	head, _, _ = bytes.Cut(bytes.TrimPrefix(head, []byte("goroutine ")), []byte(" "))
	id, _ := strconv.ParseUint(string(head), 10, 64)
	return id
}
