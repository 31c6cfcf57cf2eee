package sealed

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/internal/udp"
)

const (
	// linger is how long a goroutine without work waits for some before it ends. It is less than a tick at 30 Hz: the ticks of a quiet
	// game wake its carriers, and should not keep their goroutines.
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

// worker is a goroutine that exists while there is work. wake may be called concurrently; the other methods are for the goroutine.
type worker struct {
	work  func()        // the goroutine: it works and calls sleep in turn, until that returns true
	empty func() bool   // reports whether the inbox is empty; the goroutine ends only then, because wake is called only for the first packet in it
	real  bool          // the socket is the kernel's and time is real, not a test's
	token chan struct{} // capacity 1; wakes a sleeping goroutine

	mu      sync.Mutex
	running bool
	ended   bool
	later   *time.Timer // calls wake when the next work is due

	started atomic.Uint64 // how many goroutines were started
}

// wake makes the goroutine look for work, and starts it if there is none.
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

// seen forgets a wake, and reports whether there was one. The goroutine calls it where it sees all that the owner did before, and looks into
// the inbox later.
func (w *worker) seen() bool {
	select {
	case <-w.token:
		return true
	default:
		return false
	}
}

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

// rest reports whether the goroutine may end, because there is no work. It then sets the timer that starts another one at next.
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

// end makes wake do nothing from now on. Only the last goroutine calls it.
func (w *worker) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	if w.later != nil {
		w.later.Stop()
	}
}
