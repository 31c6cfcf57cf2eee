package chunk

import "time"

const (
	// ackSlack is added to Config.AckDelay before a slice counts as late,
	// because timers at both ends fire a little late.
	ackSlack = 5 * time.Millisecond

	// silentAfter is how many resend delays may pass without any ack before the sender only probes.
	// At 50 % loss in both directions a slice and its ack fail eight times in a row once in ten.
	silentAfter = 8
	// maxPatience limits the delay that results from doubling, so that the end of
	// an outage is noticed soon. On a path with a longer delay, it doubles once.
	maxPatience = time.Second
	// sparedTimeouts is how many timeouts in a row do not double a measured delay. With
	// a chunk of one slice, at 20 % loss in both directions, three fail in a row once
	// in 20; doubling from the first one on made such chunks take 1.5 times as long.
	sparedTimeouts = 2
	// maxBackoff limits the longest delay to 16 times the shortest, or 64 times
	// while the round trip is unknown.
	maxBackoff = 4 + sparedTimeouts
	// bogusAfter is how many slices in a row must be acked only after they were sent again,
	// at the longest delay, for the measured round trip to count as bogus (end of RFC 6298,
	// section 5). At 50 % loss in both directions that happens by chance once in a hundred.
	bogusAfter = 16
	// bogusAnyway is the same number at any delay, if they took longer than
	// bogusTime. On a path that has become ten times as long, each ack arrives
	// soon after some sending, and so ends the backoff.
	bogusAnyway = 64
	bogusTime   = time.Second
	// fewLeft is with how many unacked slices a chunk is near its end. With
	// more, the ack of a first sending may look like that of a second one.
	fewLeft = 32
)

// resend decides when a slice is sent again.
//
// A slice is late if its ack has not arrived within the delay: the round trip times 1.25,
// as in the article. If a slice that was sent later is acked, the late one is probably
// lost. Otherwise the path may have become slower, or its queue longer. Then the slice
// waits as long as acks of others arrive (RFC 6298, section 5.3), and each time that slices
// are sent again for want of an ack the delay doubles (5.5), until an ack gives a round
// trip (5.7). An owner that sets the round trip (SetRTT) gets the article's delay as it is.
type resend struct {
	first    time.Duration // the delay while the RTT is unknown
	ackDelay time.Duration

	// The round trip.
	rtt    time.Duration // smoothed; 0 = unknown
	latest time.Duration // the latest sample, which follows a growing queue; 0 = none
	least  time.Duration // the least sample; 0 = none
	told   bool          // the owner has set rtt, so samples do not count
	rough  bool          // rtt is only a bound, from slices that were sent several times; the first sample replaces it

	unclear int           // slices in a row that were acked only after they were sent several times
	since   time.Duration // when unclear was last 0

	// Backing off.
	backoff int           // timeouts in a row
	doubled time.Duration // when the last timeout was; slices that were sent before belong to it

	// Acks.
	overtaken  uint64        // slices with a smaller order were overtaken by an acked one
	news       time.Duration // when a slice was last acked
	waitingFor time.Duration // since when a slice was sent and no ack has arrived; never = no ack is missing
	lastSent   time.Duration // when a slice was last sent; never = none was
}

func newResend(c Config) resend {
	return resend{first: c.ResendDelay, ackDelay: c.AckDelay, news: -maxDelay, waitingFor: never, lastSent: never}
}

// forget resets everything that depends on the path.
func (r *resend) forget() {
	r.rtt, r.latest, r.least, r.told, r.rough, r.unclear, r.backoff, r.doubled = 0, 0, 0, false, false, 0, 0, 0
	r.heard()
}

// tell sets the round trip for the owner; 0 returns to samples.
func (r *resend) tell(rtt time.Duration) {
	r.rtt, r.told, r.backoff = min(max(rtt, 0), maxDelay), rtt > 0, 0
	r.latest, r.rough = 0, false
}

// delay returns how long a slice waits for its ack: RTT * 1.25 as in the
// article, and longer on short paths, because the receiver may delay its ack.
func (r *resend) delay() time.Duration {
	if r.rtt == 0 {
		return r.first
	}
	return r.rtt + max((r.rtt+3)/4, r.ackDelay+ackSlack)
}

// patience returns how long a slice that was not overtaken waits for its ack, after a number
// of timeouts in a row. If the round trip grows, patience follows the latest sample at once.
func (r *resend) patience(timeouts int) time.Duration {
	d := r.delay() + max(r.latest-r.rtt, 0)*5/4
	if r.least > 0 {
		timeouts -= sparedTimeouts
	}
	return max(d, min(d<<max(timeouts, 0), max(maxPatience, 2*d)))
}

// due returns when a slice that waits for its ack must be sent again. left is
// how many slices of its chunk are not acked.
func (r *resend) due(s *sending, left int) time.Duration {
	if r.told || s.order < r.overtaken {
		return s.sent + r.delay()
	}
	timeouts := r.backoff
	if s.sent < r.doubled {
		timeouts--
	}
	restart := max(r.delay()/8, r.ackDelay+ackSlack) // acks of slices that the path carries in a row are no further apart
	if left > fewLeft && s.resent {
		restart = r.delay()
	}
	return max(s.sent+r.patience(timeouts), r.news+restart)
}

// again is called when a slice that waited for its ack is sent again. It counts a
// timeout, unless the slice was sent before the last one, to which it then belongs.
func (r *resend) again(s *sending, now time.Duration) {
	if !r.told && s.order >= r.overtaken && s.sent >= r.doubled {
		r.backoff, r.doubled = min(r.backoff+1, maxBackoff), now
	}
}

// sent is called when a slice is sent.
func (r *resend) sent(now time.Duration) {
	r.lastSent = now
	r.waitingFor = min(r.waitingFor, now)
}

// heard is called when an ack arrives.
func (r *resend) heard() { r.waitingFor = never }

// silent reports whether the path seems to be gone, or the peer's application, which
// no longer takes chunks. Then the sender only probes, with one slice at a time.
func (r *resend) silent(now time.Duration) bool {
	return r.waitingFor != never && now-r.waitingFor >= silentAfter*r.delay()
}

// nextProbe returns when the next slice may be sent while the path is silent.
func (r *resend) nextProbe() time.Duration { return r.lastSent + r.patience(r.backoff) }

// A sample is what one ack shows about the round trip.
type sample struct {
	// The shortest time since a slice was sent, of those acked slices that were
	// sent once; never = none.
	clean time.Duration
	bound time.Duration // the shortest time since the last sending but one of an acked slice; never = none
}

// hear handles the first ack of a slice. left is how many slices of its chunk
// were not acked. If the slice was sent several times, the last sending counts
// as acked, unless that was shorter ago than the least round trip.
func (r *resend) hear(slice *sending, now time.Duration, left int, s *sample) {
	if slice.state == unsent {
		return
	}
	r.news = now
	s.bound = min(s.bound, max(now-slice.before, 1))
	if r.unclear++; !slice.resent {
		s.clean, r.unclear, r.since = min(s.clean, max(now-slice.sent, 1)), 0, now
	}
	if slice.resent && (r.least == 0 || now-slice.sent < r.least) {
		return // an earlier sending has arrived
	}
	r.overtaken = max(r.overtaken, slice.order)
	if now-slice.sent <= r.delay() && left <= fewLeft {
		r.backoff = 0
	}
}

// measure applies a sample. By Karn's rule (RFC 6298, section 3) the ack of a
// slice that was sent several times does not give the round trip. But while
// none is known, or the known one is bogus, it gives a bound: the time since
// the last sending but one, because the delay was too short for that.
func (r *resend) measure(s sample) {
	switch {
	case r.told || s.bound == never:
	case s.clean != never:
		r.clean(min(s.clean, maxDelay))
	case r.rtt == 0, r.backoff == maxBackoff && r.unclear >= bogusAfter, r.tooShort(s.bound):
		r.rtt, r.rough, r.backoff = min(s.bound, maxDelay), true, 0
		r.unclear, r.since = 0, r.news
		r.latest, r.least = 0, 0
	case r.rough:
		r.rtt = min(r.rtt, s.bound)
	}
}

// tooShort reports whether slices have been sent again unnecessarily for a long time, according
// to the bound of the latest. A longer bound indicates an outage, or a full receiver.
func (r *resend) tooShort(bound time.Duration) bool {
	return r.unclear >= bogusAnyway && r.news-r.since >= bogusTime && bound < min(16*r.delay(), maxPatience)
}

// clean applies a round trip that is certain.
func (r *resend) clean(rtt time.Duration) {
	if r.rtt == 0 || r.rough {
		r.rtt, r.rough = rtt, false
	}
	r.rtt = max(r.rtt+(rtt-r.rtt)/8, 1)
	r.latest, r.backoff = rtt, 0
	if r.least == 0 || rtt < r.least {
		r.least = rtt
	}
}
