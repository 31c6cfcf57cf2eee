package link

import "time"

// maxDirect is the most datagrams that one Unlock sends: a few more than the calls
// of a tick. The writer sends the rest, so that a tick spends no time on bulk.
const maxDirect = 8

// queued bounds the number of datagrams in the carrier's queue without asking the carrier. The
// queue is in order, so it holds at most those that the first machine has built since its
// newest one that the peer has acknowledged, and those of other machines built after that one.
type queued struct {
	capacity int    // of the carrier's queue, in datagrams; 0 = SendDatagram may always block
	next     uint64 // one above the number of the first machine's newest packet
	// Nothing is sent directly before acked reaches it, because another
	// machine's datagram may still be queued.
	least uint64
}

// built records a datagram of the machine at index place in the order of priority.
func (q *queued) built(place int, number uint64) {
	if place > 0 {
		q.other()
		return
	}
	q.next = number + 1
}

// other records that a datagram of another machine may be in the queue. Only an
// ack for a later datagram of the first machine proves that it has been sent.
func (q *queued) other() { q.least = q.next + 1 }

// room reports whether the queue certainly has room for another datagram. acked is one
// above the number of the first machine's newest packet that the peer has acknowledged.
func (q *queued) room(acked uint64) bool {
	return acked >= q.least && q.next-min(acked, q.next) < uint64(q.capacity)
}

// outcome is what was found under the lock and must be done without it: ending the
// link calls the carrier, Wake calls the owner, and the writer takes the lock itself.
type outcome struct {
	err   error         // if not nil, it ends the link
	woken bool          // Config.Wake must be called
	wake  bool          // the writer has something to do
	hole  time.Duration // if a black hole was found, how long only safe datagrams are sent; otherwise 0
}

// sendDirect sends datagrams in place of the sleeping writer. The caller holds
// the lock throughout, which keeps packets in order.
func (l *Link) sendDirect() (o outcome) {
	if l.queued.capacity == 0 || l.draining.Load() || l.failed != nil {
		o.wake, l.parked = true, false
		return o
	}
	buffer := buffers.Get().(*[maxDatagram]byte)
	defer buffers.Put(buffer)
	path := l.carrier.Path()
	for range maxDirect {
		if !l.queued.room(l.play.Acked()) {
			break
		}
		t, err := l.look(path, buffer)
		if err != nil {
			return outcome{err: violation(err)}
		}
		o.woken = o.woken || t.woken
		o.hole = max(o.hole, t.hole)
		if t.packet == nil {
			o.wake = !l.parked
			return o
		}
		if o.err = l.launch(t); o.err != nil {
			return o
		}
	}
	o.wake, l.parked = true, false
	return o
}

// launch passes a datagram to the carrier. The carrier's queue has room for it,
// so this does not block.
func (l *Link) launch(t turn) error {
	if err := l.carrier.SendDatagram(t.packet); err != nil {
		_, err = l.refused(t, err)
		return err
	}
	l.sent(t)
	return nil
}

// conclude does what an outcome asks for. The caller does not hold the lock.
func (l *Link) conclude(o outcome) {
	if o.err != nil {
		l.end(o.err)
		return
	}
	l.warn(o.hole)
	if o.woken {
		l.config.Wake()
	}
	if o.wake {
		l.signal()
	}
}
