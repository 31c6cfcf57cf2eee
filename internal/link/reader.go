package link

import (
	"fmt"
	"time"
)

// read is the reader. It moves datagrams from the carrier to the machines, or into the ring while the writer is busy, until the connection
// ends.
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

// hand gives a datagram to its machine in place of the writer, if that sleeps, and wakes the writer only when there is something to send:
// most of the datagrams that a game receives are acked with a later call. It does nothing and returns false if the writer is awake, or
// when the lock is taken, for which it does not wait.
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

// received returns what is to be done after machines have received something. A sealed carrier looks at once, for a datagram may have moved a
// timer. The caller holds the lock.
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

// writerWorks reports whether the sleeping writer has something to do. If a machine has a timer before the time until which the writer
// sleeps, it lets the writer sleep only until that. The caller holds the lock.
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

// relieve empties the ring in place of the writer while that is in SendDatagram, which may block for long. It does not wait for the lock:
// every holder calls relieve after releasing it.
func (l *Link) relieve() {
	for l.sending.Load() && !l.ring.empty() && l.mu.TryLock() {
		o := l.received(l.receive(time.Now()))
		l.mu.Unlock()
		if l.conclude(o); o.err != nil {
			return
		}
	}
}

// receive moves one batch from the ring into the machines. The lock is held, so datagrams stay in order.
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

// deliver gives a datagram to its machine. A lent datagram stays the caller's. The caller must end the link with the error, a violation of
// the peer. The caller holds the lock.
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

// slotFor returns the machine that the first byte of a datagram names, or nil.
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
