package sealed

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/internal/udp"
)

const (
	// linger is how long a goroutine without work waits for some before it ends: less than a tick of 30 Hz, for a quiet game's ticks
	// wake their carriers.
	linger = 20 * time.Millisecond
	// parkAfter is how far off the next work must be to be left to a timer: the goroutine ends meanwhile.
	parkAfter = 100 * time.Millisecond
	// crowdWait is the least wait while more carriers have work than there are processors: what is due in it leaves by one call, as
	// much as BBR sends in one (BBR.send_quantum of draft-ietf-ccwg-bbr). Finer waits cost a crowd a fifth more of its processors' time.
	crowdWait = time.Millisecond
)

// awake counts the goroutines of all workers of the process.
var awake atomic.Int32

// worker is a goroutine that exists while there is work. All methods but sleep and end, which are the goroutine's, may be called concurrently.
type worker struct {
	work  func()      // the goroutine's: it works and sleeps by turns, until sleep says that it is to end
	empty func() bool // whether the queue is empty for which wake is called when it gets its first entry; the goroutine does not end before
	real  bool        // the socket is the system's, and time is real
	token chan struct{}

	mu      sync.Mutex
	running bool
	ended   bool
	later   *time.Timer // starts a goroutine

	started atomic.Uint64 // goroutines
}

// wake has the goroutine look for work, and starts it when there is none.
func (w *worker) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.ended:
	case w.running:
		select {
		case w.token <- struct{}{}:
		default:
		}
	default:
		w.running = true
		w.started.Add(1)
		if w.later != nil {
			w.later.Stop()
		}
		go w.run()
	}
}

// run is the goroutine, counted while it exists.
func (w *worker) run() {
	awake.Add(1)
	defer awake.Add(-1)
	w.work()
}

// sleep waits for work, of which next is the time when there is some without a wake; zero = never. It reports whether the goroutine is to
// end, because there is none for long.
func (w *worker) sleep(timer *time.Timer, next time.Time) (end bool) {
	wait, rests := linger, true
	if until := time.Until(next); !next.IsZero() && until <= parkAfter {
		wait, rests = until, false
	}
	select {
	case <-w.token:
		return false
	default:
	}
	if wait <= 0 {
		return false
	}
	wait, naps := w.adjust(wait)
	if naps && udp.Nap(wait) {
		return false
	}
	timer.Reset(wait)
	select {
	case <-w.token:
		return false
	case <-timer.C:
		return rests && w.rest(next)
	}
}

// adjust lengthens a wait while many others have work. naps: a thread is to sleep in the kernel, as the timers of an idle process would round
// the wait up. Meanwhile the thread keeps one of the runtime's processors from all other goroutines, so half of the processors stay free. In
// virtual time a wait stays what it is.
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

// rest ends the goroutine unless there is work after all; a timer starts another one.
func (w *worker) rest(next time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.token) > 0 || !w.empty() {
		return false
	}
	w.running = false
	switch {
	case next.IsZero():
	case w.later == nil:
		w.later = time.AfterFunc(time.Until(next), w.wake)
	default:
		w.later.Reset(time.Until(next))
	}
	return true
}

// end has no goroutine start again. The last one calls it.
func (w *worker) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	if w.later != nil {
		w.later.Stop()
	}
}
