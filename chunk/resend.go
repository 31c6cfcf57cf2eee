package chunk

import "time"

const (
	// ackSlack is how much longer than Config.AckDelay the peer may delay its ack, because timers
	// at both ends fire a little late.
	ackSlack = 5 * time.Millisecond

	// silentAfter is the number of resend delays without any ack after which the sender only
	// probes. At 50 % loss in both directions, it happens by chance once in ten that a slice or its
	// ack is lost eight times in a row.
	silentAfter = 8
	// maxPatience limits the delay that results from doubling, so that the sender soon notices
	// when an outage ends. A delay that is longer to begin with doubles just once.
	maxPatience = time.Second
	// sparedTimeouts is the number of timeouts in a row that do not double a measured delay. At 20
	// % loss in both directions, a chunk of one slice has three timeouts in a row once in 20, so
	// that more than two suggest another cause than loss. Doubling from the first one would make
	// such chunks take 1.5 times as long.
	sparedTimeouts = 2
	// maxBackoff is the number at which timeouts stop counting. It limits the delay to 16 times the
	// shortest one, or 64 times while the round-trip time is unknown.
	maxBackoff = 4 + sparedTimeouts
	// bogusAfter is the number of consecutive slices that must be acked only after they were
	// resent, although the delay is at its maximum, before the measured round-trip time counts as
	// bogus (end of RFC 6298, section 5). At 50 % loss in both directions, that happens by chance
	// once in a hundred.
	bogusAfter = 16
	// bogusAnyway is the number that suffices before the delay has reached its maximum, if at least
	// bogusTime has passed. When a path becomes ten times as long, the delay never reaches its
	// maximum, because each ack arrives soon after one of the transmissions and ends the backoff.
	bogusAnyway = 64
	bogusTime   = time.Second
	// fewLeft is the number of unacked slices at which a chunk is near its end. As long as there
	// are more, the ack of a first transmission may look like that of a second one.
	fewLeft = 32
)

// A resend is the sender's retransmission timer, which decides when a slice is resent.
//
// A slice is late if its ack has not arrived within the delay, which is 1.25 round-trip times, as
// in the article. If a slice that was sent later has been acked, the late one is probably lost and
// therefore resent.
//
// Otherwise the path may merely have become slower, or its queue longer. The slice then waits as
// long as acks of other slices keep arriving (RFC 6298, section 5.3). Whenever slices are resent
// because acks are missing, the delay doubles (5.5), until an ack gives a round-trip time (5.7).
//
// If the driver sets the round-trip time (SetRTT), the article's delay applies unchanged.
type resend struct {
	first    time.Duration // delay while the RTT is unknown (Config.ResendDelay)
	ackDelay time.Duration // Config.AckDelay

	// Round-trip time.
	rtt        time.Duration // smoothed; 0 if unknown
	latest     time.Duration // latest sample, which follows a growing queue; 0 if there is none
	minRTT     time.Duration // smallest sample; 0 if there is none
	fixedRTT   bool          // SetRTT has set rtt, so samples are ignored
	rttIsBound bool          // rtt is only an upper bound, until there is a sample

	// Evidence that rtt is bogus.
	ambiguous int           // consecutive slices that were acked only after they were resent
	lastExact time.Duration // when ambiguous was last 0

	// Backoff.
	timeouts    int           // consecutive timeouts
	lastTimeout time.Duration // time of the latest timeout, which covers the slices sent before

	// Acks.
	overtaken uint64        // slices with a smaller order were overtaken by an acked slice
	lastAcked time.Duration // when a slice was last acked
	noAck     time.Duration // when the first slice since the latest ack was sent; never if none
	lastSent  time.Duration // when a slice was last sent; never if none was
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

// forget discards everything that was learned about the path.
func (r *resend) forget() {
	r.rtt, r.latest, r.minRTT = 0, 0, 0
	r.fixedRTT, r.rttIsBound = false, false
	r.ambiguous = 0
	r.timeouts, r.lastTimeout = 0, 0
	r.onAck()
}

// setRTT sets the round-trip time to one that the owner knows. If it's 0, it's measured again.
func (r *resend) setRTT(rtt time.Duration) {
	r.rtt = min(max(rtt, 0), maxDelay)
	r.fixedRTT = rtt > 0
	r.rttIsBound = false
	r.latest = 0
	r.timeouts = 0
}

// delay returns how long a slice may wait for its ack before it's late. That is 1.25 round-trip
// times, as in the article, but longer on a short path because the receiver may delay its ack.
func (r *resend) delay() time.Duration {
	if r.rtt == 0 {
		return r.first
	}
	return r.rtt + max((r.rtt+3)/4, r.ackDelay+ackSlack)
}

// patience returns how long a slice that wasn't overtaken waits for its ack, given the number of
// consecutive timeouts. When the round-trip time grows, patience follows the latest sample, because
// the smoothed round-trip time grows too slowly.
func (r *resend) patience(timeouts int) time.Duration {
	d := r.delay() + max(r.latest-r.rtt, 0)*5/4
	if r.minRTT > 0 {
		timeouts -= sparedTimeouts
	}
	return max(d, min(d<<max(timeouts, 0), max(maxPatience, 2*d)))
}

// due returns when a slice that is waiting for its ack must be resent. left is the number of
// unacked slices of its chunk.
func (r *resend) due(s *sentSlice, left int) time.Duration {
	if r.fixedRTT || s.order < r.overtaken {
		return s.sent + r.delay()
	}
	timeouts := r.timeouts
	if s.sent < r.lastTimeout {
		timeouts-- // the latest timeout covered this slice as well
	}

	// Wait until no ack has arrived for a while, because as long as the path carries slices, their
	// acks are no further apart than this.
	restart := max(r.delay()/8, r.ackDelay+ackSlack)
	if left > fewLeft && s.resent {
		restart = r.delay()
	}
	return max(s.sent+r.patience(timeouts), r.lastAcked+restart)
}

// onResend is called when a slice is resent because its ack is missing. That counts as a timeout
// unless the slice was overtaken or sent before the latest timeout, which then covers it.
func (r *resend) onResend(s *sentSlice, now time.Duration) {
	if !r.fixedRTT && s.order >= r.overtaken && s.sent >= r.lastTimeout {
		r.timeouts = min(r.timeouts+1, maxBackoff)
		r.lastTimeout = now
	}
}

// onSend is called when a slice is sent or resent.
func (r *resend) onSend(now time.Duration) {
	r.lastSent = now
	r.noAck = min(r.noAck, now)
}

// onAck is called when an ack arrives, or when there is another reason to believe that the path
// isn't silent.
func (r *resend) onAck() { r.noAck = never }

// silent reports whether acks have stopped arriving, because the path is gone or the peer's
// application no longer takes chunks. The sender then only probes, with one slice at a time.
func (r *resend) silent(now time.Duration) bool {
	return r.noAck != never && now-r.noAck >= silentAfter*r.delay()
}

// nextProbe returns when the next slice may be sent while the path is silent.
func (r *resend) nextProbe() time.Duration { return r.lastSent + r.patience(r.timeouts) }

// A sample is what one ack tells about the round-trip time. A field about which it tells nothing is
// never.
type sample struct {
	// exact is the shortest time since an acked slice was sent, among slices that were sent once.
	exact time.Duration
	// bound is the shortest time since the transmission before the last one of an acked slice, or
	// since the only one.
	bound time.Duration
}

// onSliceAcked is called on the first ack of a slice. left is the number of unacked slices of its
// chunk, including this one.
//
// If the slice was sent several times, the ack is assumed to be for the last transmission, unless
// less than the minimum round-trip time has passed since that.
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
			return // the ack may be for an earlier transmission
		}
	}
	r.overtaken = max(r.overtaken, slice.order)
	if now-slice.sent <= r.delay() && left <= fewLeft {
		r.timeouts = 0
	}
}

// measure applies a sample.
//
// The ack of a slice that was sent several times does not give the round-trip time (Karn's
// algorithm, RFC 6298, section 3). But if the round-trip time is unknown or bogus, the time since
// the transmission before the last one is an upper bound, assuming that the last one was
// unnecessary because the delay was too short.
func (r *resend) measure(s sample) {
	if r.fixedRTT || s.bound == never {
		return // the sample isn't needed, or is empty
	}
	switch {
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

// isBogus reports whether the measured round-trip time is bogus, because slices are acked only
// after they were resent although the delay has reached its maximum.
func (r *resend) isBogus() bool { return r.timeouts == maxBackoff && r.ambiguous >= bogusAfter }

// tooShort reports whether the delay is too short, because slices have been resent unnecessarily
// for a long time. bound is that of the latest sample. A long bound is more likely to mean an
// outage or a full receiver.
func (r *resend) tooShort(bound time.Duration) bool {
	return r.ambiguous >= bogusAnyway && r.lastAcked-r.lastExact >= bogusTime &&
		bound < min(16*r.delay(), maxPatience)
}

// update applies a sample that is exact because the slice was sent once.
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
