package link

import (
	"fmt"
	"time"
)

// read moves datagrams from the carrier into the ring until the connection ends.
func (l *Link) read() {
	defer l.running.Done()
	for {
		datagram, err := l.carrier.ReceiveDatagram(l.ctx)
		if err != nil {
			l.end(fmt.Errorf("link: receive: %w", err))
			return
		}
		l.counts.datagramsIn.Add(1)
		l.counts.bytesIn.Add(uint64(len(datagram)))
		l.ring.push(datagram)
		l.signal()
		if l.sending.Load() {
			l.relieve()
		}
	}
}

// relieve feeds the machines in the writer's place, which may be blocked in SendDatagram for long. It never waits for
// the lock: the next datagram, or the writer, finds what it left.
func (l *Link) relieve() {
	if !l.mu.TryLock() {
		return
	}
	now := l.lockedNow()
	err := l.receive(now)
	woken := err == nil && l.woken()
	l.mu.Unlock()
	if err != nil {
		l.end(violation(err))
	}
	if woken {
		l.config.Wake()
	}
}

// receive moves one batch from the ring into the machines. The lock is held, which keeps the order of arrival.
func (l *Link) receive(now time.Time) error {
	if l.failed != nil || l.ring.empty() {
		return l.failed
	}
	batch := batches.Get().(*[batchSize][]byte)
	defer batches.Put(batch)
	defer clear(batch[:])
	for _, datagram := range batch[:l.ring.pop(batch[:])] {
		s := l.slotFor(datagram)
		if s == nil {
			l.counts.droppedUnknown.Add(1)
			continue
		}
		if l.failed = s.Receive(now, datagram); l.failed != nil {
			break
		}
	}
	return l.failed
}

// slotFor returns the machine that a datagram is for, or nil.
func (l *Link) slotFor(datagram []byte) *slot {
	if len(datagram) == 0 {
		return nil
	}
	for i := range l.slots {
		if l.slots[i].first == datagram[0] {
			return &l.slots[i]
		}
	}
	return nil
}
