package chunk

import "time"

// AppendAck appends a packet with the next ack that is due. ok is false if none is due before
// NextTimeout.
func (r *Receiver) AppendAck(now time.Time, buf []byte) (packet []byte, ok bool) {
	a, ok := r.NextAck(now)
	if !ok {
		return buf, false
	}
	return r.config.AppendAck(buf, a), true
}

// NextAck is like AppendAck, for drivers that encode packets themselves. The ack counts as sent.
func (r *Receiver) NextAck(now time.Time) (ack Ack, ok bool) {
	r.clock.set(now)
	if r.urgent == 0 && r.clock.now < r.ackAt {
		return Ack{}, false
	}
	r.ackAt = never // takeDueAck lowers it for each ack that is due later
	ack, ok = r.takeDueAck()
	if !ok {
		return Ack{}, false
	}
	r.ackAt = r.clock.now // more may be due, so search again on the next call
	r.lastAck = r.clock.now
	r.stats.Acks++
	return ack, true
}

// takeDueAck returns the first ack that is due, first of the chunks that haven't been taken, in
// order, and then of those that have, from the newest to the oldest. If there is none, it sets
// ackAt to when the next one is due.
func (r *Receiver) takeDueAck() (ack Ack, ok bool) {
	for n := r.dues.next(r.read, 0); n < maxPipeline; n = r.dues.next(r.read, n+1) {
		id := r.read + uint16(n)
		if a := r.slot(id); r.takeDue(id, &a.ackable) {
			r.dues.clear(id)
			return Ack{ChunkID: id, Count: a.count(), Acked: a.received}, true
		}
	}
	newest := r.read - 1 // the chunk taken last; older ones are further from ^newest
	for n := r.pastDues.next(^newest, 0); n < maxPipeline; n = r.pastDues.next(^newest, n+1) {
		id := newest - uint16(n)
		if a := &r.taken[id%maxPipeline]; r.takeDue(id, a) {
			r.pastDues.clear(^id)
			return Ack{ChunkID: id, Count: a.count(), Acked: firstBits(a.count())}, true
		}
	}
	return Ack{}, false
}

// NextTimeout returns the time at which the next ack is due, unless a slice arrives earlier. A time
// that is not after the latest now means immediately. ok is false if no ack is due.
func (r *Receiver) NextTimeout() (at time.Time, ok bool) {
	switch {
	case r.urgent > 0:
		return r.clock.time(r.clock.now), true
	case r.ackAt == never:
		return time.Time{}, false
	}
	return r.clock.time(max(r.ackAt, r.clock.now)), true
}

// minRepeated is how many acks of taken chunks Restart repeats at least, because the receive queue
// may have been larger when those acks were sent.
const minRepeated = 256

// Restart makes acks due at once. Call it when packets change to another path.
//
// It repeats the acks of all chunks that have not been taken, and of as many of the chunks taken
// last as the receive queue holds, but at least 256. Slices that arrived on the old path are kept.
// If the sender is missing the acks of further chunks, it resends their slices, which the receiver
// then acks again.
func (r *Receiver) Restart() {
	for i := range uint16(len(r.slots)) {
		r.Repeat(r.read + i)
	}
	for i := range uint16(max(minRepeated, len(r.slots))) {
		r.Repeat(r.read - 1 - i)
	}
}

// Repeat makes the ack of one chunk due at once. A driver calls it when it learns that the ack was
// lost.
func (r *Receiver) Repeat(id uint16) {
	if a := r.slot(id); a != nil {
		r.request(id, &a.ackable, atOnce)
	} else if a := r.past(id); a != nil {
		r.request(id, a, atOnce)
	}
}

// request makes the ack of a chunk due, either at once or, if when is soon, AckDelay after the
// chunk's latest ack. It does nothing if a is unused, or if its ack is already due that early.
func (r *Receiver) request(id uint16, a *ackable, when due) {
	if a.due == unused || a.due >= when {
		return
	}
	a.due = when
	if r.slot(id) != nil {
		r.dues.set(id)
	} else {
		r.pastDues.set(^id)
	}
	if when == atOnce {
		r.urgent++
	} else {
		r.ackAt = min(r.ackAt, r.acked.get(id)+r.config.AckDelay)
	}
}

// takeDue records the ack of a chunk as sent and returns true if the ack is due. Otherwise it
// lowers ackAt to when the ack will be due.
func (r *Receiver) takeDue(id uint16, a *ackable) (taken bool) {
	if a.due == atOnce {
		r.urgent--
	} else if at := r.acked.get(id) + r.config.AckDelay; r.clock.now < at {
		r.ackAt = min(r.ackAt, at)
		return false
	}
	a.due = quiet
	r.acked.set(id, r.clock.now)
	return true
}

// ackTimes says when the latest ack of each chunk was sent, by id modulo maxPipeline. It is nil if
// there is no AckDelay, for then acks needn't wait for each other.
//
// A chunk shares its place with the one maxPipeline before it, which no sender can still have in
// flight.
type ackTimes []time.Duration

// get returns when the latest ack of a chunk was sent.
func (t ackTimes) get(id uint16) time.Duration {
	if t == nil {
		return 0
	}
	return t[id%maxPipeline]
}

// set records when the latest ack of a chunk was sent.
func (t ackTimes) set(id uint16, at time.Duration) {
	if t != nil {
		t[id%maxPipeline] = at
	}
}
