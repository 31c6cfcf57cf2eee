package sealed

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/internal/bell"
	"github.com/quivernet/quiver/internal/timers"
	"github.com/quivernet/quiver/internal/udp"
)

const (
	// linger is how long the goroutine of a carrier with bulk waits for work before it ends.
	linger = 20 * time.Millisecond
	// parkAfter is how far off the next work must be for the goroutine to end, and leave it to a timer.
	parkAfter = 100 * time.Millisecond
	// pollTime is how long a carrier with bulk looks for work before it sleeps. A processor that falls asleep needs longer to wake, on a
	// virtual machine ten times as long, than bulk on a fast path needs for the next packets: without it loopback is less than half as fast.
	pollTime = 20 * time.Microsecond
	// crowdWait is the least wait while more carriers have work than there are processors. One call sends what is due in it, about as
	// much as BBR sends at once (BBR.send_quantum of draft-ietf-ccwg-bbr). Shorter waits cost a crowd a fifth more of processor time.
	crowdWait = time.Millisecond
)

// awake counts the goroutines of all workers of the process.
var awake atomic.Int32

// worker decides which goroutine works for a carrier: while there is bulk, one of the carrier's own; without bulk, the one that brings the work, if
// that never blocks. wake, enter and expired may be called concurrently; the other methods only by the goroutine that works.
type worker struct {
	hand  func()        // has another goroutine work in place of the caller
	work  func()        // works on a goroutine of its own, and calls sleep in turn, until that returns true
	empty func() bool   // reports whether the inbox is empty; the work ends only then, because wake is called only for the first packet in it
	real  bool          // the socket is the kernel's and time is real, not a test's
	queue *timers.Queue // of later
	token bell.Bell     // holds a wake, and ends the sleep of the goroutine
	timer *time.Timer   // of sleep; nil before the first

	mu      sync.Mutex   // guards the fields below, up to due
	working bool         // somebody works; after end it stays true
	next    time.Time    // when work is due, while nobody works; zero = never
	later   timers.Timer // calls expired at due
	due     time.Time    // zero = later is not set

	started atomic.Uint64 // how many goroutines were started
}

// wake has somebody else look for work.
func (w *worker) wake() {
	if w.enter() {
		w.hand()
	}
}

// enter makes the caller the one that works. After true the caller works until rest is true, or calls hand or start. It is false if another
// one works, which will look again, or when the worker has ended.
func (w *worker) enter() (ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.working {
		w.working = true
		return true
	}
	w.token.Ring()
	return false
}

// start has a goroutine go on in place of the caller.
func (w *worker) start() {
	w.started.Add(1)
	go w.run()
}

// expired looks for work if some is due: the timer has fired.
func (w *worker) expired() {
	if w.overdue() {
		w.hand()
	}
}

// overdue makes the caller the one that works, if none does and work is due by now.
func (w *worker) overdue() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.due = time.Time{}
	if w.working {
		return false
	}
	w.working = !w.next.IsZero() && time.Until(w.next) <= 0
	if !w.working {
		w.schedule()
	}
	return w.working
}

// seen forgets a wake, and reports whether there was one. The goroutine that works calls it under the lock, where it sees all that the owner did
// before that wake, and before it looks into the inbox.
func (w *worker) seen() bool { return w.token.Heard() }

// run is the goroutine; awake counts it while it exists.
func (w *worker) run() {
	awake.Add(1)
	defer awake.Add(-1)
	w.work()
}

// crowded reports whether more carriers have work than there are processors. In virtual time none is crowded.
func (w *worker) crowded() bool { return w.real && int(awake.Load()) > runtime.GOMAXPROCS(0) }

// poll looks for work for pollTime, and lets others run meanwhile. It reports whether there is some: a wake, a packet, or what is due at
// next. While more carriers have work than there are processors others have it, and in virtual time nothing comes meanwhile.
func (w *worker) poll(next time.Time) bool {
	if !w.real || w.crowded() {
		return false
	}
	for begin := time.Now(); ; runtime.Gosched() {
		now := time.Now()
		if len(w.token) > 0 || !w.empty() || !next.IsZero() && !next.After(now) {
			return true
		}
		if now.Sub(begin) >= pollTime {
			return false
		}
	}
}

// sleep waits for a wake, or for the time next at which work is due; zero = none is. It reports whether the goroutine must end, because
// there is no work for long.
func (w *worker) sleep(next time.Time) (end bool) {
	wait, rests := linger, true
	if until := time.Until(next); !next.IsZero() && until <= parkAfter {
		wait, rests = until, false
	}
	if w.token.Heard() || wait <= 0 {
		return false
	}
	wait, naps := w.adjust(wait)
	if naps && udp.Nap(wait) {
		return false
	}
	if w.timer == nil {
		w.timer = time.NewTimer(wait)
	} else {
		w.timer.Reset(wait)
	}
	select {
	case <-w.token:
		return false
	case <-w.timer.C:
		return rests && w.rest(next)
	}
}

// adjust lengthens a wait while many carriers have work. With naps the thread itself must sleep in the kernel, because the runtime's timers
// would round a short wait up in an idle process. A thread that sleeps so keeps a processor of the runtime from all other goroutines, so at
// most half of them do. In virtual time a wait stays as it is.
func (w *worker) adjust(wait time.Duration) (_ time.Duration, naps bool) {
	procs, crowd := runtime.GOMAXPROCS(0), int(awake.Load())
	switch {
	case !w.real:
		return wait, false
	case crowd > procs:
		return max(wait, crowdWait), false
	}
	return wait, wait < udp.TimerUnit && 2*crowd <= procs
}

// rest reports whether the caller may stop working, because there is nothing to do before next. Then the timer calls expired at next.
func (w *worker) rest(next time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.token) > 0 || !w.empty() {
		return false
	}
	w.working, w.next = false, next
	w.schedule()
	return true
}

// schedule sets the timer for next. A timer that fires earlier stays, and overdue sets it again then, because play puts next off in every turn.
func (w *worker) schedule() {
	if !w.next.IsZero() && (w.due.IsZero() || w.due.After(w.next)) {
		w.due = w.next
		w.queue.Set(&w.later, w.due)
	}
}

// end makes wake do nothing from now on: the last goroutine that works calls it, and does not rest any more.
func (w *worker) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue.Stop(&w.later)
}
