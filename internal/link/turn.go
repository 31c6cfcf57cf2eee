package link

import (
	"slices"
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// turn is what look found under the lock. It is handled after the lock is released.
type turn struct {
	packet []byte  // the next datagram; nil if there is none
	number uint64  // number of packet, as counted by its machine
	from   Machine // the machine that built packet

	now     time.Time     // the time of the turn
	more    bool          // more datagrams are in the ring
	woken   bool          // Config.Wake must be called
	drained bool          // the drain of a Close is complete
	hole    time.Duration // after a black hole was found, how long only safe datagrams are sent; otherwise 0
}

// longest limits a sleep, so that rounding a timeout far in the future does not overflow.
const longest = 1000 * time.Hour

// turn takes the lock and calls look.
func (w *writer) turn() (t turn, err error) {
	path := w.carrier.Path()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.parked = false
	return w.look(path, w.buffer)
}

// look moves a batch from the ring into the machines, runs their timers and asks them for the
// next datagram. If there is none, look parks the writer. The caller holds the lock.
func (l *Link) look(path Path, buffer *[maxDatagram]byte) (t turn, err error) {
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
	l.holdBack(t.now, false)
	held := l.pacer.wait()
	if l.sealed.carrier != nil {
		held = 0
	} else if held == 0 {
		l.ask(&t, buffer)
	}
	t.woken = l.woken()
	t.more = !l.ring.empty()
	if t.packet == nil && !t.more {
		l.park(&t, held)
	} else {
		l.parked = false
	}
	return t, nil
}

// usePath passes each machine its part of the carrier's window and sets the size limit of the
// next datagram. If it finds a black hole, it returns how long only safe datagrams are sent.
func (l *Link) usePath(now time.Time, path Path) (hole time.Duration) {
	l.mtu.update(path.MaxDatagram)
	if l.play.BlackHole() {
		hole = l.mtu.blackHole(now)
	}
	size := l.mtu.most(now)
	l.counts.max.Store(uint64(size))
	l.pacer.update(now, path, size)
	if path.Cwnd > 0 && l.sealed.carrier == nil {
		// QUIC's window counts packets; the machines count datagrams.
		l.share(path.Cwnd * size / (size + packetOverhead))
	}
	return hole
}

// share divides the window. Each machine gets what the others do not have in flight, but at
// least half of the window. So no machine of higher priority starves it.
func (l *Link) share(window int) {
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

// ask gets the next datagram from the machine with the highest priority that has one.
func (l *Link) ask(t *turn, buffer *[maxDatagram]byte) {
	size := l.mtu.max(t.now)
	for i := range l.slots {
		packet, number, ok := l.slots[i].AppendPacket(t.now, buffer[:0], size)
		if ok {
			t.packet, t.number, t.from = packet, number, l.slots[i].Machine
			l.mtu.left(t.now, len(packet))
			l.pacer.sent(len(packet))
			l.rated.spend(t.now, len(packet))
			l.queued.built(i, number)
			return
		}
	}
}

// park decides how long the writer may sleep. held is the time for which the pacer allows
// nothing. Until the next turn, an Unlock after a change wakes the writer or sends in its
// place.
func (l *Link) park(t *turn, held time.Duration) {
	l.parked = true
	l.changed() // clears the changes so far, which this turn has handled
	if held > 0 {
		l.wakeIn(t.now, held)
		return
	}
	t.drained = l.draining.Load() && l.drained()
	if l.sealed.carrier != nil {
		l.sealed.carrier.Wake() // a datagram may have changed a timer
		return
	}
	if next, ok := l.nextTimeout(); ok {
		l.wakeIn(t.now, sleep(t.now, next))
	}
}

// drained reports whether no machine has reliable data that is unsent or unacknowledged.
func (l *Link) drained() bool {
	return !slices.ContainsFunc(l.slots, func(s slot) bool { return !s.Drained() })
}

// nextTimeout returns the earliest time at which a machine's timer is due or data held back
// by the rate may be sent.
func (l *Link) nextTimeout() (time.Time, bool) {
	var first recovery.Earliest
	first.Add(l.rated.play, !l.rated.play.IsZero())
	first.Add(l.rated.bulk, !l.rated.bulk.IsZero())
	for i := range l.slots {
		first.Add(l.slots[i].NextTimeout())
	}
	return first.Time()
}

// wakeIn sets the timer to wake the writer at now+d.
func (l *Link) wakeIn(now time.Time, d time.Duration) {
	if at := now.Add(d); !at.Equal(l.wakeAt) {
		l.wakeAt = at
		l.timer.Reset(d)
	}
}

// sleep returns the time from now to next, rounded up so that the timeout is due afterwards.
func sleep(now, next time.Time) time.Duration {
	d := next.Sub(now)
	if d <= 0 {
		return overdue
	}
	return (min(d, longest) + grain - 1) / grain * grain
}

// uncork uncorks play once the link drains, so that the calls of an open tick are sent.
func (l *Link) uncork() {
	if l.uncorked || !l.draining.Load() {
		return
	}
	l.uncorked = true
	l.play.Cork(false)
}
