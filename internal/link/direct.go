package link

import "time"

// maxDirect is the maximum number of datagrams that one Unlock sends, slightly more than a
// tick's calls need. The writer sends the rest, so a tick spends no time on bulk.
const maxDirect = 8

// queued bounds the number of datagrams in the carrier's queue without asking the carrier.
//
// The queue is in order. So it holds at most the datagrams that the first machine built after
// the newest one the peer has acknowledged, and datagrams of other machines built after that
// one.
type queued struct {
	capacity int    // capacity of the carrier's queue in datagrams; 0 if SendDatagram may always block
	next     uint64 // number of the first machine's newest packet, plus one
	// Nothing is sent directly before the peer has acknowledged a packet numbered least-1 or
	// higher, because another machine's datagram may still be queued.
	least uint64
}

// built records a datagram of the machine at index place in priority order.
func (q *queued) built(place int, number uint64) {
	if place > 0 {
		q.other()
		return
	}
	q.next = number + 1
}

// other records that the queue may hold a datagram of another machine. Only an ack for a
// later datagram of the first machine proves that it was sent.
func (q *queued) other() { q.least = q.next + 1 }

// room reports whether the queue certainly has room for another datagram. acked is the number
// of the first machine's newest acknowledged packet, plus one.
func (q *queued) room(acked uint64) bool {
	return acked >= q.least && q.next-min(acked, q.next) < uint64(q.capacity)
}

// outcome is work found under the lock that must be done without it. Ending the link calls
// the carrier, Wake calls the owner, and the writer takes the lock itself.
type outcome struct {
	err   error         // if not nil, it ends the link
	woken bool          // Config.Wake must be called
	wake  bool          // the writer has something to do
	hole  time.Duration // after a black hole was found, how long only safe datagrams are sent; otherwise 0
}

// sendDirect sends datagrams while the writer sleeps. The caller holds the lock throughout,
// which keeps packets in order.
func (l *Link) sendDirect() (o outcome) {
	if l.queued.capacity == 0 || l.draining.Load() || l.failed != nil {
		l.parked = false
		o.wake = true
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
	l.parked = false
	o.wake = true
	return o
}

// launch passes a datagram to the carrier. It does not block, because the carrier's queue has
// room.
func (l *Link) launch(t turn) error {
	if err := l.carrier.SendDatagram(t.packet); err != nil {
		_, err = l.refused(t, err)
		return err
	}
	l.sent(t)
	return nil
}

// conclude carries out an outcome. The caller does not hold the lock.
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
