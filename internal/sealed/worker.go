package sealed

import (
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
)

// worker is a goroutine that exists while there is work. All methods but sleep may be called concurrently.
type worker struct {
	work  func()      // the goroutine's: it works and sleeps by turns, until sleep says that it is to end
	idle  func() bool // whether nothing waits that wake will not be called for again
	naps  bool        // may block a thread for times that the runtime's timers do not keep
	token chan struct{}

	mu      sync.Mutex
	running bool
	ended   bool
	next    time.Time   // when there is work; zero = when wake is called
	wakes   time.Time   // when the goroutine wakes by itself; zero while it works
	later   *time.Timer // starts a goroutine

	started atomic.Uint64 // goroutines
}

// wake has the goroutine look for work, and starts it when there is none.
func (w *worker) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wakeLocked()
}

func (w *worker) wakeLocked() {
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
		go w.work()
	}
}

// due says when the next work is; zero = nobody knows of any. Who did the last of it calls this, be it the goroutine or not.
func (w *worker) due(next time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next = next
	switch {
	case w.ended || next.IsZero():
	case w.running:
		if next.Before(w.wakes) {
			w.wakeLocked()
		}
	default:
		w.leave(next)
	}
}

// leave has a timer start the next goroutine. The lock is held.
func (w *worker) leave(next time.Time) {
	switch until := time.Until(next); {
	case until <= 0:
		w.wakeLocked()
	case w.later == nil:
		w.later = time.AfterFunc(until, w.wake)
	default:
		w.later.Reset(until)
	}
}

// sleep waits for work. It reports whether the goroutine is to end, because there is none for long.
func (w *worker) sleep(timer *time.Timer) (end bool) {
	for {
		select {
		case <-w.token:
			return false
		default:
		}
		wait, rests := w.lieDown()
		if wait <= 0 || wait < udp.TimerUnit && w.naps && udp.Nap(wait) {
			return false
		}
		timer.Reset(wait)
		select {
		case <-w.token:
			w.rise()
			return false
		case <-timer.C:
			if rests && w.rest() {
				return true
			}
		}
	}
}

// lieDown returns how long the goroutine sleeps. Rests: it may end then.
func (w *worker) lieDown() (wait time.Duration, rests bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	wait, rests = linger, true
	if until := time.Until(w.next); !w.next.IsZero() && until <= parkAfter {
		wait, rests = until, false
	}
	w.wakes = time.Now().Add(wait)
	return wait, rests
}

// rise notes that the goroutine works: who calls due then need not wake it.
func (w *worker) rise() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wakes = time.Time{}
}

// rest ends the goroutine unless there is work after all.
func (w *worker) rest() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	soon := !w.next.IsZero() && time.Until(w.next) <= parkAfter
	if soon || len(w.token) > 0 || !w.idle() {
		return false
	}
	w.running = false
	if !w.next.IsZero() {
		w.leave(w.next)
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

// runs reports whether there is a goroutine.
func (w *worker) runs() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.running
}
