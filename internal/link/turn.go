package link

import (
	"slices"
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// A turn is the result of a poll. poll fills it in with the lock held, and its caller acts on it,
// if possible without the lock.
type turn struct {
	// The next datagram.
	packet []byte  // nil if there is none
	number uint64  // as counted by its machine
	from   Machine // the machine that built it

	now       time.Time     // the time of the turn
	more      bool          // there are more datagrams in the ring
	callWake  bool          // Config.Wake must be called
	drained   bool          // a Close has delivered everything, so the link must end
	blackHole time.Duration // how long datagrams are limited to SafeDatagram; 0 if no new hole was found
}

// hasPacket reports whether there is a datagram to send.
func (t *turn) hasPacket() bool { return t.packet != nil }

// maxSleep is the longest sleep, far below the duration that would overflow when we round it up.
const maxSleep = 1000 * time.Hour

// poll passes a batch of received datagrams to the machines, runs their timers, and asks them
// for the next datagram to send. If there is nothing to send or receive, it parks the writer.
// The caller holds the lock.
//
// It receives first, because an ack may stop a timer or make room in the window, and it runs the
// timers before it builds a datagram, because Advance must be called before AppendPacket. It asks
// for wake-ups last, since each of these steps may cause one.
func (l *Link) poll(path Path, buffer *[maxDatagram]byte) (t turn, err error) {
	t.now = time.Now()
	if err := l.receive(t.now); err != nil {
		return t, err
	}
	if err := l.advance(t.now); err != nil {
		return t, err
	}
	t.blackHole = l.updatePath(t.now, path)
	l.uncork()
	l.holdBack(t.now, false) // bulk needs no hold of its own here, as the pacer delays play too
	var paced time.Duration
	if !l.sealed.inUse() { // the sealed carrier has its own pacer
		paced = l.pacer.wait()
		if paced == 0 {
			l.build(&t, buffer)
		}
	}
	t.callWake = l.takeWakeUps()
	t.more = !l.ring.empty()
	l.parked = !t.hasPacket() && !t.more
	if l.parked {
		l.prepareSleep(&t, paced)
	}
	return t, nil
}

// advance runs the machines' timers, until one of them fails. The caller holds the lock.
func (l *Link) advance(now time.Time) error {
	for i := range l.slots {
		l.failed = l.slots[i].Advance(now)
		if l.failed != nil {
			return l.failed
		}
	}
	return nil
}

// updatePath updates what depends on the first carrier's path: the maximum datagram size, the pacer
// and the machines' windows. If a machine found a black hole, which swallows large datagrams,
// updatePath returns how long datagrams are limited to SafeDatagram.
func (l *Link) updatePath(now time.Time, path Path) (blackHole time.Duration) {
	l.mtu.update(path.MaxDatagram)
	if l.play.BlackHole() {
		blackHole = l.mtu.blackHole(now)
	}
	size := l.mtu.limit(now)
	l.counts.max.Store(uint64(size))
	l.pacer.update(now, path, size)
	if path.Cwnd > 0 && !l.sealed.inUse() {
		// QUIC counts whole packets against its window, while the machines count only
		// datagrams.
		l.divideWindow(path.Cwnd * size / (size + packetOverhead))
	}
	return blackHole
}

// divideWindow gives each machine what the other machines' bytes in flight leave of the window,
// but always at least half of it, so that no machine can starve another.
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

// prepareSleep sets the timer that wakes the writer, which the pacer may delay by paced, and checks
// whether a Close has delivered everything. Until the next turn, whoever unlocks the link after a
// change sends in the writer's place or wakes it.
func (l *Link) prepareSleep(t *turn, paced time.Duration) {
	l.takeChanges() // this turn has dealt with whatever changed before it
	if paced > 0 {
		l.alarm.set(t.now, paced)
		return
	}
	t.drained = l.drained()
	if l.sealed.inUse() {
		l.sealed.wake() // a datagram that we received may have changed a timer
		return
	}
	if next, ok := l.nextTimeout(); ok {
		l.alarm.set(t.now, sleepUntil(t.now, next))
	}
}

// drained reports whether Close was called and the peer has acknowledged all reliable data.
func (l *Link) drained() bool {
	return l.draining.Load() &&
		!slices.ContainsFunc(l.slots, func(s slot) bool { return !s.Drained() })
}

// nextTimeout returns when the first of the machines' timers is due, or when the rate allows data
// that it delays, if that comes first.
func (l *Link) nextTimeout() (time.Time, bool) {
	var first recovery.Earliest
	l.limiter.addTimeouts(&first)
	for i := range l.slots {
		first.Add(l.slots[i].NextTimeout())
	}
	return first.Time()
}

// sleepUntil returns how long to sleep until next. It rounds up, so that the timeout is sure to be
// due when we wake.
func sleepUntil(now, next time.Time) time.Duration {
	d := next.Sub(now)
	if d <= 0 {
		// The machine should have handled this timeout already. Don't spin.
		return overdue
	}
	return (min(d, maxSleep) + grain - 1) / grain * grain
}

// uncork uncorks play once Close was called, because the calls of a tick that hasn't been flushed
// would otherwise never be sent.
func (l *Link) uncork() {
	if l.uncorked || !l.draining.Load() {
		return
	}
	l.uncorked = true
	l.play.Cork(false)
}
