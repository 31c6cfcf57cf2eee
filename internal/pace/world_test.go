package pace_test

import (
	"encoding/binary"
	"time"

	"github.com/quivernet/quiver/internal/netsim"
)

// A flow is a sender with its receiver: machines that a world drives. The first
// byte of a packet is the flow's index.
type flow interface {
	arrive(now time.Time, packet []byte) // at the receiver
	answer(now time.Time, packet []byte) // at the sender
	run(now time.Time)                   // timers of both
	poll(now time.Time) (packet []byte)  // the sender's next, nil = not now
	reply(now time.Time) (packet []byte) // the receiver's next, nil = not now
	wait() time.Time                     // when run or poll or reply is due; zero = never
	done() bool
}

// A world drives flows over one shared way there and one way back, in virtual time.
type world struct {
	now         time.Time
	there, back wire
	flows       []flow
	plan        []event
	each        time.Duration // step of watch
	watch       func(since time.Duration)
	watched     time.Time
}

// An event changes something at a time.
type event struct {
	at time.Duration
	do func()
}

func newWorld(there, back wire) *world { return &world{now: netsim.Epoch, there: there, back: back} }

// frame makes a packet of a flow: its index and a number, padded to size bytes.
func frame(index int, number uint64, size int) []byte {
	p := make([]byte, max(size, 9))
	p[0] = byte(index)
	binary.LittleEndian.PutUint64(p[1:], number)
	return p
}

func number(p []byte) uint64 { return binary.LittleEndian.Uint64(p[1:]) }

// until runs the world until a condition holds or a time has passed, and reports whether it holds.
func (w *world) until(limit time.Duration, met func() bool) bool {
	end := netsim.Epoch.Add(limit)
	for !met() && w.now.Before(end) {
		w.step()
		next := w.next(end)
		w.now = next
	}
	return met()
}

// done reports whether all flows are done.
func (w *world) done() bool {
	for _, f := range w.flows {
		if !f.done() {
			return false
		}
	}
	return true
}

func (w *world) since() time.Duration { return w.now.Sub(netsim.Epoch) }

// step does what is due.
func (w *world) step() {
	for len(w.plan) > 0 && w.plan[0].at <= w.since() {
		w.plan[0].do()
		w.plan = w.plan[1:]
	}
	for p, ok := w.there.deliver(w.now); ok; p, ok = w.there.deliver(w.now) {
		w.flows[p[0]].arrive(w.now, p)
	}
	for p, ok := w.back.deliver(w.now); ok; p, ok = w.back.deliver(w.now) {
		w.flows[p[0]].answer(w.now, p)
	}
	for _, f := range w.flows {
		f.run(w.now)
		for p := f.poll(w.now); p != nil; p = f.poll(w.now) {
			w.there.send(w.now, p)
		}
		for p := f.reply(w.now); p != nil; p = f.reply(w.now) {
			w.back.send(w.now, p)
		}
	}
	if w.watch != nil && !w.now.Before(w.watched) {
		w.watch(w.since())
		w.watched = w.now.Add(w.each)
	}
}

// next returns the time of the next thing to happen.
func (w *world) next(end time.Time) time.Time {
	next := end
	earlier := func(t time.Time) {
		if !t.IsZero() && t.Before(next) {
			next = t
		}
	}
	for _, l := range []wire{w.there, w.back} {
		if t, ok := l.next(); ok {
			earlier(t)
		}
	}
	for _, f := range w.flows {
		earlier(f.wait())
	}
	if len(w.plan) > 0 {
		earlier(netsim.Epoch.Add(w.plan[0].at))
	}
	if w.watch != nil {
		earlier(w.watched)
	}
	if !next.After(w.now) {
		return w.now.Add(1)
	}
	return next
}
