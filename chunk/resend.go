package chunk

import "time"

const (
	// ackSlack is added to the receiver's delay before a slice may be called late: timers of both ends fire when they do.
	ackSlack = 5 * time.Millisecond

	// silentAfter is how many resend delays may pass without any ack before the sender only probes. At 50 % loss both ways
	// a slice and its ack fail eight times in a row once in ten.
	silentAfter = 8
	// maxProbe bounds the time between two probes.
	maxProbe = time.Second

	// unclearMost is how many slices in a row may be acked only after they were sent again: at 50 % loss both ways three of
	// four are, and so many in a row once in a hundred.
	unclearMost = 16
)

// resend decides when a slice is sent again.
type resend struct {
	first    time.Duration // the delay while the RTT is not known
	ackDelay time.Duration
	rtt      time.Duration // 0 = not known
	told     bool          // by the owner: samples are not wanted
	rough    bool          // rtt is only a bound; the first measurement replaces it
	unclear  int           // slices of the latest chunks, none of which measured anything
	bound    time.Duration // the shortest that those have been under way

	waitingFor time.Duration // since when nothing was heard, though something was sent; never = nothing to wait for
	lastSent   time.Duration // never = nothing was sent yet
	probes     int
}

func newResend(c Config) resend {
	return resend{first: c.ResendDelay, ackDelay: c.AckDelay, bound: never, waitingFor: never, lastSent: never}
}

// forget forgets the path.
func (r *resend) forget() {
	r.rtt, r.told, r.rough, r.unclear, r.bound = 0, false, false, 0, never
	r.heard()
}

// delay is how long a slice waits for its ack: RTT * 1.25 as in the article, on short paths more, because the receiver takes
// its time to ack.
func (r *resend) delay() time.Duration {
	if r.rtt == 0 {
		return r.first
	}
	return r.rtt + max((r.rtt+3)/4, r.ackDelay+ackSlack)
}

// sent notes that a slice left.
func (r *resend) sent(now time.Duration) {
	if r.silent(now) {
		r.probes++
	}
	r.lastSent = now
	r.waitingFor = min(r.waitingFor, now)
}

// heard notes that an ack came.
func (r *resend) heard() { r.waitingFor, r.probes = never, 0 }

// silent reports whether the path, or the application at its end that does not take its chunks, seems to be gone. From then
// on one slice at a time goes out.
func (r *resend) silent(now time.Duration) bool {
	return r.waitingFor != never && now-r.waitingFor >= silentAfter*r.delay()
}

// nextProbe returns when the next slice may leave while the path is silent.
func (r *resend) nextProbe() time.Duration {
	wait := r.delay()
	for i := 0; i < r.probes && wait < maxProbe; i++ {
		wait *= 2
	}
	return r.lastSent + min(wait, max(maxProbe, r.delay()))
}

// sample is what one ack tells about the round trip.
type sample struct {
	clean time.Duration // the shortest since the only sending of a slice that it acks; never = none
	bound time.Duration // the shortest since the first sending of one; never = none
}

// hear adds a slice that was not acked before.
func (s *sample) hear(slice *sending, now time.Duration) {
	if slice.state == unsent {
		return
	}
	elapsed := max(now-slice.first, 1)
	s.bound = min(s.bound, elapsed)
	if !slice.resent {
		s.clean = min(s.clean, elapsed)
	}
}

// measure takes a sample. Karn's rule: the ack of a slice sent several times does not tell the round trip, only a bound.
func (r *resend) measure(s sample) {
	switch {
	case r.told || s.bound == never:
	case r.rtt == 0:
		r.rtt, r.rough = min(s.bound, maxDelay), s.clean == never
	case s.clean == never:
	case r.rough:
		r.rtt, r.rough = min(s.clean, maxDelay), false
	default:
		r.rtt = min(max(r.rtt+(s.clean-r.rtt)/8, 1), maxDelay)
	}
}

// finished takes all that the acks of one chunk told. On a path longer than the delay every slice is sent again before its
// ack can come, so nothing is ever measured; but no slice is acked before the round trip after its first sending, so the
// shortest bound of many is close to it. Only whole chunks tell: those acked last are just the unlucky ones.
func (r *resend) finished(s sample, slices int) {
	if s.clean != never {
		r.unclear, r.bound = 0, never
		return
	}
	r.unclear, r.bound = r.unclear+slices, min(r.bound, s.bound)
	if r.unclear < unclearMost {
		return
	}
	if !r.told && r.bound != never && r.bound > r.rtt {
		r.rtt, r.rough = min(r.bound, maxDelay), true
	}
	r.unclear, r.bound = 0, never
}
