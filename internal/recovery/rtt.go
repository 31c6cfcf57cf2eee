package recovery

import "time"

const (
	// initialRTT is what we assume before the first sample. It's typical of a game's path, whereas
	// RFC 9002, section 6.2.2 has 333 ms.
	initialRTT = 100 * time.Millisecond

	minRTTLifetime = 10 * time.Second     // after a pause this long, the next sample replaces Min
	minVariance    = 2 * time.Millisecond // least 4*Variance in a PTO; kGranularity, 1 ms, in RFC 9002
	maxPTO         = time.Second          // what Backoff doubles a PTO to on a short path
	maxDoublings   = 16                   // keeps Backoff from overflowing

	// evenProbes is how many probes are sent one PTO apart as long as we know no round trip. With
	// that many, a Hello arrives within rpc.Config.HelloTimeout even if several in a row are lost.
	// If the PTO doubled right away, there would be time for only three
	// (rpctest.TestJoinsThroughBursts).
	evenProbes = 6

	// heldTrips is how many smoothed round trips a sample may count for if an outage has delayed
	// it.
	heldTrips = 4
)

// RTT is a round-trip estimator as in RFC 9002, section 5, with one difference: the minimum
// expires after a pause or a drain, so that we notice when the path gets longer. All fields are
// 0 before the first sample or Assume. Times are on the owner's clock, counted from any fixed
// instant.
type RTT struct {
	Latest             time.Duration
	Adjusted           time.Duration // Latest without the peer's ack delay
	Smoothed, Variance time.Duration

	// The minimum of recent samples. It expires after 10 s without a sample, or when the owner
	// drains (see Gate).
	Min       time.Duration
	minAt     time.Duration // when Min was measured
	sampledAt time.Duration // when the latest sample was added
	MinEver   time.Duration // the minimum of all samples

	// Packets that were sent before an outage ended.
	held    time.Duration // when it ended
	maxHeld time.Duration // what a sample of theirs counts for at most; 0 if there was no outage

	// Recent is the minimum of Adjusted in the latest full batch, which has 8 samples, or all of a
	// round trip if there are more. This filters out jitter but not a standing queue. It is 0
	// before the first batch is full.
	Recent   time.Duration
	Rounds   int           // how many batches were full so far
	fresh    time.Duration // minimum Adjusted of the batch that began at freshAt
	freshAt  time.Duration
	freshFor int // how many samples that batch has
}

// recentSamples is how many samples it takes to tell a queue from jitter. If delays are spread
// evenly from 0 to some maximum, the minimum of 8 is a ninth of the maximum on average.
const recentSamples = 8

// Known reports whether there is an estimate, measured or assumed.
func (r *RTT) Known() bool { return r.Smoothed != 0 }

// Assume drops all samples, and begins with what other packets have measured on the same path.
func (r *RTT) Assume(smoothed, variance time.Duration) {
	*r = RTT{Latest: smoothed, Adjusted: smoothed, Smoothed: smoothed, Variance: variance}
}

// Held is called when an ack ends an outage. Packets sent before now may have been waiting
// somewhere, and we mustn't take that wait for a round trip: after an interruption of 20 s, the
// probe timeout would be just as long.
//
// We can't ignore their samples, since the path may really have become longer. But they count
// for no more than heldTrips round trips, or for least if that's longer.
func (r *RTT) Held(now, least time.Duration) {
	if r.Known() {
		r.held = now
		r.maxHeld = max(heldTrips*r.Smoothed, least)
	}
}

// Update adds a sample. delay is the peer's ack delay, which the caller has bounded, or 0 if
// unknown.
//
// Because delays are rounded, subtracting one may get us a microsecond below Min. In that case
// we use Min. RFC 9002, section 5.3 would ignore the delay, but then the sample would look like
// a queue.
func (r *RTT) Update(now, sample, delay time.Duration) {
	sample = max(sample, time.Microsecond)
	r.Latest = sample
	held := r.maxHeld > 0 && now-sample < r.held
	if held {
		sample = min(sample, r.maxHeld)
	}
	if r.Min == 0 || sample <= r.Min || !held && now-r.sampledAt > minRTTLifetime {
		r.Min = sample
		r.minAt = now
	}
	r.sampledAt = now
	if r.MinEver == 0 || sample < r.MinEver {
		r.MinEver = sample
	}
	r.Adjusted = max(sample-delay, r.Min)
	r.gather(now)
	if !r.Known() {
		r.Smoothed = r.Adjusted
		r.Variance = r.Adjusted / 2
		return
	}
	r.Variance += ((r.Smoothed - r.Adjusted).Abs() - r.Variance) / 4
	r.Smoothed += (r.Adjusted - r.Smoothed) / 8
}

// gather adds Adjusted to the current batch, and ends the batch when it is full.
func (r *RTT) gather(now time.Duration) {
	if r.freshFor == 0 {
		r.fresh = r.Adjusted
		r.freshAt = now
	}
	r.fresh = min(r.fresh, r.Adjusted)
	r.freshFor++
	if r.freshFor >= recentSamples && now-r.freshAt >= r.Smoothed {
		r.Recent = r.fresh
		r.freshFor = 0
		r.Rounds++
	}
}

// Current returns the smoothed round trip, or initialRTT if we know none.
func (r *RTT) Current() time.Duration {
	if !r.Known() {
		return initialRTT
	}
	return r.Smoothed
}

// PTO returns the probe timeout (RFC 9002, section 6.2.1). delay is how long the peer may delay
// an ack.
func (r *RTT) PTO(delay time.Duration) time.Duration {
	if !r.Known() {
		return 2*initialRTT + delay
	}
	return r.Smoothed + max(4*r.Variance, minVariance) + delay
}

// Backoff returns the PTO after some timeouts in a row. delay is as for PTO.
//
// The PTO doubles with each timeout, but only up to a second, or up to three round trips on a
// long path, so that we soon notice when an outage is over. As long as we know no round trip, it
// doesn't double before evenProbes timeouts.
func (r *RTT) Backoff(timeouts int, delay time.Duration) time.Duration {
	if !r.Known() {
		timeouts = max(0, timeouts-evenProbes)
	}
	pto := r.PTO(delay)
	return min(pto<<min(timeouts, maxDoublings), max(maxPTO, 3*r.Current(), pto))
}
