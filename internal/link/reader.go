package link

import (
	"fmt"
	"time"
)

// read runs on the reader's goroutine until the connection ends. It moves datagrams from the
// carrier to the machines, or into the ring while the writer is busy.
func (l *Link) read() {
	for {
		datagram, err := l.carrier.ReceiveDatagram(l.ctx)
		if err != nil {
			l.end(fmt.Errorf("link: receive: %w", err))
			return
		}
		if l.hand(datagram) {
			continue
		}
		l.ring.push(datagram)
		l.signal()
		l.relieve()
	}
}

// hand passes a datagram to its machine while the writer sleeps. It wakes the writer only if
// there is something to send: most datagrams that a game receives are acked with a later
// call.
//
// If the writer is awake or the lock is taken, hand does nothing and returns false. It does
// not wait for the lock.
func (l *Link) hand(datagram []byte) bool {
	if !l.mu.TryLock() {
		return false
	}
	if !l.parked || !l.ring.empty() {
		l.mu.Unlock()
		return false
	}

	now, err := time.Now(), l.failed
	if err == nil {
		err = l.deliver(now, datagram, false)
	}
	o := l.received(err)
	if l.sealed.carrier == nil {
		o.wake = l.writerWorks(now)
	}
	l.parked = !o.wake
	l.mu.Unlock()
	l.conclude(o)
	return true
}

// received returns what must be done after machines received datagrams. It wakes a sealed
// carrier, because a datagram may have changed a timer. The caller holds the lock.
func (l *Link) received(err error) (o outcome) {
	o.woken = l.woken()
	if err != nil {
		o.err = violation(err)
	}
	if l.sealed.carrier != nil {
		l.sealed.carrier.Wake()
	}
	return o
}

// writerWorks reports whether the sleeping writer has something to do. If a machine's timer
// is due before wakeAt, writerWorks moves wakeAt. The caller holds the lock.
func (l *Link) writerWorks(now time.Time) (works bool) {
	works = l.draining.Load()
	for i := range l.slots {
		works = l.slots[i].Changed() || works
		next, ok := l.slots[i].NextTimeout()
		if ok && (next.Before(l.wakeAt) || !l.wakeAt.After(now)) {
			l.wakeIn(now, sleep(now, next))
		}
	}
	return works
}

// relieve empties the ring while the writer is in SendDatagram, which may block for a long
// time. It does not wait for the lock, because every holder of the lock calls relieve after
// releasing it.
func (l *Link) relieve() {
	for l.sending.Load() && !l.ring.empty() && l.mu.TryLock() {
		o := l.received(l.receive(time.Now()))
		l.mu.Unlock()
		l.conclude(o)
		if o.err != nil {
			return
		}
	}
}

// receive moves one batch from the ring into the machines. The caller holds the lock, which
// keeps datagrams in order.
func (l *Link) receive(now time.Time) error {
	if l.failed != nil || l.ring.empty() {
		return l.failed
	}
	batch := batches.Get().(*[batchSize][]byte)
	defer batches.Put(batch)
	defer clear(batch[:])
	for _, datagram := range batch[:l.ring.pop(batch[:])] {
		if l.deliver(now, datagram, false) != nil {
			break
		}
	}
	return l.failed
}

// deliver passes a datagram to its machine. If lent is true, the datagram stays the caller's.
//
// An error is a violation by the peer, and the caller must end the link with it. The caller
// holds the lock.
func (l *Link) deliver(now time.Time, datagram []byte, lent bool) error {
	s := l.slotFor(datagram)
	if s == nil {
		if len(datagram) == 0 || datagram[0] != Ping {
			l.counts.droppedUnknown.Add(1)
		}
		return nil
	}
	l.heard = now
	switch {
	case s.extension != nil:
		l.counts.otherIn.Add(uint64(len(datagram)))
		l.failed = s.Receive(now, datagram)
		if at, news := s.overtakes(); news && l.failed == nil {
			l.play.Overtaken(now, at)
		}
	case lent:
		l.failed = l.play.ReceiveLent(now, datagram)
	default:
		l.failed = l.play.Receive(now, datagram)
	}
	return l.failed
}

// slotFor returns the slot of the machine that handles the datagram's first byte, or nil.
func (l *Link) slotFor(datagram []byte) *slot {
	if len(datagram) == 0 {
		return nil
	}
	for i := range l.slots {
		if s := &l.slots[i]; s.first == datagram[0] || s.second == datagram[0] {
			return s
		}
	}
	return nil
}
