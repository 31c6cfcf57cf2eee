package link

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// batchSize is how many datagrams we receive before we release the lock. It is small enough
	// that a game's tick never waits long for the lock.
	batchSize = 32

	// The writer's sleeps are rounded up to a multiple of grain, so that timers close to each other
	// share a wake-up. A rest lasts one grain.
	grain = 100 * time.Microsecond

	// overdue is how long the writer sleeps if a machine's timeout has passed but the machine has
	// nothing to send. No machine should let that happen, but if one does, the writer doesn't spin.
	overdue = time.Millisecond

	// maxRefusals limits the consecutive datagrams that the carrier may refuse as too large. Each
	// refusal lowers our limit, so a path that changes causes one or two of them, and more than
	// maxRefusals mean that the carrier contradicts itself.
	maxRefusals = 8
)

// Pools of buffers that a link needs only while it sends or receives. An idle connection
// holds none of them.
var (
	buffers = sync.Pool{New: func() any { return new([maxDatagram]byte) }}
	batches = sync.Pool{New: func() any { return new([batchSize][]byte) }}
)

// The values of a writerState.
const (
	asleep  int32 = iota // has no goroutine
	awake                // takes turns
	recheck              // takes turns, and must take another one before it falls asleep
	stopped              // the link has ended
)

// A writerState says whether the writer has a goroutine. It is safe for concurrent use.
type writerState struct{ value atomic.Int32 }

// signal makes the writer look for work again. If start is true, the writer was asleep, and the
// caller must give it a goroutine.
func (s *writerState) signal() (start bool) {
	for {
		switch s.value.Load() {
		case asleep:
			if s.wake() {
				return true
			}
		case awake:
			if s.value.CompareAndSwap(awake, recheck) {
				return false
			}
		default:
			// The writer takes another turn anyway, or the link has ended.
			return false
		}
	}
}

// wake wakes the writer if it is asleep. The caller must then give it a goroutine.
func (s *writerState) wake() (start bool) { return s.value.CompareAndSwap(asleep, awake) }

// sleep puts the writer to sleep, unless signal was called during its last turn. In that case sleep
// returns false, and the writer must take another turn.
func (s *writerState) sleep() (ok bool) {
	if s.value.CompareAndSwap(awake, asleep) {
		return true
	}
	s.value.CompareAndSwap(recheck, awake)
	return false
}

// stop ends the writer before its next turn, and hasStopped reports whether it was called.
func (s *writerState) stop()            { s.value.Store(stopped) }
func (s *writerState) hasStopped() bool { return s.value.Load() == stopped }

// A writer sends datagrams over the first carrier. It has a goroutine only while there is something
// to do.
type writer struct {
	link *Link
	run  func() // write, bound once so that waking the writer doesn't allocate

	// Safe for concurrent use.
	state   writerState
	running chanMutex   // held by the goroutine while it runs
	sending atomic.Bool // the goroutine is in SendDatagram

	// Guarded by running.
	buffer   *[maxDatagram]byte // nil while asleep
	burst    burst
	refusals int // consecutive datagrams that the carrier refused
}

func (w *writer) init(l *Link) {
	w.link = l
	w.run = w.write
	w.running = make(chanMutex, 1)
	w.burst.size = maxBurst
}

// A chanMutex is a mutex made of a channel with room for one value. The writer sleeps while it
// holds this lock, and in a synctest bubble, time stands still while a goroutine waits for a
// sync.Mutex.
type chanMutex chan struct{}

func (m chanMutex) Lock()   { m <- struct{}{} }
func (m chanMutex) Unlock() { <-m }

// signal makes the writer look for work again, and starts its goroutine if it has none.
func (w *writer) signal() {
	if w.state.signal() {
		go w.run()
	}
}

// An alarm is the timer that wakes the sleeping writer. It is guarded by the link's mu.
type alarm struct {
	timer *time.Timer
	at    time.Time // in the past if the timer isn't set
}

// init makes an alarm that isn't set. Whenever it rings, it calls wake on a goroutine of its own.
func (a *alarm) init(wake func()) {
	a.timer = time.AfterFunc(time.Hour, wake)
	a.timer.Stop()
}

// set sets the alarm to d from now, in place of any earlier time.
func (a *alarm) set(now time.Time, d time.Duration) {
	if at := now.Add(d); !at.Equal(a.at) {
		a.at = at
		a.timer.Reset(d)
	}
}

// ringsBy reports whether the alarm is set for a time that's no later than at.
func (a *alarm) ringsBy(now, at time.Time) bool { return a.at.After(now) && !at.Before(a.at) }

// stop ends the alarm.
func (a *alarm) stop() { a.timer.Stop() }

// onTimer is called on the timer's goroutine, which becomes the writer's if that is asleep.
func (w *writer) onTimer() {
	if w.state.wake() {
		w.write()
		return
	}
	w.signal()
}

// write is the writer's goroutine. It takes turns until there is nothing left to do, or until the
// link ends, which cancels ctx.
func (w *writer) write() {
	w.running.Lock()
	defer w.running.Unlock()
	w.buffer = buffers.Get().(*[maxDatagram]byte)
	defer w.freeBuffer()
	for !w.state.hasStopped() && w.link.ctx.Err() == nil {
		idle := w.step()
		if idle && w.state.sleep() {
			w.burst.pause()
			return
		}
	}
}

// step takes a turn and acts on its result. It returns true if there was nothing to do.
func (w *writer) step() (idle bool) {
	t, err := w.takeTurn()
	if err != nil {
		w.link.end(violation(err))
		return false
	}
	if t.callWake {
		w.link.config.Wake()
	}
	w.link.warn(t.blackHole)
	switch {
	case t.hasPacket():
		w.send(t)
	case t.drained:
		w.link.endDrained()
	default:
		return !t.more
	}
	return false
}

// takeTurn polls the machines. It takes the lock.
func (w *writer) takeTurn() (t turn, err error) {
	l := w.link
	path := l.carrier.Path()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.parked = false
	return l.poll(path, w.buffer)
}

// send gives a datagram to the carrier, and rests if that completes a burst.
func (w *writer) send(t turn) {
	w.sending.Store(true)
	w.link.emptyRing() // the reader may have pushed a datagram just before it could see that we are sending
	err := w.link.carrier.SendDatagram(t.packet)
	w.sending.Store(false)
	if err != nil {
		w.sendFailed(t, err)
		return
	}
	w.refusals = 0
	w.link.countSent(t)
	if w.burst.add() {
		w.rest()
	}
}

// sendFailed handles an error from the carrier. A datagram that was too large goes back to its
// machine. Too many of those in a row end the link, as does any other error.
func (w *writer) sendFailed(t turn, err error) {
	w.link.mu.Lock()
	size, err := w.link.takeBack(t, err)
	w.link.mu.Unlock()
	w.refusals++
	if err == nil && w.refusals > maxRefusals {
		err = fmt.Errorf("link: carrier refused %d datagrams in a row; the last had %d bytes and the limit is now %d",
			w.refusals, len(t.packet), size)
	}
	if err != nil {
		w.link.end(err)
	}
}

// countSent counts a datagram that the carrier accepted.
func (l *Link) countSent(t turn) {
	if t.from != l.play {
		l.counts.otherOut.Add(uint64(len(t.packet)))
	}
}

// takeBack gives a datagram that was too large for the carrier back to its machine, and returns the
// new size limit. If it returns an error, the caller must end the link. The caller holds the lock.
func (l *Link) takeBack(t turn, err error) (size int, _ error) {
	tooLarge, ok := errors.AsType[*TooLargeError](err)
	if !ok {
		return 0, fmt.Errorf("link: send: %w", err)
	}
	// Try a smaller size than the refused one, even if the carrier claims to accept that.
	size = min(tooLarge.Max, len(t.packet)-1)
	if size < minDatagram {
		return size, fmt.Errorf("link: carrier refused a datagram of %d bytes; a path must carry at least %d: %w",
			len(t.packet), minDatagram, err)
	}
	t.from.Unsent(t.number)
	l.mtu.refuse(t.now, size)
	return size, nil
}

// rest lets other goroutines run after a full burst, because the peer's reader may be a goroutine
// of this process. While losses keep bursts short, it sleeps for one grain, which also gives a peer
// in another process some time.
func (w *writer) rest() {
	var lost uint64
	w.link.mu.Lock()
	for i := range w.link.slots {
		lost += w.link.slots[i].Lost()
	}
	w.link.mu.Unlock()
	w.burst.next(lost)
	if w.burst.short() {
		time.Sleep(grain)
		return
	}
	runtime.Gosched()
}

// warn logs each black hole, and the first time that the ring was full. The caller doesn't hold the
// lock.
func (l *Link) warn(blackHole time.Duration) {
	if blackHole > 0 {
		l.config.Logger.Warn("link: path drops large datagrams; sending smaller ones",
			"limit", SafeDatagram, "for", blackHole)
	}
	if l.ring.hasDropped() && l.warned.CompareAndSwap(false, true) {
		l.config.Logger.Warn("link: receive queue full; dropping datagrams", "limit", RingBytes)
	}
}

// freeBuffer returns the buffer to its pool.
func (w *writer) freeBuffer() {
	buffers.Put(w.buffer)
	w.buffer = nil
}
