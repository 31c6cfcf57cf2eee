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
	// The goroutine of a carrier with bulk (the traffic of transfers) ends if there's no work for
	// lingerTime, which is about a tick, and none is due within parkAfter. The alarm takes over
	// then. For shorter waits, starting another goroutine wouldn't be worth it.
	lingerTime = 20 * time.Millisecond
	parkAfter  = 100 * time.Millisecond
	// pollTime is the time for which a carrier with bulk polls for work before it sleeps. A
	// sleeping processor takes longer to wake up than the next packets of bulk take to arrive on
	// a fast path, and ten times as long on a virtual machine. Without polling, loopback is less
	// than half as fast.
	pollTime = 20 * time.Microsecond
	// crowdWait is the shortest sleep while more carriers have work than there are processors.
	// Everything that becomes due in that time fits into one call, and is about as much as BBR
	// sends at once (BBR.send_quantum of draft-ietf-ccwg-bbr). With shorter sleeps, the carriers
	// take 20 % more processor time.
	crowdWait = time.Millisecond
)

// awake is the number of running goroutines that were started by the workers of this process.
var awake atomic.Int32

// A worker decides which goroutine works (takes turns) for a carrier, and ensures that only one
// does so at a time. With bulk, the carrier has its own goroutine. Without bulk, the work is done
// by whichever goroutine brings it, provided that the work never blocks.
//
// When a goroutine stops for lack of work, the worker sets an alarm for the time when more is
// due. Until then, the carrier has no goroutine at all.
//
// wake, tryEnter and alarmFired are safe for concurrent use. The other methods may be called
// only by the goroutine that works.
type worker struct {
	// Set by NewCarrier.
	handOff    func()        // makes another goroutine work in place of the caller
	work       func()        // works on the calling goroutine, until sleep or tryLeave returns true
	inboxEmpty func() bool   // reports whether the inbox is empty
	realTime   bool          // the socket is the kernel's and time is real, unlike in some tests
	queue      *timers.Queue // for alarm

	wakeups bell.Bell   // rung by tryEnter while a goroutine is working; cleared by clearWake and sleep
	timer   *time.Timer // of sleep; nil until it's needed

	mu       sync.Mutex   // guards the fields below, up to alarmAt
	working  bool         // a goroutine is working; remains true after stop
	nextWork time.Time    // when work is due while no goroutine works; zero if none is
	alarm    timers.Timer // calls alarmFired
	alarmAt  time.Time    // when it fires; zero if it isn't set

	started atomic.Uint64 // goroutines started
}

// wake makes some other goroutine look for work.
func (w *worker) wake() {
	if w.tryEnter() {
		w.handOff()
	}
}

// tryEnter makes the caller the goroutine that works, unless there is one already. If it
// returns true, the caller must work until tryLeave returns true, or until it calls handOff or
// start.
//
// If it returns false, the goroutine that is working will look for work once more before it
// leaves. After stop, tryEnter always returns false.
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

// clearWake reports whether the worker was woken since the last call, not counting a wake that
// ended a sleep. It is called under the carrier's lock, so the turn sees everything that an owner
// did under that lock before the wake.
func (w *worker) clearWake() bool { return w.wakeups.Heard() }

// start starts a goroutine that works in place of the calling one.
func (w *worker) start() {
	w.started.Add(1)
	go w.run()
}

// run runs on a goroutine started by start.
func (w *worker) run() {
	awake.Add(1)
	defer awake.Add(-1)
	w.work()
}

// crowded reports whether more carriers have work than there are processors. It's always false
// in virtual time.
func (w *worker) crowded() bool { return w.realTime && int(awake.Load()) > runtime.GOMAXPROCS(0) }

// poll polls for work: a wake, a packet, or whatever is due at next. It returns true as soon as
// there is work, or false after pollTime. Other goroutines may run in the meantime.
func (w *worker) poll(next time.Time) bool {
	if !w.realTime || w.crowded() {
		// In virtual time, nothing can arrive while we poll. If there are more carriers than
		// processors, others need this one.
		return false
	}
	for begin := time.Now(); ; runtime.Gosched() {
		now := time.Now()
		isDue := !next.IsZero() && !next.After(now)
		if isDue || w.hasWork() {
			return true
		}
		if now.Sub(begin) >= pollTime {
			return false
		}
	}
}

// hasWork reports whether the worker was woken or a packet has arrived. Only the first packet in an
// inbox causes a wake, so a wake alone wouldn't do.
func (w *worker) hasWork() bool { return w.wakeups.Pending() || !w.inboxEmpty() }

// sleep waits for a wake, or until work is due at next, which is zero if no work is due. It
// returns true if the goroutine must end, because there won't be any work for a long time.
func (w *worker) sleep(next time.Time) (end bool) {
	wait := lingerTime
	mayEnd := true
	if until := time.Until(next); !next.IsZero() && until <= parkAfter {
		wait = until
		mayEnd = false
	}
	if wait <= 0 || w.wakeups.Pending() {
		return false
	}
	wait = max(wait, w.minSleep())
	if w.mayNap(wait) && udp.Nap(wait) {
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
		return mayEnd && w.tryLeave(next)
	}
}

// minSleep returns the shortest time for which the worker may sleep.
func (w *worker) minSleep() time.Duration {
	if w.crowded() {
		return crowdWait
	}
	return 0
}

// mayNap reports whether the thread itself may sleep in the kernel for wait.
//
// In an idle process, the runtime's timers would round up a short wait. A thread can sleep more
// precisely in the kernel, but no other goroutine can use its processor in the meantime, so at most
// half of the processors may be used that way.
func (w *worker) mayNap(wait time.Duration) bool {
	return w.realTime && wait < udp.TimerUnit && 2*int(awake.Load()) <= runtime.GOMAXPROCS(0)
}

// tryLeave stops the caller's work if nothing is due before next, and sets the alarm for next.
// It returns false if there's more to do right now.
func (w *worker) tryLeave(next time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hasWork() {
		return false
	}
	w.working = false
	w.nextWork = next
	w.setAlarm()
	return true
}

// setAlarm sets the alarm for nextWork. Since every turn with play postpones nextWork, setAlarm
// leaves an alarm that's too early as it is. When that goes off, enterIfDue calls setAlarm again.
// The caller holds mu.
func (w *worker) setAlarm() {
	if !w.nextWork.IsZero() && (w.alarmAt.IsZero() || w.alarmAt.After(w.nextWork)) {
		w.alarmAt = w.nextWork
		w.queue.Set(&w.alarm, w.alarmAt)
	}
}

// alarmFired is called when the alarm goes off. If work is due, it hands the work to another
// goroutine.
func (w *worker) alarmFired() {
	if w.enterIfDue() {
		w.handOff()
	}
}

// enterIfDue is tryEnter on behalf of the alarm. If no work is due yet, it sets the alarm again
// and returns false.
func (w *worker) enterIfDue() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.alarmAt = time.Time{}
	if w.working {
		return false
	}
	if w.nextWork.IsZero() || time.Until(w.nextWork) > 0 {
		w.setAlarm()
		return false
	}
	w.working = true
	return true
}

// stop ends the worker, after which wakes have no effect. It is called by the goroutine that is
// working, which must not call tryLeave afterward.
func (w *worker) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue.Stop(&w.alarm)
}
