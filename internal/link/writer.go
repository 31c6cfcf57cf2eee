package link

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"
)

const (
	// After receiving batchSize datagrams, we release the lock, so that a game's tick never has to
	// wait long for it.
	batchSize = 32

	// The writer's sleeps are rounded up to a multiple of grain, so that timers close to each other
	// share a wake-up. A rest takes one grain.
	grain = 100 * time.Microsecond

	// overdue is the time that the writer sleeps if a machine's timeout has passed and the machine
	// has nothing to send. No machine should let this happen. If one does, the writer doesn't spin.
	overdue = time.Millisecond

	// maxRefusals is the maximum number of consecutive datagrams that the carrier may refuse. A
	// path that changes never causes that many.
	maxRefusals = 8
)

// Pools of buffers that a link needs only while it sends or receives. An idle connection
// holds none of them.
var (
	buffers = sync.Pool{New: func() any { return new([maxDatagram]byte) }}
	batches = sync.Pool{New: func() any { return new([batchSize][]byte) }}
)

// What the writer is doing. Whoever has work for it calls signal.
const (
	asleep  int32 = iota // nothing; it has no goroutine
	awake                // taking turns
	recheck              // taking turns, and must look once more before it sleeps
	stopped              // nothing ever again, since the link has ended
)

// A writer sends datagrams over the first carrier. It has a goroutine only while there is something
// to do, and its fields belong to that goroutine.
type writer struct {
	*Link
	buffer   *[maxDatagram]byte // nil while asleep
	burst    burst
	refusals int // consecutive datagrams that the carrier has refused
}

// signal makes the writer look for work again, and starts its goroutine if it has none.
func (l *Link) signal() {
	for {
		switch state := l.state.Load(); {
		case state == asleep && l.state.CompareAndSwap(asleep, awake):
			go l.write()
			return
		case state == awake && l.state.CompareAndSwap(awake, recheck), state == recheck, state == stopped:
			// The writer will look again, or the link has ended.
			return
		}
	}
}

// onTimer runs on the timer's goroutine. If the writer is asleep, this goroutine does the writer's
// work.
func (w *writer) onTimer() {
	if w.state.CompareAndSwap(asleep, awake) {
		w.Link.write()
		return
	}
	w.signal()
}

// write is the writer's goroutine. It takes turns until there is nothing left to do or the link
// ends.
func (w *writer) write() {
	w.writing <- struct{}{}
	defer func() { <-w.writing }()
	w.buffer = buffers.Get().(*[maxDatagram]byte)
	defer w.freeBuffer()
	for w.state.Load() != stopped && w.ctx.Err() == nil {
		switch goOn, idle := w.step(); {
		case !goOn:
			return
		case !idle:
			// Take another turn.
		case w.state.CompareAndSwap(awake, asleep):
			w.burst.sent = 0 // the next datagram comes after a pause
			return
		default:
			// Somebody has called signal since we began this turn.
			w.state.CompareAndSwap(recheck, awake)
		}
	}
}

// step takes a turn with the lock held, and acts on the result after releasing it. goOn is false if
// the link ends, and idle is true if there was nothing to do.
func (w *writer) step() (goOn, idle bool) {
	t, err := w.takeTurn()
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

// send gives a datagram to the carrier, and rests if that completes a burst. It returns false if
// the link ends.
func (w *writer) send(t turn) bool {
	w.sending.Store(true)
	w.emptyRing() // the reader may have filled it just before it could see that we are sending
	err := w.carrier.SendDatagram(t.packet)
	w.sending.Store(false)
	if err != nil {
		return w.sendFailed(t, err)
	}
	w.refusals = 0
	w.countSent(t)
	if w.burst.add() {
		w.rest()
	}
	return true
}

// sendFailed handles an error from the carrier. If a datagram was too large, its machine gets it
// back. Any other error ends the link, and so do too many refusals in a row. sendFailed returns
// false if the link ends.
func (w *writer) sendFailed(t turn, err error) bool {
	w.Lock()
	size, err := w.takeBack(t, err)
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

// countSent counts a datagram once the carrier has taken it.
func (l *Link) countSent(t turn) {
	if t.from != l.play {
		l.counts.otherOut.Add(uint64(len(t.packet)))
	}
}

// takeBack returns a datagram that was too large for the carrier to its machine, and returns the
// new size limit. If it returns an error, the caller must end the link. The caller holds the lock.
func (l *Link) takeBack(t turn, err error) (size int, _ error) {
	tooLarge, ok := errors.AsType[*TooLargeError](err)
	if !ok {
		return 0, fmt.Errorf("link: send: %w", err)
	}
	// Try a smaller size than the refused one, even if the carrier claims to take that.
	size = min(tooLarge.Max, len(t.packet)-1)
	if size < minDatagram {
		return size, fmt.Errorf("link: the carrier refuses a datagram of %d bytes, a path must take %d: %w",
			len(t.packet), minDatagram, err)
	}
	t.from.Unsent(t.number)
	l.mtu.refuse(t.now, size)
	return size, nil
}

// rest lets other goroutines run after a full burst, since the receiving reader may be a goroutine
// of this process. While losses keep bursts short, it sleeps for one grain, which also gives a
// receiver in another process some time.
func (w *writer) rest() {
	var lost uint64
	w.Lock()
	for i := range w.slots {
		lost += w.slots[i].Lost()
	}
	w.mu.Unlock()
	w.burst.next(lost)
	if w.burst.short() {
		time.Sleep(grain)
		return
	}
	runtime.Gosched()
}

// warn logs that there is a black hole, and once that the ring was full. The caller doesn't hold
// the lock.
func (l *Link) warn(hole time.Duration) {
	if hole > 0 {
		l.config.Logger.Warn("link: the path swallows large datagrams", "use", SafeDatagram, "for", hole)
	}
	if l.ring.dropped.Load() > 0 && l.warned.CompareAndSwap(false, true) {
		l.config.Logger.Warn("link: datagrams dropped, the machines cannot keep up", "limit", RingBytes)
	}
}

// freeBuffer returns the buffer to its pool.
func (w *writer) freeBuffer() {
	buffers.Put(w.buffer)
	w.buffer = nil
}
