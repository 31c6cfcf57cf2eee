package link

import (
	"slices"
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// A turn is the result of a poll. poll fills it in with the lock held, and the caller acts on
// it without the lock.
type turn struct {
	// The next datagram.
	packet []byte  // nil if there is none
	number uint64  // as counted by its machine
	from   Machine // the machine that built it

	now     time.Time     // the time of the turn
	more    bool          // there are more datagrams in the ring
	woken   bool          // Config.Wake must be called
	drained bool          // the link was draining for a Close and is done
	hole    time.Duration // how long we send only safe datagrams; 0 if no black hole was found
}

// maxSleep is the longest sleep. It keeps a timeout in the far future from overflowing
// when we round it.
const maxSleep = 1000 * time.Hour

// takeTurn polls the machines on behalf of the writer. It takes the lock.
func (w *writer) takeTurn() (t turn, err error) {
	path := w.carrier.Path()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.parked = false
	return w.poll(path, w.buffer)
}

// poll passes a batch of received datagrams to the machines, runs their timers, and asks them
// for the next datagram to send. If there is nothing to send or receive, it parks the writer.
// The caller holds the lock.
func (l *Link) poll(path Path, buffer *[maxDatagram]byte) (t turn, err error) {
	t.now = time.Now()
	if err := l.receive(t.now); err != nil {
		return t, err
	}
	for i := range l.slots {
		if l.failed = l.slots[i].Advance(t.now); l.failed != nil {
			return t, l.failed
		}
	}
	t.hole = l.usePath(t.now, path)
	l.uncork()
	l.holdBack(t.now, false) // our own pacer, which is asked next, holds back play as well as bulk
	held := l.pacer.wait()
	if l.sealed.carrier != nil {
		// The sealed carrier decides by itself when to send.
		held = 0
	} else if held == 0 {
		l.build(&t, buffer)
	}
	t.woken = l.takeWakeUps()
	t.more = !l.ring.empty()
	if t.packet == nil && !t.more {
		l.park(&t, held)
	} else {
		l.parked = false
	}
	return t, nil
}

// usePath calculates the maximum datagram size and the number of bytes that each machine
// may have in flight. If a machine has found a black hole, usePath returns how long we send
// only safe datagrams.
func (l *Link) usePath(now time.Time, path Path) (hole time.Duration) {
	l.mtu.update(path.MaxDatagram)
	if l.play.BlackHole() {
		hole = l.mtu.blackHole(now)
	}
	size := l.mtu.limit(now)
	l.counts.max.Store(uint64(size))
	l.pacer.update(now, path, size)
	if path.Cwnd > 0 && l.sealed.carrier == nil {
		// QUIC counts whole packets against its window, while the machines count only
		// datagrams.
		l.divideWindow(path.Cwnd * size / (size + packetOverhead))
	}
	return hole
}

// divideWindow gives each machine the part of the window that isn't taken by the other
// machines' bytes in flight, but always at least half. Otherwise a machine of higher priority
// could starve a lower one.
func (l *Link) divideWindow(window int) {
	total := 0
	for i := range l.slots {
		total += l.slots[i].InFlight()
	}
	for i := range l.slots {
		s := &l.slots[i]
		part := max(window/2, window-total+s.InFlight())
		if part != s.window {
			s.window = part
			s.SetWindow(part)
		}
	}
}

// build asks the machines for the next datagram, in priority order.
func (l *Link) build(t *turn, buffer *[maxDatagram]byte) {
	size := l.mtu.limitNow(t.now)
	for i := range l.slots {
		packet, number, ok := l.slots[i].AppendPacket(t.now, buffer[:0], size)
		if ok {
			t.packet, t.number, t.from = packet, number, l.slots[i].Machine
			l.mtu.sent(t.now, len(packet))
			l.pacer.sent(len(packet))
			l.limiter.spend(t.now, len(packet))
			l.queued.add(i, number)
			return
		}
	}
}

// park sets the writer's alarm before it sleeps. held is the time for which the pacer allows no
// datagram, or 0. Until the next turn, whoever unlocks the link after a change wakes the writer
// or sends in its place.
func (l *Link) park(t *turn, held time.Duration) {
	l.parked = true
	l.takeChanges() // this turn has dealt with whatever changed before
	if held > 0 {
		l.wakeIn(t.now, held)
		return
	}
	t.drained = l.draining.Load() && l.drained()
	if l.sealed.carrier != nil {
		l.sealed.carrier.Wake() // a datagram that we received may have changed a timer
		return
	}
	if next, ok := l.nextTimeout(); ok {
		l.wakeIn(t.now, sleepUntil(t.now, next))
	}
}

// drained reports whether the peer has acknowledged all reliable data of all machines.
func (l *Link) drained() bool {
	return !slices.ContainsFunc(l.slots, func(s slot) bool { return !s.Drained() })
}

// nextTimeout returns the earlier of two times: when the first of the machines' timers is due,
// and when the rate allows data that it has held back.
func (l *Link) nextTimeout() (time.Time, bool) {
	var first recovery.Earliest
	first.Add(l.limiter.play, !l.limiter.play.IsZero())
	first.Add(l.limiter.bulk, !l.limiter.bulk.IsZero())
	for i := range l.slots {
		first.Add(l.slots[i].NextTimeout())
	}
	return first.Time()
}

// wakeIn makes the timer wake the writer after d.
func (l *Link) wakeIn(now time.Time, d time.Duration) {
	if at := now.Add(d); !at.Equal(l.wakeAt) {
		l.wakeAt = at
		l.timer.Reset(d)
	}
}

// sleepUntil returns the time to sleep until next. It rounds up, so that the timeout is
// certainly due when we wake.
func sleepUntil(now, next time.Time) time.Duration {
	d := next.Sub(now)
	if d <= 0 {
		// The machine should have handled this timeout already. Don't spin.
		return overdue
	}
	return (min(d, maxSleep) + grain - 1) / grain * grain
}

// uncork uncorks play as soon as the link drains, so that the calls of an open tick get sent.
func (l *Link) uncork() {
	if l.uncorked || !l.draining.Load() {
		return
	}
	l.uncorked = true
	l.play.Cork(false)
}
