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

// writer is what belongs to the writer goroutine alone.
type writer struct {
	*Link
	timer    *time.Timer
	buffer   *[maxDatagram]byte // nil while asleep
	burst    burst
	pacer    pacer
	refusals int // in a row
	uncorked bool
	warned   bool // of a full ring
}

// write runs the machines until the connection ends.
func (l *Link) write() {
	defer l.running.Done()
	w := &writer{Link: l, timer: time.NewTimer(time.Hour), burst: burst{size: maxBurst}}
	w.timer.Stop()
	defer w.free()
	for l.ctx.Err() == nil && w.step() {
	}
}

// step takes one turn and does outside the lock what came of it. It reports whether the link goes on.
func (w *writer) step() bool {
	if w.buffer == nil {
		w.buffer = buffers.Get().(*[maxDatagram]byte)
	}
	t, err := w.turn()
	if err != nil {
		w.end(violation(err))
		return false
	}
	if t.woken {
		w.config.Wake()
	}
	w.warn(t)
	switch {
	case t.packet != nil:
		return w.send(t)
	case t.more:
		return true
	case t.drained:
		w.end(nil)
		return false
	}
	w.free()
	return w.pause(t.sleep)
}

// send passes a datagram to the carrier and rests when a burst is full.
func (w *writer) send(t turn) bool {
	w.sending.Store(true)
	err := w.carrier.SendDatagram(t.packet)
	w.sending.Store(false)
	if err != nil {
		return w.unsend(t, err)
	}
	w.refusals = 0
	w.counts.datagramsOut.Add(1)
	w.counts.bytesOut.Add(uint64(len(t.packet)))
	if w.burst.full() {
		return w.rest()
	}
	return true
}

// unsend gives a refused datagram back to its machine; any other error ends the link.
func (w *writer) unsend(t turn, err error) bool {
	var tooLarge *TooLargeError
	if !errors.As(err, &tooLarge) {
		w.end(fmt.Errorf("link: send: %w", err))
		return false
	}
	w.counts.tooLarge.Add(1)
	w.refusals++
	size := min(tooLarge.Max, len(t.packet)-1)
	if size < minDatagram || w.refusals > maxRefusals {
		w.end(fmt.Errorf("link: the carrier refuses a datagram of %d bytes (%d refusals in a row, a path must take %d): %w",
			len(t.packet), w.refusals, minDatagram, err))
		return false
	}
	w.Lock()
	t.from.Unsent(t.number)
	w.mtu.refuse(t.now, size)
	w.mu.Unlock()
	return true
}

// rest lets others run after a full burst: the receiver's reader when it lives in this process. After losses it is a
// true pause, which helps a receiver elsewhere.
func (w *writer) rest() bool {
	w.counts.rests.Add(1)
	var lost uint64
	w.Lock()
	for i := range w.slots {
		lost += w.slots[i].lost()
	}
	w.mu.Unlock()
	w.burst.rest(lost)
	if !w.burst.short() {
		runtime.Gosched()
		return true
	}
	w.timer.Reset(grain)
	select {
	case <-w.timer.C:
		return true
	case <-w.ctx.Done():
		return false
	}
}

// pause sleeps until a signal, the next timeout or the end. A signal that is there already is no pause in a burst.
func (w *writer) pause(d time.Duration) bool {
	select {
	case <-w.wake:
		return true
	default:
	}
	w.burst.sent = 0
	var expired <-chan time.Time
	if d != forever {
		w.timer.Reset(d)
		defer w.timer.Stop()
		expired = w.timer.C
	}
	select {
	case <-w.wake:
		return true
	case <-expired:
		return true
	case <-w.ctx.Done():
		return false
	}
}

// warn logs, outside the lock, what the owner can do something about.
func (w *writer) warn(t turn) {
	if t.hole > 0 {
		w.counts.blackHoles.Add(1)
		w.config.Logger.Warn("link: the path swallows large datagrams", "use", SafeDatagram, "for", t.hole)
	}
	if !w.warned && w.ring.dropped.Load() > 0 {
		w.warned = true
		w.config.Logger.Warn("link: datagrams dropped, the machines cannot keep up", "limit", RingBytes)
	}
}

func (w *writer) free() {
	if w.buffer != nil {
		buffers.Put(w.buffer)
		w.buffer = nil
	}
}
