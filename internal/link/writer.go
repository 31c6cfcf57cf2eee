package link

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"
)

const (
	// batchSize datagrams at most are received in one hold of the lock, so that a tick never waits for long.
	batchSize = 32

	// grain is what every sleep is rounded up to, so that timers close to each other share one wake-up.
	grain = 100 * time.Microsecond
	// overdue is slept when a machine wants to be called at once but has nothing to send: no error in a machine may
	// turn the writer into a loop that spins.
	overdue = time.Millisecond

	// maxRefusals in a row are more than any change of path needs: the carrier or a machine is at fault.
	maxRefusals = 8
)

// Taken only while there is something to send or to receive, so that an idle connection holds none.
var (
	buffers = sync.Pool{New: func() any { return new([maxDatagram]byte) }}
	batches = sync.Pool{New: func() any { return new([batchSize][]byte) }}
)

// States of the writer.
const (
	asleep  int32 = iota // no goroutine
	awake                // it takes turns
	again                // it is to look once more before it sleeps
	stopped              // for ever
)

// writer is what belongs to the writer alone: a goroutine that lives while there is something to do.
type writer struct {
	*Link
	buffer   *[maxDatagram]byte // nil while asleep
	burst    burst
	refusals int // in a row
}

// signal lets the writer look again.
func (l *Link) signal() {
	for {
		switch state := l.state.Load(); {
		case state == asleep && l.state.CompareAndSwap(asleep, awake):
			go l.write()
			return
		case state == awake && l.state.CompareAndSwap(awake, again), state == again, state == stopped:
			return
		}
	}
}

// expired is called by the timer, on a goroutine of its own.
func (w *writer) expired() {
	if w.state.CompareAndSwap(asleep, awake) {
		w.Link.write()
		return
	}
	w.signal()
}

// write takes turns until there is nothing to do.
func (w *writer) write() {
	w.writing <- struct{}{}
	defer func() { <-w.writing }()
	w.buffer = buffers.Get().(*[maxDatagram]byte)
	defer w.free()
	for w.state.Load() != stopped && w.ctx.Err() == nil {
		switch goOn, idle := w.step(); {
		case !goOn:
			return
		case !idle:
		case w.state.CompareAndSwap(awake, asleep):
			w.burst.sent = 0
			return
		default:
			w.state.CompareAndSwap(again, awake)
		}
	}
}

// step takes one turn and does outside the lock what came of it. It reports whether the link goes on, and whether there was
// nothing to do.
func (w *writer) step() (goOn, idle bool) {
	t, err := w.turn()
	if err != nil {
		w.end(violation(err))
		return false, false
	}
	if t.woken {
		w.config.Wake()
	}
	w.warn(t.hole)
	switch {
	case t.packet != nil:
		return w.send(t), false
	case t.more:
		return true, false
	case t.drained:
		w.end(nil)
		return false, false
	}
	return true, true
}

// send passes a datagram to the carrier and rests when a burst is full.
func (w *writer) send(t turn) bool {
	w.sending.Store(true)
	w.relieve() // of what came since this turn began: its reader did not see that the writer sends
	err := w.carrier.SendDatagram(t.packet)
	w.sending.Store(false)
	if err != nil {
		return w.unsend(t, err)
	}
	w.refusals = 0
	w.sent(t)
	if w.burst.full() {
		w.rest()
	}
	return true
}

// unsend gives a refused datagram back to its machine; any other error ends the link.
func (w *writer) unsend(t turn, err error) bool {
	w.Lock()
	size, err := w.refused(t, err)
	w.mu.Unlock()
	if w.refusals++; err == nil && w.refusals > maxRefusals {
		err = fmt.Errorf("link: the carrier refuses a datagram of %d bytes, %d refusals in a row; its limit is %d", len(t.packet), w.refusals, size)
	}
	if err != nil {
		w.end(err)
	}
	return err == nil
}

// sent counts a datagram.
func (l *Link) sent(t turn) {
	l.counts.datagramsOut.Add(1)
	l.counts.bytesOut.Add(uint64(len(t.packet)))
	if t.from != l.slots[0].Machine {
		l.counts.otherOut.Add(uint64(len(t.packet)))
	}
}

// refused gives a datagram that is too large back to its machine and returns the limit; any other error is to end the link.
// The lock is held.
func (l *Link) refused(t turn, err error) (size int, _ error) {
	var tooLarge *TooLargeError
	if !errors.As(err, &tooLarge) {
		return 0, fmt.Errorf("link: send: %w", err)
	}
	l.counts.tooLarge.Add(1)
	if size = min(tooLarge.Max, len(t.packet)-1); size < minDatagram {
		return size, fmt.Errorf("link: the carrier refuses a datagram of %d bytes, a path must take %d: %w", len(t.packet), minDatagram, err)
	}
	t.from.Unsent(t.number)
	l.mtu.refuse(t.now, size)
	return size, nil
}

// rest lets others run after a full burst: the receiver's reader when it lives in this process. After losses it is a
// true pause, which helps a receiver elsewhere.
func (w *writer) rest() {
	w.counts.rests.Add(1)
	var lost uint64
	w.Lock()
	for i := range w.slots {
		lost += w.slots[i].lost()
	}
	w.mu.Unlock()
	w.burst.rest(lost)
	if w.burst.short() {
		time.Sleep(grain)
		return
	}
	runtime.Gosched()
}

// warn logs, outside the lock, what the owner can do something about.
func (l *Link) warn(hole time.Duration) {
	if hole > 0 {
		l.counts.blackHoles.Add(1)
		l.config.Logger.Warn("link: the path swallows large datagrams", "use", SafeDatagram, "for", hole)
	}
	if l.ring.dropped.Load() > 0 && l.warned.CompareAndSwap(false, true) {
		l.config.Logger.Warn("link: datagrams dropped, the machines cannot keep up", "limit", RingBytes)
	}
}

func (w *writer) free() {
	buffers.Put(w.buffer)
	w.buffer = nil
}
