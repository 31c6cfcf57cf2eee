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
	// linger is how long the goroutine of a carrier with bulk waits for work before it
	// ends.
	lingerTime = 20 * time.Millisecond
	// parkAfter is the time until the next work above which the goroutine ends and leaves
	// the work to a timer.
	parkAfter = 100 * time.Millisecond
	// pollTime is how long a carrier with bulk polls for work before it sleeps. A sleeping
	// processor takes longer to wake up (ten times as long on a virtual machine) than the
	// next packets of bulk on a fast path take to arrive. Without polling, loopback is less
	// than half as fast.
	pollTime = 20 * time.Microsecond
	// crowdWait is the minimum wait while more carriers have work than there are
	// processors. Everything that becomes due in it fits into one call, and is about as
	// much as BBR sends at once (BBR.send_quantum of draft-ietf-ccwg-bbr). With shorter
	// waits a crowd takes a fifth more of processor time.
	crowdWait = time.Millisecond
)

// awake counts the goroutines of all workers of the process.
var awake atomic.Int32

// worker decides which goroutine works for a carrier. With bulk that is one of the
// carrier's own. Without bulk it is the one that brings the work, if that never blocks.
//
// wake, enter and expired are safe for concurrent use. The other methods may be called only
// by the goroutine that works.
type worker struct {
	handOff func() // makes another goroutine work in place of the caller
	work    func() // works on its own goroutine, and calls sleep until that returns true
	// Reports whether the inbox is empty. The work ends only then, because wake is called
	// only for the first packet in it.
	inboxEmpty func() bool
	realTime   bool          // the socket is the kernel's and time is real, unlike in some tests
	queue      *timers.Queue // of later
	wakeups    bell.Bell     // rung by enter while another goroutine works; ends its sleep
	timer      *time.Timer   // of sleep; nil before the first

	mu       sync.Mutex   // guards the fields below, up to due
	working  bool         // a goroutine works; stays true after end
	nextWork time.Time    // when work is due while no goroutine works; zero = never
	alarm    timers.Timer // calls expired at due
	alarmAt  time.Time    // when later fires; zero = it is not set

	started atomic.Uint64 // goroutines started
}

// wake makes another goroutine look for work.
func (w *worker) wake() {
	if w.tryEnter() {
		w.handOff()
	}
}

// enter makes the caller the goroutine that works. If it returns true, the caller works
// until rest returns true, or until it calls hand or start.
//
// It returns false if another goroutine works, which will then look again, and after end.
func (w *worker) tryEnter() (ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.working {
		w.working = true
		return true
	}
	w.wakeups.Ring()
	return false
}

// start starts a goroutine that works in place of the caller.
func (w *worker) start() {
	w.started.Add(1)
	go w.run()
}

// expired is called when the timer fires. If work is due, another goroutine does it.
func (w *worker) alarmFired() {
	if w.enterIfDue() {
		w.handOff()
	}
}

// overdue makes the caller the goroutine that works, if none does and work is due by now.
func (w *worker) enterIfDue() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.alarmAt = time.Time{}
	if w.working {
		return false
	}
	w.working = !w.nextWork.IsZero() && time.Until(w.nextWork) <= 0
	if !w.working {
		w.setAlarm()
	}
	return w.working
}

// seen clears a wake and reports whether there was one. The goroutine that works calls it
// under the carrier's lock before it looks into the inbox. It then sees everything that the
// owner did before that wake.
func (w *worker) clearWake() bool { return w.wakeups.Heard() }

// run is the goroutine that start starts. It is counted in awake.
func (w *worker) run() {
	awake.Add(1)
	defer awake.Add(-1)
	w.work()
}

// crowded reports whether more carriers have work than there are processors. It
// is always false in virtual time.
func (w *worker) crowded() bool { return w.realTime && int(awake.Load()) > runtime.GOMAXPROCS(0) }

// poll polls for work for at most pollTime, and lets other goroutines run meanwhile. It
// reports whether there is work: a wake, a packet, or a timer due at next.
//
// It does not poll while more carriers have work than there are processors. Nor does it
// poll in virtual time, because nothing can arrive meanwhile.
func (w *worker) poll(next time.Time) bool {
	if !w.realTime || w.crowded() {
		return false
	}
	for begin := time.Now(); ; runtime.Gosched() {
		now := time.Now()
		if len(w.wakeups) > 0 || !w.inboxEmpty() || !next.IsZero() && !next.After(now) {
			return true
		}
		if now.Sub(begin) >= pollTime {
			return false
		}
	}
}

// sleep waits for a wake or for work that is due at next (zero = none). It reports whether
// the goroutine must end, because there is no work for a long time.
func (w *worker) sleep(next time.Time) (end bool) {
	wait := lingerTime
	rests := true
	if until := time.Until(next); !next.IsZero() && until <= parkAfter {
		wait = until
		rests = false
	}
	if w.wakeups.Heard() || wait <= 0 {
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
	case <-w.wakeups:
		return false
	case <-w.timer.C:
		return rests && w.tryRest(next)
	}
}

// adjust lengthens a wait while many carriers have work. In virtual time a wait stays as it
// is.
//
// If naps is true, the thread itself must sleep in the kernel, because the runtime's timers
// would round a short wait up in an idle process. Such a thread keeps one of the runtime's
// processors from all other goroutines, so at most half of them may sleep like that.
func (w *worker) adjust(wait time.Duration) (_ time.Duration, naps bool) {
	procs := runtime.GOMAXPROCS(0)
	crowd := int(awake.Load())
	switch {
	case !w.realTime:
		return wait, false
	case crowd > procs:
		return max(wait, crowdWait), false
	}
	return wait, wait < udp.TimerUnit && 2*crowd <= procs
}

// rest reports whether the caller may stop working because there is nothing to do before
// next. If so, the timer will call expired at next.
func (w *worker) tryRest(next time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.wakeups) > 0 || !w.inboxEmpty() {
		return false
	}
	w.working = false
	w.nextWork = next
	w.setAlarm()
	return true
}

// schedule sets the timer for next. It leaves a timer that fires earlier, because play
// postpones next in every turn. overdue sets it again when it fires.
func (w *worker) setAlarm() {
	if !w.nextWork.IsZero() && (w.alarmAt.IsZero() || w.alarmAt.After(w.nextWork)) {
		w.alarmAt = w.nextWork
		w.queue.Set(&w.alarm, w.alarmAt)
	}
}

// end makes later calls of wake do nothing. It is called by the last goroutine that works,
// which does not rest afterwards.
func (w *worker) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue.Stop(&w.alarm)
}
