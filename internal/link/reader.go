package link

import (
	"fmt"
	"time"
)

// read is the reader's goroutine. Until the connection ends, it passes datagrams from the carrier
// to the machines, or puts them into the ring while the writer is busy.
func (l *Link) read() {
	for {
		datagram, err := l.carrier.ReceiveDatagram(l.ctx)
		if err != nil {
			l.end(fmt.Errorf("link: receive: %w", err))
			return
		}
		if l.tryDeliver(datagram) {
			continue
		}
		// The writer finds the datagram in the ring. If it is blocked in the carrier, we empty the
		// ring ourselves.
		l.ring.push(datagram)
		l.writer.signal()
		l.emptyRing()
	}
}

// tryDeliver passes a datagram to its machine if the writer sleeps and the lock is free. Otherwise
// it returns false at once.
//
// It wakes the writer only if there is something to send. Usually there isn't, because most acks
// are sent along with the game's next call.
func (l *Link) tryDeliver(datagram []byte) bool {
	if !l.mu.TryLock() {
		return false
	}
	if !l.parked || !l.ring.empty() {
		// The writer is at work, or it has older datagrams to deliver first.
		l.mu.Unlock()
		return false
	}

	now, err := time.Now(), l.failed
	if err == nil {
		err = l.deliver(now, datagram, owned)
	}
	o := l.finishReceive(err)
	if !l.sealed.inUse() {
		o.signal = l.reschedule(now)
	}
	l.parked = !o.signal
	l.mu.Unlock()
	l.carryOut(o)
	return true
}

// finishReceive collects what remains to be done after the machines have received datagrams, and
// wakes the sealed carrier, because the machines' next timeout may have changed. err is a machine's
// violation, or nil. The caller holds the lock.
func (l *Link) finishReceive(err error) (o outcome) {
	o.callWake = l.takeWakeUps()
	if err != nil {
		o.err = violation(err)
	}
	l.sealed.wake()
	return o
}

// reschedule makes the sleeping writer wake in time for the machines' timers, and reports whether
// the caller must wake it now because there is something to send. The caller holds the lock.
func (l *Link) reschedule(now time.Time) (hasWork bool) {
	hasWork = l.takeChanges()
	for i := range l.slots {
		next, ok := l.slots[i].NextTimeout()
		if ok && !l.alarm.ringsBy(now, next) {
			l.alarm.set(now, sleepUntil(now, next))
		}
	}
	return hasWork || l.draining.Load()
}

// emptyRing delivers the datagrams in the ring while the writer is in SendDatagram, which may
// block for a long time. It doesn't wait for the lock, because whoever holds the lock calls
// emptyRing after releasing it.
func (l *Link) emptyRing() {
	for l.writer.sending.Load() && !l.ring.empty() {
		if !l.mu.TryLock() {
			return
		}
		o := l.finishReceive(l.receive(time.Now()))
		l.mu.Unlock()
		l.carryOut(o)
		if o.err != nil {
			return
		}
	}
}

// receive delivers a batch of datagrams from the ring. The caller holds the lock, which also keeps
// the datagrams in order.
func (l *Link) receive(now time.Time) error {
	if l.failed != nil || l.ring.empty() {
		return l.failed
	}
	batch := batches.Get().(*[batchSize][]byte)
	defer batches.Put(batch)
	defer clear(batch[:])
	for _, datagram := range batch[:l.ring.pop(batch[:])] {
		if l.deliver(now, datagram, owned) != nil {
			break
		}
	}
	return l.failed
}

// An ownership says whether a machine may keep a datagram that it receives.
type ownership bool

const (
	owned ownership = true  // the datagram belongs to the machine from now on
	lent  ownership = false // it still belongs to the caller
)

// deliver passes a datagram to its machine. An error means that the peer violated the protocol, so
// the caller must end the link with it. The caller holds the lock.
func (l *Link) deliver(now time.Time, datagram []byte, whose ownership) error {
	s := l.slotFor(datagram)
	if s == nil {
		// Drop it. A ping isn't counted as unknown, because it is only meant for QUIC.
		if len(datagram) == 0 || datagram[0] != Ping {
			l.counts.droppedUnknown.Add(1)
		}
		return nil
	}
	l.heard = now
	switch {
	case s.extension != nil:
		// The datagram may acknowledge something that we sent after the newest packets of play. If
		// so, tell the first machine, because those packets may be lost.
		l.counts.otherIn.Add(uint64(len(datagram)))
		l.failed = s.Receive(now, datagram)
		if at, isNew := s.takeArrival(); isNew && l.failed == nil {
			l.play.Overtaken(now, at)
		}
	case whose == lent:
		l.failed = l.play.ReceiveLent(now, datagram)
	default:
		l.failed = l.play.Receive(now, datagram)
	}
	return l.failed
}

// slotFor returns the slot of the machine to which a datagram belongs, or nil.
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
