package link

import "time"

// maxDirect is the most datagrams that one Unlock sends: a tick's calls and a little more. The writer sends the rest, so that a tick does
// not spend its time on bulk.
const maxDirect = 8

// queued bounds the number of datagrams in the carrier's queue without asking the carrier. The queue is in order, so it holds at most the
// datagrams that the first machine has built since the newest one that the peer acknowledged, and those of other machines after that.
type queued struct {
	capacity int    // of the carrier's queue; 0 = it may always block
	next     uint64 // one above the newest packet of the first machine
	least    uint64 // acked must reach it before anything is sent directly: until then another machine's datagram may wait
}

// built notes a datagram of the machine with index place in the order of priority.
func (q *queued) built(place int, number uint64) {
	if place > 0 {
		q.other()
		return
	}
	q.next = number + 1
}

// other notes that a datagram of another machine may be in the queue. Only the ack of a later datagram of the first machine proves that
// it has left.
func (q *queued) other() { q.least = q.next + 1 }

// room reports whether the queue certainly has room for another datagram. acked is one above the newest packet of the first machine
// that the peer has acknowledged.
func (q *queued) room(acked uint64) bool {
	return acked >= q.least && q.next-min(acked, q.next) < uint64(q.capacity)
}

// outcome is what was found under the lock and is to be done without it: ending calls the carrier, waking the world, and the writer takes the
// lock itself.
type outcome struct {
	err   error         // ends the link
	woken bool          // Config.Wake must be called
	wake  bool          // the writer has something to do
	hole  time.Duration // how long only safe datagrams leave, when a black hole was found; else 0
}

// sendDirect sends in place of the sleeping writer. The caller holds the lock throughout, which keeps packets in order.
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

// launch gives a datagram to the carrier, whose queue has room, so it does not block.
func (l *Link) launch(t turn) error {
	if err := l.carrier.SendDatagram(t.packet); err != nil {
		_, err = l.refused(t, err)
		return err
	}
	l.sent(t)
	return nil
}

// conclude does what was found. The caller does not hold the lock.
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
