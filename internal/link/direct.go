package link

import "time"

// maxDirect is the maximum number of datagrams that Unlock sends, a little more than the calls of
// a tick need. The writer sends the rest, so that a tick spends no time on bulk.
const maxDirect = 8

// A carrierQueue tells whether the carrier can take another datagram without blocking. The carrier
// doesn't tell us the length of its queue, so we calculate the maximum.
//
// The queue is in order. Once the peer has acknowledged a packet of the first machine, everything
// up to that packet has left the queue. Only later datagrams may still be in it.
type carrierQueue struct {
	capacity int    // in datagrams; 0 if SendDatagram may always block
	next     uint64 // number of the first machine's newest packet, plus one
	minAcked uint64 // what Acked must reach before we know that other machines' datagrams have left
}

// add adds a datagram to the queue. place is the index of the machine that built it.
func (q *carrierQueue) add(place int, number uint64) {
	if place > 0 {
		q.addOther()
		return
	}
	q.next = number + 1
}

// addOther records that the queue has, or may have, a datagram that isn't the first machine's. We
// know that this datagram has left the queue once the peer acks the first machine's next packet.
func (q *carrierQueue) addOther() { q.minAcked = q.next + 1 }

// hasRoom reports whether the queue certainly has room for another datagram. acked is one more
// than the number of the first machine's newest acknowledged packet.
func (q *carrierQueue) hasRoom(acked uint64) bool {
	return acked >= q.minAcked && q.next-min(acked, q.next) < uint64(q.capacity)
}

// An outcome is the work that must wait until the lock has been released, because it calls the
// carrier or the owner, or wakes the writer, which takes the lock.
type outcome struct {
	err   error         // ends the link, unless nil
	woken bool          // Config.Wake must be called
	wake  bool          // the writer has something to do
	hole  time.Duration // how long we send only safe datagrams; 0 if no black hole was found
}

// sendDirect sends datagrams in place of the sleeping writer. The caller holds the lock until it
// returns, which keeps packets in order.
func (l *Link) sendDirect() (o outcome) {
	if l.queued.capacity == 0 || l.draining.Load() || l.failed != nil {
		// Sending might block, or the link is ending. Leave it to the writer.
		l.parked = false
		o.wake = true
		return o
	}
	buffer := buffers.Get().(*[maxDatagram]byte)
	defer buffers.Put(buffer)
	path := l.carrier.Path()
	for range maxDirect {
		if !l.queued.hasRoom(l.play.Acked()) {
			break
		}
		t, err := l.poll(path, buffer)
		if err != nil {
			return outcome{err: violation(err)}
		}
		o.woken = o.woken || t.woken
		o.hole = max(o.hole, t.hole)
		if t.packet == nil {
			// Nothing is left to send. The writer sleeps on, unless poll didn't park it.
			o.wake = !l.parked
			return o
		}
		if o.err = l.sendNow(t); o.err != nil {
			return o
		}
	}
	// There may be more to send than maxDirect allows or than the queue has room for.
	l.parked = false
	o.wake = true
	return o
}

// sendNow gives a datagram to the carrier, which won't block since its queue has room.
func (l *Link) sendNow(t turn) error {
	if err := l.carrier.SendDatagram(t.packet); err != nil {
		_, err = l.takeBack(t, err)
		return err
	}
	l.countSent(t)
	return nil
}

// carryOut does what an outcome asks for. The caller must not hold the lock.
func (l *Link) carryOut(o outcome) {
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
