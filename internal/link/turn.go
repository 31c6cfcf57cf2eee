package link

import "time"

// turn is what the writer found under the lock.
type turn struct {
	packet []byte
	number uint64
	from   Machine

	now     time.Time
	more    bool          // datagrams wait in the ring
	held    time.Duration // by the pacer
	sleep   time.Duration // until the next timeout, or forever
	woken   bool
	drained bool          // Close may end the link
	hole    time.Duration // a black hole was found, safe datagrams for so long
}

const (
	forever time.Duration = -1
	// longest keeps the arithmetic of a timeout in the far future from overflowing.
	longest = 1000 * time.Hour
)

// turn moves a batch into the machines, runs their timers and asks for the next datagram.
func (w *writer) turn() (t turn, err error) {
	path := w.carrier.Path()
	t.now = w.Lock()
	defer w.mu.Unlock()
	w.parked = false
	if err := w.receive(t.now); err != nil {
		return t, err
	}
	for i := range w.slots {
		if w.failed = w.slots[i].Advance(t.now); w.failed != nil {
			return t, w.failed
		}
	}
	t.hole = w.usePath(t.now, path)
	w.uncork()
	if t.held = w.pacer.wait(); t.held == 0 {
		w.ask(&t)
	}
	t.woken = w.woken()
	t.more = !w.ring.empty()
	if t.packet == nil && !t.more {
		w.park(&t)
		if w.wakeAt = t.now.Add(t.sleep); t.sleep == forever {
			w.wakeAt = time.Time{}
		}
	}
	return t, nil
}

// usePath tells the machines the window when it changed, and sizes the next datagram.
func (w *writer) usePath(now time.Time, path Path) (hole time.Duration) {
	w.mtu.update(path.MaxDatagram)
	for i := range w.slots {
		if w.slots[i].blackHole() {
			hole = max(hole, w.mtu.blackHole(now))
		}
	}
	size := w.mtu.max(now)
	w.counts.max.Store(uint64(size))
	w.pacer.use(now, path, size)
	if path.Cwnd > 0 {
		w.share(path.Cwnd)
	}
	return hole
}

// share divides the window: what one machine has in flight is not the others', but who stands first in the order of
// priority cannot take more than half from one that wants it, too.
func (w *writer) share(window int) {
	total := 0
	for i := range w.slots {
		total += w.slots[i].inFlight()
	}
	for i := range w.slots {
		s := &w.slots[i]
		if part := max(window/2, window-total+s.inFlight()); part != s.window {
			s.window = part
			s.SetWindow(part)
		}
	}
}

// ask takes the next datagram from the first machine that has one.
func (w *writer) ask(t *turn) {
	size := w.mtu.max(t.now)
	for i := range w.slots {
		packet, number, ok := w.slots[i].AppendPacket(t.now, w.buffer[:0], size)
		if ok {
			t.packet, t.number, t.from = packet, number, w.slots[i].Machine
			w.pacer.sent(len(packet))
			return
		}
	}
}

// park finds out, before the lock is released, how long the writer may sleep; from then on an Unlock wakes it.
func (w *writer) park(t *turn) {
	w.parked = true
	w.changed() // what changed until now was seen in this turn
	if t.sleep = forever; t.held > 0 {
		t.sleep = t.held
		return
	}
	drained := w.draining.Load()
	for i := range w.slots {
		drained = drained && w.slots[i].Drained()
		if next, ok := w.slots[i].NextTimeout(); ok {
			if d := sleepUntil(t.now, next); t.sleep == forever || d < t.sleep {
				t.sleep = d
			}
		}
	}
	t.drained = drained
}

// sleepUntil rounds up, so that the timeout is due afterwards.
func sleepUntil(now, next time.Time) time.Duration {
	d := next.Sub(now)
	if d <= 0 {
		return overdue
	}
	return (min(d, longest) + grain - 1) / grain * grain
}

// uncork lets a closing link send what a tick holds back.
func (w *writer) uncork() {
	if w.uncorked || !w.draining.Load() {
		return
	}
	w.uncorked = true
	for i := range w.slots {
		if w.slots[i].cork != nil {
			w.slots[i].cork.Cork(false)
		}
	}
}
