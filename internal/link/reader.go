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
		// The writer will find it there, unless it is blocked in the carrier. In that case we
		// empty the ring ourselves.
		l.ring.push(datagram)
		l.signal()
		l.emptyRing()
	}
}

// tryDeliver passes a datagram to its machine if the writer sleeps and the lock is free. Otherwise
// it returns false at once.
//
// It wakes the writer only if there is something to send. Usually there isn't, since a game acks
// most of what it receives along with its next call.
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
		err = l.deliver(now, datagram, false)
	}
	o := l.finishReceive(err)
	if l.sealed.carrier == nil {
		o.wake = l.reschedule(now)
	}
	l.parked = !o.wake
	l.mu.Unlock()
	l.carryOut(o)
	return true
}

// finishReceive collects what is left to do after machines have received datagrams, where err is
// the violation of the one that failed, if any. The caller holds the lock.
func (l *Link) finishReceive(err error) (o outcome) {
	o.woken = l.takeWakeUps()
	if err != nil {
		o.err = violation(err)
	}
	if l.sealed.carrier != nil {
		// Its next timeout may have changed.
		l.sealed.carrier.Wake()
	}
	return o
}

// reschedule reports whether the sleeping writer has something to do. If it hasn't, but a machine's
// timer is due sooner than the writer would wake, the writer will wake in time for that. The caller
// holds the lock.
func (l *Link) reschedule(now time.Time) (hasWork bool) {
	hasWork = l.draining.Load()
	for i := range l.slots {
		hasWork = l.slots[i].Changed() || hasWork // always ask, since asking clears the answer
		next, ok := l.slots[i].NextTimeout()
		if ok && (next.Before(l.wakeAt) || !l.wakeAt.After(now)) {
			l.wakeIn(now, sleepUntil(now, next))
		}
	}
	return hasWork
}

// emptyRing delivers what is in the ring while the writer is in SendDatagram, where it may be
// blocked for a long time. There's no need to wait for the lock, because everybody who holds it
// calls emptyRing after releasing it.
func (l *Link) emptyRing() {
	for l.sending.Load() && !l.ring.empty() && l.mu.TryLock() {
		o := l.finishReceive(l.receive(time.Now()))
		l.mu.Unlock()
		l.carryOut(o)
		if o.err != nil {
			return
		}
	}
}

// receive delivers a batch of datagrams from the ring. The caller holds the lock, which also keeps
// them in order.
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

// deliver passes a datagram to its machine, which may keep it unless it is lent. An error is a
// violation by the peer, with which the caller must end the link. The caller holds the lock.
func (l *Link) deliver(now time.Time, datagram []byte, lent bool) error {
	s := l.slotFor(datagram)
	if s == nil {
		// Drop it. A ping is only meant to reach the peer's QUIC, so that's no surprise.
		if len(datagram) == 0 || datagram[0] != Ping {
			l.counts.droppedUnknown.Add(1)
		}
		return nil
	}
	l.heard = now
	switch {
	case s.extension != nil:
		// If this was an ack for something that we sent after the newest packets of play, the
		// first machine should know, because those may be lost.
		l.counts.otherIn.Add(uint64(len(datagram)))
		l.failed = s.Receive(now, datagram)
		if at, isNew := s.takeArrival(); isNew && l.failed == nil {
			l.play.Overtaken(now, at)
		}
	case lent:
		l.failed = l.play.ReceiveLent(now, datagram)
	default:
		l.failed = l.play.Receive(now, datagram)
	}
	return l.failed
}

// slotFor returns the slot of the machine that a datagram is for, or nil.
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
