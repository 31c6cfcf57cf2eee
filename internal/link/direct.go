package link

import "time"

// maxDirect is the maximum number of datagrams that Unlock sends, which is a little more than the
// calls of a tick need. It leaves the rest to the writer, so that a tick spends no time on bulk
// (transfers).
const maxDirect = 8

// A carrierQueue tells whether the carrier can accept another datagram without blocking. The
// carrier doesn't tell us the length of its queue, so we calculate an upper bound.
//
// The queue is in order. So once the peer has acknowledged a packet of the first machine, that
// packet and everything before it have left the queue, and only later datagrams may still be in it.
type carrierQueue struct {
	capacity int    // in datagrams; 0 if SendDatagram may always block
	next     uint64 // number of the first machine's newest packet, plus one
	minAcked uint64 // what [Play.Acked] must reach before all other machines' datagrams have left
}

// add adds a datagram to the queue. place is the index of the machine that built it.
func (q *carrierQueue) add(place int, number uint64) {
	if place > 0 {
		q.addOther()
		return
	}
	q.addFirst(number)
}

// addFirst records the number of the first machine's newest packet. It may have been sent by the
// sealed carrier, which keeps the numbers consecutive.
func (q *carrierQueue) addFirst(number uint64) { q.next = number + 1 }

// addOther records that the queue may hold a datagram that isn't the first machine's. We know that
// it has left the queue once the peer has acknowledged the first machine's next packet.
func (q *carrierQueue) addOther() { q.minAcked = q.next + 1 }

// hasRoom reports whether the queue certainly has room for another datagram. acked is one more
// than the number of the first machine's newest acknowledged packet.
func (q *carrierQueue) hasRoom(acked uint64) bool {
	return acked >= q.minAcked && q.next-min(acked, q.next) < uint64(q.capacity)
}

// An outcome is the work that must wait until the lock has been released, because it calls the
// carrier or the owner, or wakes the writer, which takes the lock. See carryOut.
type outcome struct {
	err       error         // ends the link, unless nil
	callWake  bool          // Config.Wake must be called
	signal    bool          // the writer must look for work
	blackHole time.Duration // how long datagrams are limited to SafeDatagram; 0 if no new hole was found
}

// sendDirect sends datagrams in place of the sleeping writer. The caller holds the lock until
// sendDirect returns, which keeps packets in order.
func (l *Link) sendDirect() (o outcome) {
	if l.queued.capacity == 0 || l.draining.Load() || l.failed != nil {
		// Sending might block, or the link is about to end. Leave it to the writer.
		l.parked = false
		o.signal = true
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
		o.callWake = o.callWake || t.callWake
		o.blackHole = max(o.blackHole, t.blackHole)
		if !t.hasPacket() {
			// Nothing is left to send. The writer sleeps on, unless there is something to receive.
			o.signal = !l.parked
			return o
		}
		o.err = l.sendNow(t)
		if o.err != nil {
			return o
		}
	}
	// There may be more to send than maxDirect allows or than the queue has room for.
	l.parked = false
	o.signal = true
	return o
}

// sendNow gives a datagram to the carrier, which doesn't block because its queue has room.
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
	l.warn(o.blackHole)
	if o.callWake {
		l.config.Wake()
	}
	if o.signal {
		l.writer.signal()
	}
}
