// Package timers calls many functions at their times on few goroutines.
//
// The runtime starts a goroutine for each time.AfterFunc that fires, which costs more than the
// function itself if that usually finds only that its time was postponed.
package timers

import (
	"sync"
	"time"
)

// gap is the minimum time between two runs of a queue. Timers that become due in between wait for
// the next run, so that with many timers, one run fires several.
const gap = time.Millisecond

// A Queue fires timers. It has a goroutine only while it fires some. Its methods may be called
// concurrently, and by Timer.Fire.
type Queue struct {
	epoch time.Time // origin of all times in the queue

	mu      sync.Mutex // guards the fields below
	waiting heap
	next    time.Duration // when runtime fires; in the past if runtime isn't set
	runtime *time.Timer   // nil before the first Set
	firing  bool          // fire is running, and sets runtime when it ends
	due     []*Timer      // scratch space for fire
}

// A Timer is a timer of one queue. The queue's lock guards all fields except Fire.
type Timer struct {
	Fire func() // called when the timer fires; it must be short and must not block

	place int // index of its entry in waiting, plus 1; 0 if the timer isn't set
}

// New returns an empty queue.
func New() *Queue { return &Queue{epoch: time.Now()} }

// Shares reports whether now is on the same clock as the queue. The time of a testing/synctest
// bubble, which begins in the year 2000, isn't. A timer must not be set on both clocks, because the
// runtime ends a process that does so.
func (q *Queue) Shares(now time.Time) bool { return !now.Before(q.epoch) }

// Set makes t fire at the time at, or up to gap later. It replaces the time to which t was set
// before.
func (q *Queue) Set(t *Timer, at time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting.set(entry{at.Sub(q.epoch), t})
	if first := q.waiting[0]; first.timer == t && !q.firing {
		q.wake(first.at)
	}
}

// Stop keeps t from firing, unless it is already firing.
func (q *Queue) Stop(t *Timer) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.place > 0 {
		q.waiting.remove(t.place - 1)
	}
}

// wake makes runtime call fire at the time at, unless it does so sooner anyway. The caller holds
// mu.
func (q *Queue) wake(at time.Duration) {
	now := time.Since(q.epoch)
	switch {
	case q.runtime == nil:
		q.next = at
		q.runtime = time.AfterFunc(at-now, q.fire)
	case at < q.next || q.next <= now:
		q.next = at
		q.runtime.Reset(at - now)
	}
}

// fire fires the timers that are due. runtime calls it.
func (q *Queue) fire() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.firing {
		return
	}
	now := time.Since(q.epoch)
	for len(q.waiting) > 0 && q.waiting[0].at <= now {
		q.due = append(q.due, q.waiting.remove(0))
	}
	q.callDue()
	if len(q.waiting) > 0 {
		q.next = now
		q.wake(max(q.waiting[0].at, now+gap))
	}
}

// callDue calls Fire of the timers in due, and empties it. The caller holds mu, which callDue
// releases during the calls.
func (q *Queue) callDue() {
	q.firing = true
	q.mu.Unlock()
	for i, t := range q.due {
		t.Fire()
		q.due[i] = nil
	}
	q.mu.Lock()
	q.firing = false
	q.due = q.due[:0]
}
