package bunch

import "time"

const (
	initialRTT     = 100 * time.Millisecond // before the first sample; a game's path, not RFC 9002's 333 ms
	minRTTLifetime = 10 * time.Second
	minGranularity = time.Millisecond // RFC 9002: kGranularity
	minVariance    = 2 * time.Millisecond
)

// rtt follows RFC 9002, section 5; its minimum expires so that a changed path is seen.
type rtt struct {
	latest, smoothed, variance time.Duration
	path                       time.Duration // the latest without what the peer waited

	min   time.Duration // of the last 10 s
	minAt time.Duration
	all   time.Duration // minimum ever, for Stats
}

func (r *rtt) known() bool { return r.smoothed != 0 }

// update takes a sample; delay is what the peer says it waited, already bounded.
func (r *rtt) update(now, sample, delay time.Duration) {
	sample = max(sample, time.Microsecond)
	r.latest = sample
	if r.min == 0 || sample <= r.min {
		r.min, r.minAt = sample, now
	}
	if r.all == 0 || sample < r.all {
		r.all = sample
	}
	r.path = sample
	if sample-delay >= r.min {
		r.path = sample - delay
	}
	if !r.known() {
		r.smoothed, r.variance = r.path, r.path/2
		return
	}
	r.variance += (abs(r.smoothed-r.path) - r.variance) / 4
	r.smoothed += (r.path - r.smoothed) / 8
}

func abs(d time.Duration) time.Duration { return max(d, -d) }

func (r *rtt) current() time.Duration {
	if !r.known() {
		return initialRTT
	}
	return r.smoothed
}

// pto is the probe timeout (RFC 9002, 6.2.1).
func (r *rtt) pto(ackDelay time.Duration) time.Duration {
	if !r.known() {
		return 2*initialRTT + ackDelay
	}
	return r.smoothed + max(4*r.variance, minVariance) + ackDelay
}
