package link

import "time"

// maxDirect datagrams leave in one Unlock, a tick's calls and a little more; the writer sends what is left, so that no tick works for
// bulk.
const maxDirect = 8

// queued bounds how many datagrams can wait inside the carrier, whose queue is in order: no more than the first machine
// built after the newest that the peer has acknowledged, unless other machines' are among them.
type queued struct {
	capacity int    // of the carrier's queue, 0 = it may always block
	next     uint64 // one above the newest packet of the first machine
	least    uint64 // nothing is sent directly before acked reaches it: another machine's datagram, of which no ack tells, may wait until then
}

// built notes a datagram of the machine with that place in the order of priority.
func (q *queued) built(place int, number uint64) {
	if place > 0 {
		q.other()
		return
	}
	q.next = number + 1
}

// other notes that a datagram may wait that is not the first machine's: nothing says when it has left but an ack for one of
// the first machine's that was built later.
func (q *queued) other() { q.least = q.next + 1 }

// room reports whether another datagram fits for certain. acked is one above the newest packet of the first machine that
// the peer acknowledged.
func (q *queued) room(acked uint64) bool {
	return acked >= q.least && q.next-min(acked, q.next) < uint64(q.capacity)
}

// direct is what came of sending in the writer's place.
type direct struct {
	err   error // ends the link
	woken bool
	wake  bool // the writer has something to do
	hole  time.Duration
}

// sendDirect sends in the writer's place. The lock is held all the time, which keeps the order of packets.
func (l *Link) sendDirect() (d direct) {
	first := &l.slots[0]
	if first.acker == nil || l.draining.Load() || l.failed != nil {
		d.wake, l.parked = true, false
		return d
	}
	buffer := buffers.Get().(*[maxDatagram]byte)
	defer buffers.Put(buffer)
	path := l.carrier.Path()
	for range maxDirect {
		if !l.queued.room(first.acker.Acked()) {
			break
		}
		t, err := l.look(path, buffer)
		if err != nil {
			return direct{err: violation(err)}
		}
		d.woken = d.woken || t.woken
		d.hole = max(d.hole, t.hole)
		if t.packet == nil {
			d.wake = !l.parked
			return d
		}
		if d.err = l.launch(t); d.err != nil {
			return d
		}
	}
	d.wake, l.parked = true, false
	return d
}

// launch passes a datagram to a carrier that does not block now.
func (l *Link) launch(t turn) error {
	if err := l.carrier.SendDatagram(t.packet); err != nil {
		_, err = l.refused(t, err)
		return err
	}
	l.sent(t)
	return nil
}

// conclude does without the lock what came of sending.
func (l *Link) conclude(d direct) {
	if d.err != nil {
		l.end(d.err)
		return
	}
	l.warn(d.hole)
	if d.woken {
		l.config.Wake()
	}
	if d.wake {
		l.signal()
	}
}
