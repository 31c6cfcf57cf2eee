package chunk

import "time"

const (
	// ackSlack is added to Config.AckDelay before a slice counts as late: timers of both ends fire a little late.
	ackSlack = 5 * time.Millisecond

	// silentAfter is how many resend delays may pass without any ack before the sender only probes. At 50 % loss both ways
	// a slice and its ack fail eight times in a row once in ten.
	silentAfter = 8
	// maxPatience bounds the delay that doubling makes, so that the end of an outage is seen soon. On a path whose delay is longer, it
	// doubles once.
	maxPatience = time.Second
	// sparedTimeouts is how many timeouts in a row do not double a delay that was measured. On a chunk of one slice, at 20 % loss both ways,
	// three fail in a row once in 20; doubling from the first one on made such chunks take 1.5 times as long.
	sparedTimeouts = 2
	// maxBackoff makes the longest delay 16 times the shortest, or 64 times while the round trip is not known.
	maxBackoff = 4 + sparedTimeouts
	// bogusAfter is how many slices in a row must be acked only after they were sent again, at the longest delay, until the measured round
	// trip counts as bogus (RFC 6298, section 5, at its end). At 50 % loss both ways that happens by chance once in a hundred.
	bogusAfter = 16
	// bogusAnyway is as many at any delay, if they took longer than bogusTime. On a path that has become ten times as long each ack comes soon
	// after some sending, and so ends the backing off.
	bogusAnyway = 64
	bogusTime   = time.Second
	// fewLeft is with how many slices left a chunk is near its end. With more, the ack of a first sending may look like that of a second
	// one.
	fewLeft = 32
)

// resend decides when a slice is sent again.
//
// A slice is late when its ack has not come within the delay: the round trip times 1.25, as in the article. If a slice that was sent
// later is acked, the late one is probably lost. Otherwise the path may have become slower, or its queue longer. Then the slice
// waits as long as acks of others keep coming (RFC 6298, section 5.3), and each time that slices are sent again for want of an ack the delay
// doubles (5.5), until an ack tells a round trip (5.7). An owner who tells the round trip (SetRTT) gets the article's delay as it is.
type resend struct {
	first    time.Duration // the delay while the RTT is not known
	ackDelay time.Duration

	// The round trip.
	rtt    time.Duration // smoothed; 0 = not known
	latest time.Duration // the latest sample, which follows a queue that grows; 0 = none
	least  time.Duration // the least sample; 0 = none
	told   bool          // the owner told rtt, so samples do not count
	rough  bool          // rtt is only a bound, from slices sent several times; the first sample replaces it

	unclear int           // slices in a row that were acked only after they had been sent several times
	since   time.Duration // when unclear was last 0

	// Backing off.
	backoff int           // timeouts in a row
	doubled time.Duration // when the last timeout was; slices that left before are part of it

	// Acks.
	overtaken  uint64        // slices with a smaller order were overtaken by one that is acked
	news       time.Duration // when a slice was last acked
	waitingFor time.Duration // since when a slice was sent and no ack came; never = no ack is missing
	lastSent   time.Duration // when a slice last left; never = none has
}

func newResend(c Config) resend {
	return resend{first: c.ResendDelay, ackDelay: c.AckDelay, news: -maxDelay, waitingFor: never, lastSent: never}
}

// forget forgets the path.
func (r *resend) forget() {
	r.rtt, r.latest, r.least, r.told, r.rough, r.unclear, r.backoff, r.doubled = 0, 0, 0, false, false, 0, 0, 0
	r.heard()
}

// tell takes the round trip from the owner; 0 = it tells no more.
func (r *resend) tell(rtt time.Duration) {
	r.rtt, r.told, r.backoff = min(max(rtt, 0), maxDelay), rtt > 0, 0
	r.latest, r.rough = 0, false
}

// delay returns how long a slice waits for its ack: RTT * 1.25 as in the article, and longer on short paths, because the receiver may
// wait with its ack.
func (r *resend) delay() time.Duration {
	if r.rtt == 0 {
		return r.first
	}
	return r.rtt + max((r.rtt+3)/4, r.ackDelay+ackSlack)
}

// patience returns how long a slice that was not overtaken waits for its ack, after a number of timeouts in a row. When the round trip grows,
// patience follows the latest at once.
func (r *resend) patience(timeouts int) time.Duration {
	d := r.delay() + max(r.latest-r.rtt, 0)*5/4
	if r.least > 0 {
		timeouts -= sparedTimeouts
	}
	return max(d, min(d<<max(timeouts, 0), max(maxPatience, 2*d)))
}

// due returns when a slice that waits for its ack must be sent again, while left slices of its chunk are not acked.
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

// again notes that a slice that waited for its ack is sent again. Slices that left before the last timeout are part of that.
func (r *resend) again(s *sending, now time.Duration) {
	if !r.told && s.order >= r.overtaken && s.sent >= r.doubled {
		r.backoff, r.doubled = min(r.backoff+1, maxBackoff), now
	}
}

// sent notes that a slice left.
func (r *resend) sent(now time.Duration) {
	r.lastSent = now
	r.waitingFor = min(r.waitingFor, now)
}

// heard notes that an ack came.
func (r *resend) heard() { r.waitingFor = never }

// silent reports whether the path seems to be gone, or the peer's application, which takes no chunks any more. Then the sender only
// probes, with one slice at a time.
func (r *resend) silent(now time.Duration) bool {
	return r.waitingFor != never && now-r.waitingFor >= silentAfter*r.delay()
}

// nextProbe returns when the next slice may leave while the path is silent.
func (r *resend) nextProbe() time.Duration { return r.lastSent + r.patience(r.backoff) }

// sample is what one ack tells about the round trip.
type sample struct {
	clean time.Duration // the shortest time since a slice was sent that it acks and that was sent once; never = none
	bound time.Duration // the shortest time since the last sending but one of a slice that it acks; never = none
}

// hear takes the first ack of a slice, while left slices of its chunk were not acked. If the slice was sent several times, the last
// sending counts as acked, unless that was shorter ago than the least round trip.
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
		return // an earlier sending arrived
	}
	r.overtaken = max(r.overtaken, slice.order)
	if now-slice.sent <= r.delay() && left <= fewLeft {
		r.backoff = 0
	}
}

// measure takes a sample. By Karn's rule (RFC 6298, section 3) the ack of a slice that was sent several times does not tell the round
// trip. But while no better one is known, or the known one is bogus, it gives a bound: the time since the last sending but one,
// because the delay was too short for that.
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

// tooShort reports whether slices have been sent again for long without need, by the bound of the latest. A longer one tells of an outage, or of a
// receiver that is full.
func (r *resend) tooShort(bound time.Duration) bool {
	return r.unclear >= bogusAnyway && r.news-r.since >= bogusTime && bound < min(16*r.delay(), maxPatience)
}

// clean takes a round trip that is certain.
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
