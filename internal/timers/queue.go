// Package timers calls many functions at their times on few goroutines. The runtime starts one for each time.AfterFunc that fires, which costs
// more than a function that mostly finds that its time was put off.
package timers

import (
	"sync"
	"time"
)

// gap is the least time between two looks at a queue. What is due meanwhile waits for the next look, so that with many timers one look finds
// several.
const gap = time.Millisecond

// Queue fires timers. It has a goroutine only while it does. Its methods may be called concurrently, also by Timer.Fire.
type Queue struct {
	mu      sync.Mutex
	epoch   time.Time // times of the queue count from here
	waiting heap
	next    time.Duration // when runtime fires; in the past it is not set
	runtime *time.Timer   // nil before the first Set
	fires   bool          // fire runs, and sets runtime at its end
	due     []*Timer      // scratch of fire
}

// Timer is one timer, of one queue, whose lock guards all fields but Fire.
type Timer struct {
	Fire func() // is called when the time has come; it is short and never blocks

	place int // one above its place in waiting; 0 = it is not set
}

// New returns a queue.
func New() *Queue { return &Queue{epoch: time.Now()} }

// Shares reports whether now is of the queue's time. That of a bubble of testing/synctest, which begins in the year 2000, is not; the runtime
// ends a process where one timer is set in both.
func (q *Queue) Shares(now time.Time) bool { return !now.Before(q.epoch) }

// Set has t fire at a time or up to a millisecond later, and no longer when it was set to before.
func (q *Queue) Set(t *Timer, at time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting.set(entry{at.Sub(q.epoch), t})
	if first := q.waiting[0]; first.timer == t && !q.fires {
		q.wake(first.at)
	}
}

// Stop has t not fire, unless it fires already.
func (q *Queue) Stop(t *Timer) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.place > 0 {
		q.waiting.remove(t.place - 1)
	}
}

// wake has fire called at a time, unless it is called sooner. The caller holds the lock.
func (q *Queue) wake(at time.Duration) {
	now := time.Since(q.epoch)
	switch {
	case q.runtime == nil:
		q.next, q.runtime = at, time.AfterFunc(at-now, q.fire)
	case at < q.next || q.next <= now:
		q.next = at
		q.runtime.Reset(at - now)
	}
}

// fire fires the timers that are due.
func (q *Queue) fire() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.fires {
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

// callDue calls Fire of those in due, without the lock, which the caller holds.
func (q *Queue) callDue() {
	q.fires = true
	q.mu.Unlock()
	for i, t := range q.due {
		t.Fire()
		q.due[i] = nil
	}
	q.mu.Lock()
	q.fires, q.due = false, q.due[:0]
}
