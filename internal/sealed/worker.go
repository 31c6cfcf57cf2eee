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
	// lingerTime is the time that the goroutine of a carrier with bulk waits for work before it
	// ends.
	lingerTime = 20 * time.Millisecond
	// If no work is due within parkAfter, the goroutine may end and leave the work to the
	// alarm.
	parkAfter = 100 * time.Millisecond
	// pollTime is the time that a carrier with bulk polls for work before it sleeps. A sleeping
	// processor takes longer to wake up than the next packets of bulk take to arrive on a fast
	// path. On a virtual machine, it takes ten times as long. Without polling, loopback is less
	// than half as fast.
	pollTime = 20 * time.Microsecond
	// crowdWait is the shortest sleep while more carriers have work than there are processors.
	// Everything that becomes due in that time fits into one call. It is about as much as BBR
	// sends at once (BBR.send_quantum of draft-ietf-ccwg-bbr). With shorter sleeps, a crowd
	// takes 20 % more processor time.
	crowdWait = time.Millisecond
)

// awake is the number of goroutines started by the workers of this process that haven't ended.
var awake atomic.Int32

// A worker decides which goroutine works for a carrier, and makes sure that there's only one at
// a time. With bulk, the carrier has its own goroutine. Without bulk, the work is done by
// whichever goroutine brings it, provided that the work never blocks.
//
// When a goroutine stops for lack of work, the worker sets an alarm for the time when more is
// due. Until then, the carrier has no goroutine at all.
//
// wake, tryEnter and alarmFired are safe for concurrent use. The other methods may be called
// only by the goroutine that works.
type worker struct {
	// Set by NewCarrier.
	handOff    func()        // makes another goroutine work in place of the caller
	work       func()        // works on a goroutine of its own, until sleep or tryLeave returns true
	inboxEmpty func() bool   // reports whether the inbox is empty
	realTime   bool          // the socket is the kernel's and time is real, unlike in some tests
	queue      *timers.Queue // for alarm

	wakeups bell.Bell   // rung by tryEnter if a goroutine works already; ends its sleep
	timer   *time.Timer // of sleep; nil until it's needed

	mu       sync.Mutex   // guards the fields below, up to alarmAt
	working  bool         // a goroutine works; remains true after stop
	nextWork time.Time    // when the next work is due if no goroutine works; zero if there's none
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
// If it returns false, the goroutine that works will look for work once more. It also returns
// false after stop.
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

// clearWake clears a wake and reports whether there was one. It is called under the carrier's
// lock, so the turn sees everything that an owner did under that lock before the wake.
func (w *worker) clearWake() bool { return w.wakeups.Heard() }

// start starts a goroutine that works in place of the caller.
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
// there is work, or false after pollTime. Other goroutines get to run in the meantime.
func (w *worker) poll(next time.Time) bool {
	if !w.realTime || w.crowded() {
		// In virtual time, nothing can arrive while we poll. In a crowd, others need the
		// processor.
		return false
	}
	for begin := time.Now(); ; runtime.Gosched() {
		now := time.Now()
		isDue := !next.IsZero() && !next.After(now)
		if len(w.wakeups) > 0 || !w.inboxEmpty() || isDue {
			return true
		}
		if now.Sub(begin) >= pollTime {
			return false
		}
	}
}

// sleep waits for a wake, or until work is due at next, which is zero if no work is due. It
// returns true if the goroutine must end, because there won't be any work for a long time.
func (w *worker) sleep(next time.Time) (end bool) {
	wait := lingerTime
	mayEnd := true
	if until := time.Until(next); !next.IsZero() && until <= parkAfter {
		wait = until
		mayEnd = false
	}
	if w.wakeups.Heard() || wait <= 0 {
		return false
	}
	wait, nap := w.adjust(wait)
	if nap && udp.Nap(wait) {
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

// adjust adapts the length of a sleep to the number of carriers with work, unless time is
// virtual. If nap is true, the thread itself must sleep in the kernel.
func (w *worker) adjust(wait time.Duration) (_ time.Duration, nap bool) {
	procs := runtime.GOMAXPROCS(0)
	crowd := int(awake.Load())
	switch {
	case !w.realTime:
		return wait, false
	case crowd > procs:
		return max(wait, crowdWait), false
	}
	// In an idle process, the runtime's timers would round up a short wait. A thread can sleep
	// more precisely in the kernel, but then it keeps one of the runtime's processors from all
	// other goroutines. So at most half of the processors may be used that way.
	return wait, wait < udp.TimerUnit && 2*crowd <= procs
}

// tryLeave stops the caller's work if nothing is due before next, and sets the alarm for next.
// It returns false if there's more to do right now.
func (w *worker) tryLeave(next time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	// The inbox must be empty, because we're only woken for the first packet in it.
	if len(w.wakeups) > 0 || !w.inboxEmpty() {
		return false
	}
	w.working = false
	w.nextWork = next
	w.setAlarm()
	return true
}

// setAlarm sets the alarm for nextWork. It doesn't postpone an alarm that's too early, because
// play postpones nextWork in every turn. When the early alarm goes off, enterIfDue calls
// setAlarm again. The caller holds mu.
func (w *worker) setAlarm() {
	if !w.nextWork.IsZero() && (w.alarmAt.IsZero() || w.alarmAt.After(w.nextWork)) {
		w.alarmAt = w.nextWork
		w.queue.Set(&w.alarm, w.alarmAt)
	}
}

// alarmFired is called when the alarm goes off. If work is due, another goroutine does it.
func (w *worker) alarmFired() {
	if w.enterIfDue() {
		w.handOff()
	}
}

// enterIfDue is tryEnter on behalf of the alarm. It also returns false if no work is due yet,
// and sets the alarm again.
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

// stop makes later wakes no-ops. It is called by the last goroutine that works, which must not
// call tryLeave afterward.
func (w *worker) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue.Stop(&w.alarm)
}
