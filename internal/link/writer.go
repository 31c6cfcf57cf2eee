package link

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"
)

const (
	// batchSize is the number of datagrams received while the lock is held once. It keeps a
	// tick from waiting long for the lock.
	batchSize = 32

	// grain is the unit to which the writer's sleeps are rounded up, so that timers close to
	// each other share one wake-up. A rest takes one grain.
	grain = 100 * time.Microsecond
	// overdue is how long the writer sleeps if a machine's timeout is in the past and the
	// machine has nothing to send. It keeps a bug in a machine from making the writer spin.
	overdue = time.Millisecond

	// maxRefusals is the number of datagrams in a row that the carrier may refuse. No path
	// change causes as many.
	maxRefusals = 8
)

// Pools for memory that a link needs only while it has something to send or receive. An idle
// connection holds none of it.
var (
	buffers = sync.Pool{New: func() any { return new([maxDatagram]byte) }}
	batches = sync.Pool{New: func() any { return new([batchSize][]byte) }}
)

// States of the writer.
const (
	asleep  int32 = iota // it has no goroutine
	awake                // it takes turns
	again                // it must look once more before it sleeps
	stopped              // the link has ended
)

// writer is the goroutine that sends. It exists only while there is something to do. Only
// that goroutine uses the fields.
type writer struct {
	*Link
	buffer   *[maxDatagram]byte // nil while asleep
	burst    burst
	refusals int // datagrams the carrier has refused in a row
}

// signal makes the writer look again. It starts the writer's goroutine if there is none.
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

// expired is called by the timer on its own goroutine. It does the writer's work there.
func (w *writer) expired() {
	if w.state.CompareAndSwap(asleep, awake) {
		w.Link.write()
		return
	}
	w.signal()
}

// write runs on the writer's goroutine. It takes turns until there is nothing to do or the
// link ends.
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

// step takes one turn under the lock and handles the result without the lock. goOn is false
// if the link ends. idle is true if there was nothing to do.
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

// send passes a datagram to the carrier and rests if the burst is full. It returns false if
// the link ends.
func (w *writer) send(t turn) bool {
	w.sending.Store(true)
	w.relieve() // for datagrams that the reader put into the ring before sending was set
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

// unsend returns a datagram to its machine after the carrier refused it as too large. After
// any other error, or too many refusals in a row, it ends the link and returns false.
func (w *writer) unsend(t turn, err error) bool {
	w.Lock()
	size, err := w.refused(t, err)
	w.mu.Unlock()
	w.refusals++
	if err == nil && w.refusals > maxRefusals {
		err = fmt.Errorf("link: the carrier refuses a datagram of %d bytes, %d refusals in a row; its limit is %d",
			len(t.packet), w.refusals, size)
	}
	if err != nil {
		w.end(err)
	}
	return err == nil
}

// sent counts a datagram that was sent.
func (l *Link) sent(t turn) {
	if t.from != l.play {
		l.counts.otherOut.Add(uint64(len(t.packet)))
	}
}

// refused returns a datagram that was too large to its machine and returns the new size
// limit. If it returns an error, the link must end. The caller holds the lock.
func (l *Link) refused(t turn, err error) (size int, _ error) {
	tooLarge, ok := errors.AsType[*TooLargeError](err)
	if !ok {
		return 0, fmt.Errorf("link: send: %w", err)
	}
	size = min(tooLarge.Max, len(t.packet)-1)
	if size < minDatagram {
		return size, fmt.Errorf("link: the carrier refuses a datagram of %d bytes, a path must take %d: %w",
			len(t.packet), minDatagram, err)
	}
	t.from.Unsent(t.number)
	l.mtu.refuse(t.now, size)
	return size, nil
}

// rest lets other goroutines run after a full burst, because the receiver's reader may be in
// this process. While losses keep bursts short, rest sleeps for a grain instead. That also
// helps a receiver in another process.
func (w *writer) rest() {
	var lost uint64
	w.Lock()
	for i := range w.slots {
		lost += w.slots[i].Lost()
	}
	w.mu.Unlock()
	w.burst.rest(lost)
	if w.burst.short() {
		time.Sleep(grain)
		return
	}
	runtime.Gosched()
}

// warn logs a black hole and, once, a full ring. The caller does not hold the lock.
func (l *Link) warn(hole time.Duration) {
	if hole > 0 {
		l.config.Logger.Warn("link: the path swallows large datagrams", "use", SafeDatagram, "for", hole)
	}
	if l.ring.dropped.Load() > 0 && l.warned.CompareAndSwap(false, true) {
		l.config.Logger.Warn("link: datagrams dropped, the machines cannot keep up", "limit", RingBytes)
	}
}

// free returns the buffer to its pool when the goroutine ends.
func (w *writer) free() {
	buffers.Put(w.buffer)
	w.buffer = nil
}
