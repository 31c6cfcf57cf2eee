package chunk

import "time"

const (
	// ackSlack is how much longer than Config.AckDelay we allow for the peer's delay, because
	// timers at both ends fire a little late.
	ackSlack = 5 * time.Millisecond

	// silentAfter is how many resend delays must pass without any ack until the sender only
	// probes. At 50 % loss in both directions, a slice and its ack fail eight times in a row
	// once in ten.
	silentAfter = 8
	// maxPatience limits the delay that results from doubling, so that the sender soon notices
	// when an outage ends. Where the delay is longer to begin with, it doubles just once.
	maxPatience = time.Second
	// sparedTimeouts is how many timeouts in a row do not double a measured delay. With a chunk
	// of one slice, at 20 % loss in both directions, three fail in a row once in 20. Doubling
	// from the first one made such chunks take 1.5 times as long.
	sparedTimeouts = 2
	// maxBackoff is where timeouts stop counting. That limits the delay to 16 times the shortest
	// one, or 64 times while the round trip is unknown.
	maxBackoff = 4 + sparedTimeouts
	// bogusAfter is how many slices in a row must be acked only after they were resent, although
	// the delay is at its longest, until we conclude that the measured round trip is bogus (end
	// of RFC 6298, section 5). At 50 % loss in both directions that happens by chance once in
	// a hundred.
	bogusAfter = 16
	// bogusAnyway is the number that suffices even before the delay has reached its maximum, if
	// they have taken at least bogusTime. When a path becomes ten times as long, the delay never
	// reaches its maximum, because each ack arrives soon after one of the transmissions and ends
	// the backoff.
	bogusAnyway = 64
	bogusTime   = time.Second
	// fewLeft is how many unacked slices a chunk has when it is near its end. As long as there are
	// more, the ack of a first transmission may look like that of a second one.
	fewLeft = 32
)

// A resend is the sender's retransmission timer, which decides when a slice is sent again.
//
// A slice is late if its ack has not arrived within the delay: the round trip times 1.25, as in
// the article. If a slice that was sent after it has been acked, the late one is probably lost and
// is resent.
//
// Otherwise the path may only have become slower, or its queue longer. The slice then waits for
// as long as acks of others keep arriving (RFC 6298, section 5.3). Whenever slices are resent for
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
	rttIsBound bool          // rtt is only an upper bound, until there's a sample

	// Evidence that rtt is bogus.
	ambiguous int           // slices in a row that were acked only after they were resent
	lastExact time.Duration // when ambiguous was last 0

	// Backoff.
	timeouts    int           // timeouts in a row
	lastTimeout time.Duration // when the last one was; slices sent before it belong to it

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

// forget forgets everything we've learned about the path.
func (r *resend) forget() {
	r.rtt, r.latest, r.minRTT = 0, 0, 0
	r.fixedRTT, r.rttIsBound = false, false
	r.ambiguous = 0
	r.timeouts, r.lastTimeout = 0, 0
	r.onAck()
}

// setRTT sets the round trip, which the owner knows. With 0 we measure it again.
func (r *resend) setRTT(rtt time.Duration) {
	r.rtt = min(max(rtt, 0), maxDelay)
	r.fixedRTT = rtt > 0
	r.rttIsBound = false
	r.latest = 0
	r.timeouts = 0
}

// delay returns how long a slice may wait for its ack before it's late. That is RTT * 1.25, as in
// the article, but longer on a short path, because the receiver may delay its ack.
func (r *resend) delay() time.Duration {
	if r.rtt == 0 {
		return r.first
	}
	return r.rtt + max((r.rtt+3)/4, r.ackDelay+ackSlack)
}

// patience returns how long a slice waits for its ack if it was not overtaken, given the number of
// timeouts in a row. When the round trip grows, it follows the latest sample at once, while the
// smoothed round trip takes longer.
func (r *resend) patience(timeouts int) time.Duration {
	d := r.delay() + max(r.latest-r.rtt, 0)*5/4
	if r.minRTT > 0 {
		timeouts -= sparedTimeouts
	}
	return max(d, min(d<<max(timeouts, 0), max(maxPatience, 2*d)))
}

// due returns when a slice that waits for its ack must be resent. left is how many slices of its
// chunk are unacked.
func (r *resend) due(s *sentSlice, left int) time.Duration {
	if r.fixedRTT || s.order < r.overtaken {
		return s.sent + r.delay()
	}
	timeouts := r.timeouts
	if s.sent < r.lastTimeout {
		timeouts-- // the last timeout was for this slice, too
	}

	// Wait until no ack has arrived for a while. As long as the path carries slices, their acks
	// are no further apart than this.
	restart := max(r.delay()/8, r.ackDelay+ackSlack)
	if left > fewLeft && s.resent {
		restart = r.delay()
	}
	return max(s.sent+r.patience(timeouts), r.lastAcked+restart)
}

// onResend is called when a slice is resent for want of an ack. That counts as a timeout, unless
// the slice was overtaken or belongs to the last timeout because it was sent before that.
func (r *resend) onResend(s *sentSlice, now time.Duration) {
	if !r.fixedRTT && s.order >= r.overtaken && s.sent >= r.lastTimeout {
		r.timeouts = min(r.timeouts+1, maxBackoff)
		r.lastTimeout = now
	}
}

// onSend is called when a slice is sent, for the first time or again.
func (r *resend) onSend(now time.Duration) {
	r.lastSent = now
	r.noAck = min(r.noAck, now)
}

// onAck is called when an ack arrives, or when there's another reason not to call the path silent.
func (r *resend) onAck() { r.noAck = never }

// silent reports whether acks have stopped arriving, because the path is gone or the peer's
// application no longer takes chunks. The sender then only probes, with one slice at a time.
func (r *resend) silent(now time.Duration) bool {
	return r.noAck != never && now-r.noAck >= silentAfter*r.delay()
}

// nextProbe returns when the next slice may be sent while the path is silent.
func (r *resend) nextProbe() time.Duration { return r.lastSent + r.patience(r.timeouts) }

// A sample is what one ack tells us about the round trip. Where it tells us nothing, it is never.
type sample struct {
	// exact is the shortest time since an acked slice was sent, among those sent once.
	exact time.Duration
	// bound is the shortest time since an acked slice was sent for the last time but one, or for
	// the first time if it was sent once.
	bound time.Duration
}

// onSliceAcked is called on the first ack of a slice. left is how many slices of its chunk are
// unacked, including this one.
//
// If the slice was sent several times, we assume that the ack is for the last transmission. If
// that was sent less than the minimum round trip ago, the ack must be for an earlier one.
func (r *resend) onSliceAcked(slice *sentSlice, now time.Duration, left int, s *sample) {
	if slice.state == unsent {
		return
	}
	r.lastAcked = now
	s.bound = min(s.bound, max(now-slice.before, 1))
	if !slice.resent {
		r.ambiguous = 0
		r.lastExact = now
		s.exact = min(s.exact, max(now-slice.sent, 1))
	} else {
		r.ambiguous++
		if r.minRTT == 0 || now-slice.sent < r.minRTT {
			return // an earlier transmission has arrived, for all we know
		}
	}
	r.overtaken = max(r.overtaken, slice.order)
	if now-slice.sent <= r.delay() && left <= fewLeft {
		r.timeouts = 0
	}
}

// measure applies a sample.
//
// The ack of a slice that was sent several times does not give the round trip (Karn's rule,
// RFC 6298, section 3). But if we know none, or the one we know is bogus, we take a bound from it:
// the time since the last transmission but one. The last one was unnecessary, because the delay
// was too short.
func (r *resend) measure(s sample) {
	switch {
	case r.fixedRTT || s.bound == never:
		// Either we don't need the sample or it has none for us.
	case s.exact != never:
		r.update(min(s.exact, maxDelay))
	case r.rtt == 0, r.isBogus(), r.tooShort(s.bound):
		// Start over from the bound.
		r.rtt, r.rttIsBound = min(s.bound, maxDelay), true
		r.latest, r.minRTT = 0, 0
		r.timeouts = 0
		r.ambiguous, r.lastExact = 0, r.lastAcked
	case r.rttIsBound:
		r.rtt = min(r.rtt, s.bound)
	}
}

// isBogus reports whether the measured round trip is bogus, since slices are acked only after they
// were resent although the delay has grown to its maximum.
func (r *resend) isBogus() bool { return r.timeouts == maxBackoff && r.ambiguous >= bogusAfter }

// tooShort reports whether the delay is too short, since slices have been resent unnecessarily for
// a long time. bound is that of the latest sample. A long bound more likely means an outage or a
// full receiver.
func (r *resend) tooShort(bound time.Duration) bool {
	return r.ambiguous >= bogusAnyway && r.lastAcked-r.lastExact >= bogusTime &&
		bound < min(16*r.delay(), maxPatience)
}

// update applies a round trip that is certain, because the slice was sent once.
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
