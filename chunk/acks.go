package chunk

import "time"

// AppendAck appends the packet with the ack that is due now. ok is false if
// none is due before NextTimeout.
func (r *Receiver) AppendAck(now time.Time, buf []byte) (packet []byte, ok bool) {
	a, ok := r.NextAck(now)
	if !ok {
		return buf, false
	}
	return r.config.AppendAck(buf, a), true
}

// NextAck is AppendAck for drivers with packets of their own. The ack counts as sent.
func (r *Receiver) NextAck(now time.Time) (Ack, bool) {
	r.clock.set(now)
	if r.urgent == 0 && r.clock.now < r.ackAt {
		return Ack{}, false
	}
	r.ackAt = never
	a, ok := r.dueAck()
	if ok { // others may be due, too
		r.ackAt = r.clock.now
		r.lastAck = r.clock.now
		r.stats.Acks++
	}
	return a, ok
}

// dueAck finds the first ack that is due. If there is none, it sets ackAt to when the next one is.
func (r *Receiver) dueAck() (Ack, bool) {
	for n := r.dues.next(r.read, 0); n < maxPipeline; n = r.dues.next(r.read, n+1) {
		id := r.read + uint16(n)
		if a := r.slot(id); r.ack(&a.ackable) {
			r.dues.clear(id)
			return Ack{ChunkID: id, Count: int(a.count), Acked: a.received}, true
		}
	}
	newest := r.read - 1 // of taken; a larger distance from ^newest is an older chunk
	for n := r.pastDues.next(^newest, 0); n < maxPipeline; n = r.pastDues.next(^newest, n+1) {
		id := newest - uint16(n)
		if a := &r.taken[id%maxPipeline]; r.ack(a) {
			r.pastDues.clear(^id)
			return Ack{ChunkID: id, Count: int(a.count), Acked: firstBits(int(a.count))}, true
		}
	}
	return Ack{}, false
}

// NextTimeout returns when the next ack is due if no slice arrives before. A
// time that is not after the last now means at once.
func (r *Receiver) NextTimeout() (at time.Time, ok bool) {
	switch {
	case r.urgent > 0:
		return r.clock.time(r.clock.now), true
	case r.ackAt == never:
		return time.Time{}, false
	}
	return r.clock.time(max(r.ackAt, r.clock.now)), true
}

// Restart is called when packets change to another path. It makes acks due at once: of all
// chunks that were not taken, and of as many of those that were taken last as the receive
// queue has places. Slices that arrived on the old path stay. If the sender has more chunks
// in flight and misses acks of others, it sends their slices once more, and those are acked.
func (r *Receiver) Restart() {
	for i := range uint16(len(r.slots)) {
		r.Repeat(r.read + i)
		r.Repeat(r.read - 1 - i)
	}
}

// Repeat makes the ack of one chunk due at once. A driver calls it when it
// knows that the ack was lost.
func (r *Receiver) Repeat(id uint16) {
	if a := r.slot(id); a != nil {
		r.request(id, &a.ackable, atOnce)
	} else if a := r.past(id); a != nil {
		r.request(id, a, atOnce)
	}
}

// request makes the ack of a chunk due: soon, which is AckDelay after its last one, or
// atOnce. It does nothing if the place is empty, or if the ack is already due as early.
func (r *Receiver) request(id uint16, a *ackable, when due) {
	if a.count == 0 || a.due >= when {
		return
	}
	if a.due = when; r.slot(id) != nil {
		r.dues.set(id)
	} else {
		r.pastDues.set(^id)
	}
	if when == atOnce {
		r.urgent++
	} else {
		r.ackAt = min(r.ackAt, a.acked+r.config.AckDelay)
	}
}

// ack reports whether the ack of a chunk is due. If so, it records that the ack is
// sent now. If not, it makes NextTimeout return a time no later than when it is due.
func (r *Receiver) ack(a *ackable) bool {
	switch {
	case a.due == atOnce:
		r.urgent--
	case r.clock.now < a.acked+r.config.AckDelay:
		r.ackAt = min(r.ackAt, a.acked+r.config.AckDelay)
		return false
	}
	a.due, a.acked = quiet, r.clock.now
	return true
}
