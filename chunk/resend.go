package chunk

import "time"

const (
	// ackSlack is added to Config.AckDelay before a slice counts as late, because timers at
	// both ends fire a little late.
	ackSlack = 5 * time.Millisecond

	// silentAfter is the number of resend delays without any ack after which the sender
	// only probes. At 50 % loss in both directions, a slice and its ack fail eight times in
	// a row once in ten.
	silentAfter = 8
	// maxPatience limits the delay that results from doubling, so that the sender notices
	// the end of an outage soon. On a path with a longer delay, the delay doubles once.
	maxPatience = time.Second
	// sparedTimeouts is the number of timeouts in a row that do not double a measured
	// delay. With a chunk of one slice, at 20 % loss in both directions, three fail in a
	// row once in 20. Doubling from the first one made such chunks take 1.5 times as long.
	sparedTimeouts = 2
	// maxBackoff limits the delay to 16 times the shortest one, or 64 times while the
	// round trip is unknown.
	maxBackoff = 4 + sparedTimeouts
	// bogusAfter is the number of slices in a row, at the longest delay, that must be
	// acked only after they were resent for the measured round trip to count as bogus
	// (end of RFC 6298, section 5). At 50 % loss in both directions that happens by
	// chance once in a hundred.
	bogusAfter = 16
	// bogusAnyway is the same number at any delay, if it takes longer than bogusTime. On a
	// path that has become ten times as long, each ack arrives soon after one of the
	// transmissions and so ends the backoff.
	bogusAnyway = 64
	bogusTime   = time.Second
	// fewLeft is the number of unacked slices with which a chunk is near its end. With
	// more, the ack of a first transmission may look like that of a second one.
	fewLeft = 32
)

// resend decides when a slice is sent again.
//
// A slice is late if its ack has not arrived within the delay: the round trip times 1.25,
// as in the article. If a slice that was sent later is acked, the late slice is probably
// lost and is resent.
//
// Otherwise the path may have become slower, or its queue longer. Then the slice waits as
// long as acks of others arrive (RFC 6298, section 5.3). Each time slices are resent for
// want of an ack, the delay doubles (5.5), until an ack gives a round trip (5.7).
//
// A driver that sets the round trip (SetRTT) gets the article's delay as it is.
type resend struct {
	first    time.Duration // delay while the RTT is unknown (Config.ResendDelay)
	ackDelay time.Duration // Config.AckDelay

	// Round trip.
	rtt        time.Duration // smoothed; 0 = unknown
	latest     time.Duration // latest sample, which follows a growing queue; 0 = none
	minRTT     time.Duration // smallest sample; 0 = none
	fixedRTT   bool          // the owner has set rtt, so samples are ignored
	rttIsBound bool          // rtt is only a bound, which the first sample replaces

	ambiguous int           // slices in a row that were acked only after they were resent
	lastExact time.Duration // when ambiguous was last 0

	// Backoff.
	timeouts    int           // timeouts in a row
	lastTimeout time.Duration // when the last timeout was; slices sent before it belong to it

	// Acks.
	overtaken uint64        // slices with a smaller order were overtaken by an acked slice
	lastAcked time.Duration // when a slice was last acked
	noAck     time.Duration // when the first slice since the last ack was sent; never = none
	lastSent  time.Duration // when a slice was last sent; never = none was
}

func newResend(c Config) resend {
	return resend{
		first:     c.ResendDelay,
		ackDelay:  c.AckDelay,
		lastAcked: -maxDelay,
		noAck:     never,
		lastSent:  never,
	}
}

// forget resets everything that depends on the path.
func (r *resend) forget() {
	r.rtt, r.latest, r.minRTT = 0, 0, 0
	r.fixedRTT, r.rttIsBound = false, false
	r.ambiguous = 0
	r.timeouts, r.lastTimeout = 0, 0
	r.onAck()
}

// setRTT sets the round trip that the owner knows. 0 returns to samples.
func (r *resend) setRTT(rtt time.Duration) {
	r.rtt = min(max(rtt, 0), maxDelay)
	r.fixedRTT = rtt > 0
	r.rttIsBound = false
	r.latest = 0
	r.timeouts = 0
}

// delay returns the time that a slice waits for its ack. It is RTT * 1.25 as in the
// article, and longer on short paths, because the receiver may delay its ack.
func (r *resend) delay() time.Duration {
	if r.rtt == 0 {
		return r.first
	}
	return r.rtt + max((r.rtt+3)/4, r.ackDelay+ackSlack)
}

// patience returns the time that a slice that was not overtaken waits for its ack,
// after a number of timeouts in a row. If the round trip grows, patience follows the
// latest sample at once.
func (r *resend) patience(timeouts int) time.Duration {
	d := r.delay() + max(r.latest-r.rtt, 0)*5/4
	if r.minRTT > 0 {
		timeouts -= sparedTimeouts
	}
	return max(d, min(d<<max(timeouts, 0), max(maxPatience, 2*d)))
}

// due returns the time at which a slice that waits for its ack must be resent. left is the
// number of unacked slices in its chunk.
func (r *resend) due(s *sentSlice, left int) time.Duration {
	if r.fixedRTT || s.order < r.overtaken {
		return s.sent + r.delay()
	}
	timeouts := r.timeouts
	if s.sent < r.lastTimeout {
		timeouts--
	}

	// Wait until no ack has arrived for a while. While the path carries slices, their acks
	// are no further apart than this.
	restart := max(r.delay()/8, r.ackDelay+ackSlack)
	if left > fewLeft && s.resent {
		restart = r.delay()
	}
	return max(s.sent+r.patience(timeouts), r.lastAcked+restart)
}

// onResend records that a slice that waited for its ack is resent. It counts a timeout unless
// the slice was sent before the last timeout, to which it then belongs.
func (r *resend) onResend(s *sentSlice, now time.Duration) {
	if !r.fixedRTT && s.order >= r.overtaken && s.sent >= r.lastTimeout {
		r.timeouts = min(r.timeouts+1, maxBackoff)
		r.lastTimeout = now
	}
}

// onSend records that a slice is sent.
func (r *resend) onSend(now time.Duration) {
	r.lastSent = now
	r.noAck = min(r.noAck, now)
}

// onAck records that an ack arrived.
func (r *resend) onAck() { r.noAck = never }

// silent reports whether the path seems to be gone, or the peer's application no longer
// takes chunks. The sender then only probes, with one slice at a time.
func (r *resend) silent(now time.Duration) bool {
	return r.noAck != never && now-r.noAck >= silentAfter*r.delay()
}

// nextProbe returns the time at which the next slice may be sent while the path is silent.
func (r *resend) nextProbe() time.Duration { return r.lastSent + r.patience(r.timeouts) }

// A sample is what one ack says about the round trip. never means that it says nothing.
type sample struct {
	// Shortest time since an acked slice was sent, among slices that were sent once.
	exact time.Duration
	// Shortest time since an acked slice was sent for the last time but one, or for the
	// first time if it was sent once.
	bound time.Duration
}

// onSliceAcked handles the first ack of a slice. left is the number of unacked slices in its chunk,
// including this one.
//
// If the slice was sent several times, the last transmission counts as acked. But if that
// was less than the smallest round trip ago, an earlier transmission must have arrived.
func (r *resend) onSliceAcked(slice *sentSlice, now time.Duration, left int, s *sample) {
	if slice.state == unsent {
		return
	}
	r.lastAcked = now
	s.bound = min(s.bound, max(now-slice.before, 1))
	if slice.resent {
		r.ambiguous++
		if r.minRTT == 0 || now-slice.sent < r.minRTT {
			return
		}
	} else {
		r.ambiguous = 0
		r.lastExact = now
		s.exact = min(s.exact, max(now-slice.sent, 1))
	}
	r.overtaken = max(r.overtaken, slice.order)
	if now-slice.sent <= r.delay() && left <= fewLeft {
		r.timeouts = 0
	}
}

// measure applies a sample.
//
// The ack of a slice that was sent several times does not give the round trip (Karn's rule,
// RFC 6298, section 3). But while none is known, or the known one is bogus, the ack gives a
// bound: the time since the last transmission but one. The last transmission was
// unnecessary, because the delay was too short.
func (r *resend) measure(s sample) {
	switch {
	case r.fixedRTT || s.bound == never:
	case s.exact != never:
		r.update(min(s.exact, maxDelay))
	case r.rtt == 0, r.isBogus(), r.tooShort(s.bound):
		r.rtt, r.rttIsBound = min(s.bound, maxDelay), true
		r.latest, r.minRTT = 0, 0
		r.timeouts = 0
		r.ambiguous, r.lastExact = 0, r.lastAcked
	case r.rttIsBound:
		r.rtt = min(r.rtt, s.bound)
	}
}

// isBogus reports whether the measured round trip is bogus, because slices are acked only
// after they were resent although the delay has grown to its maximum.
func (r *resend) isBogus() bool { return r.timeouts == maxBackoff && r.ambiguous >= bogusAfter }

// tooShort reports whether slices were resent unnecessarily for a long time because the
// delay is too short. bound is that of the latest sample. A longer bound indicates an
// outage, or a full receiver.
func (r *resend) tooShort(bound time.Duration) bool {
	return r.ambiguous >= bogusAnyway && r.lastAcked-r.lastExact >= bogusTime &&
		bound < min(16*r.delay(), maxPatience)
}

// update applies a sample from a slice that was sent once, which is certain.
func (r *resend) update(rtt time.Duration) {
	if r.rtt == 0 || r.rttIsBound {
		r.rtt, r.rttIsBound = rtt, false
	}
	r.rtt = max(r.rtt+(rtt-r.rtt)/8, 1)
	r.latest = rtt
	r.timeouts = 0
	if r.minRTT == 0 || rtt < r.minRTT {
		r.minRTT = rtt
	}
}
