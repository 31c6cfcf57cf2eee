package recovery

import "time"

const (
	initialRTT     = 100 * time.Millisecond // before the first sample; a game's path, not RFC 9002's 333 ms
	minRTTLifetime = 10 * time.Second
	minVariance    = 2 * time.Millisecond
	maxPTO         = time.Second
	maxDoublings   = 16
)

// RTT follows RFC 9002, section 5; its minimum expires so that a changed path is seen. All are 0 before the first sample.
type RTT struct {
	Latest             time.Duration
	Adjusted           time.Duration // the latest without what the peer waited
	Smoothed, Variance time.Duration

	Min   time.Duration // of the last 10 s
	minAt time.Duration
	Least time.Duration // ever
}

// Known reports whether there was a sample.
func (r *RTT) Known() bool { return r.Smoothed != 0 }

// Update takes a sample; delay is what the peer says it waited, already bounded, 0 = it does not say. Delays are rounded: one
// that leaves a microsecond less than the least round trip leaves that, where RFC 9002 (5.3) takes the sample as it is, which
// looks like a queue.
func (r *RTT) Update(now, sample, delay time.Duration) {
	sample = max(sample, time.Microsecond)
	r.Latest = sample
	if r.Min == 0 || sample <= r.Min {
		r.Min, r.minAt = sample, now
	}
	if r.Least == 0 || sample < r.Least {
		r.Least = sample
	}
	r.Adjusted = max(sample-delay, r.Min)
	if !r.Known() {
		r.Smoothed, r.Variance = r.Adjusted, r.Adjusted/2
		return
	}
	r.Variance += ((r.Smoothed - r.Adjusted).Abs() - r.Variance) / 4
	r.Smoothed += (r.Adjusted - r.Smoothed) / 8
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
// that the end of an outage is seen soon.
func (r *RTT) Backoff(timeouts int, delay time.Duration) time.Duration {
	pto := r.PTO(delay)
	return min(pto<<min(timeouts, maxDoublings), max(maxPTO, 3*r.Current(), pto))
}
