package recovery

import "time"

const (
	initialRTT     = 100 * time.Millisecond // before the first sample; a game's path, not RFC 9002's 333 ms
	minRTTLifetime = 10 * time.Second
	minVariance    = 2 * time.Millisecond
	maxPTO         = time.Second
	maxDoublings   = 16
	// evenProbes leave one PTO apart before the first round trip is known: a Hello that losses in a row met is there within
	// rpc.Config.HelloTimeout, where doubling left three tries (rpctest.TestJoinsThroughBursts).
	evenProbes = 6
)

// RTT follows RFC 9002, section 5; its minimum expires so that a changed path is seen. All are 0 before the first sample.
type RTT struct {
	Latest             time.Duration
	Adjusted           time.Duration // the latest without what the peer waited
	Smoothed, Variance time.Duration

	Min       time.Duration // of the last 10 s
	minAt     time.Duration
	sampledAt time.Duration // when the last sample was taken
	Least     time.Duration // ever

	// Recent is the least of the last 8 samples, or of a round trip's when those are more: jitter does not show in it, a queue
	// that stands does. 0 before so many.
	Recent   time.Duration
	Rounds   int           // how often Recent was found
	fresh    time.Duration // the least since freshAt
	freshAt  time.Duration
	freshFor int // samples
}

// recentSamples is how many tell a queue from jitter: of 8 that are late by any time up to some most, the least is by a ninth of it
// in the mean.
const recentSamples = 8

// Known reports whether there was a sample.
func (r *RTT) Known() bool { return r.Smoothed != 0 }

// Assume begins anew, with what other packets showed of the path.
func (r *RTT) Assume(smoothed, variance time.Duration) {
	*r = RTT{Latest: smoothed, Adjusted: smoothed, Smoothed: smoothed, Variance: variance}
}

// Update takes a sample; delay is what the peer says it waited, already bounded, 0 = it does not say. Delays are rounded: one
// that leaves a microsecond less than the least round trip leaves that, where RFC 9002 (5.3) takes the sample as it is, which
// looks like a queue.
func (r *RTT) Update(now, sample, delay time.Duration) {
	sample = max(sample, time.Microsecond)
	r.Latest = sample
	if r.Min == 0 || sample <= r.Min || now-r.sampledAt > minRTTLifetime {
		r.Min, r.minAt = sample, now
	}
	r.sampledAt = now
	if r.Least == 0 || sample < r.Least {
		r.Least = sample
	}
	r.Adjusted = max(sample-delay, r.Min)
	r.gather(now)
	if !r.Known() {
		r.Smoothed, r.Variance = r.Adjusted, r.Adjusted/2
		return
	}
	r.Variance += ((r.Smoothed - r.Adjusted).Abs() - r.Variance) / 4
	r.Smoothed += (r.Adjusted - r.Smoothed) / 8
}

// gather adds a sample to those of which Recent will be the least.
func (r *RTT) gather(now time.Duration) {
	if r.freshFor == 0 {
		r.fresh, r.freshAt = r.Adjusted, now
	}
	r.fresh = min(r.fresh, r.Adjusted)
	if r.freshFor++; r.freshFor >= recentSamples && now-r.freshAt >= r.Smoothed {
		r.Recent, r.freshFor = r.fresh, 0
		r.Rounds++
	}
}

// Current is the smoothed round trip, or what is assumed while none is known.
func (r *RTT) Current() time.Duration {
	if !r.Known() {
		return initialRTT
	}
	return r.Smoothed
}

// PTO is the probe timeout (RFC 9002, 6.2.1); delay is the longest that the peer waits with an ack.
func (r *RTT) PTO(delay time.Duration) time.Duration {
	if !r.Known() {
		return 2*initialRTT + delay
	}
	return r.Smoothed + max(4*r.Variance, minVariance) + delay
}

// Backoff is the PTO after so many timeouts in a row. It doubles up to a second, or three round trips of a long path, so
// that the end of an outage is seen soon; before the first round trip is known, from the seventh on.
func (r *RTT) Backoff(timeouts int, delay time.Duration) time.Duration {
	if !r.Known() {
		timeouts = max(0, timeouts-evenProbes)
	}
	pto := r.PTO(delay)
	return min(pto<<min(timeouts, maxDoublings), max(maxPTO, 3*r.Current(), pto))
}
