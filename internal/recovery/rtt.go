package recovery

import "time"

const (
	// initialRTT is the round trip that we assume before the first sample. It's typical of a
	// game's path, unlike the 333 ms of RFC 9002, section 6.2.2.
	initialRTT = 100 * time.Millisecond

	// minRTTLifetime is the pause after which the next sample replaces Min, since the path may
	// have changed. It's also the age of Min at which a Gate drains. BBR version 1 uses the same
	// time.
	minRTTLifetime = 10 * time.Second

	// minPTOMargin is the minimum of 4*Variance, by which a PTO exceeds the round trip. RFC 9002
	// has kGranularity, 1 ms.
	minPTOMargin = 2 * time.Millisecond

	// longestPTO is the maximum of PTO, without the peer's ack delay. RFC 6298, section 2.5,
	// permits a maximum of 60 s or more. Even with an honest peer, samples may be too long. Each
	// may lengthen the PTO sixfold, which would then hide the next outage.
	longestPTO = time.Minute

	// Backoff doubles the PTO up to maxPTO or maxPTOTrips round trips, whichever is longer.
	maxPTO       = time.Second
	maxPTOTrips  = 3
	maxDoublings = 16 // keeps Backoff from overflowing

	// evenProbes is the number of probes that are sent one PTO apart while the round trip is
	// unknown. With that many, a Hello arrives within rpc.Config.HelloTimeout even if several in a
	// row are lost. If the PTO doubled right away, there would be time for only three (see
	// rpctest.TestJoinsThroughBursts).
	evenProbes = 6

	// heldTrips is an upper bound, in smoothed round trips, for a sample that an outage delayed.
	heldTrips = 4
)

// RTT is a round-trip estimator as in RFC 9002, section 5, except that the minimum expires after a
// pause or a drain, so that we notice if the path gets longer. All fields are 0 before the first
// sample or Assume. Times are on the owner's clock, counted from any fixed instant.
type RTT struct {
	// The latest sample. Adjusted is capped after an outage, and then without the peer's ack delay,
	// but at least Min.
	Latest, Adjusted   time.Duration
	Smoothed, Variance time.Duration

	// The minimum of recent samples. It expires after minRTTLifetime without a sample, or when the
	// owner drains (see Gate).
	Min       time.Duration
	minAt     time.Duration // when Min was measured
	sampledAt time.Duration // when the latest sample was added
	MinEver   time.Duration // the minimum of all samples

	// Packets that were sent before an outage ended.
	outageEnd time.Duration
	maxHeld   time.Duration // upper bound for their samples; 0 if there was no outage
	onlyHeld  bool          // there are no other samples, so the next one replaces the estimate

	// Recent is the minimum of Adjusted in the latest full batch, which has recentSamples samples,
	// or all of a round trip if there are more. This filters out jitter but not a standing queue.
	// It is 0 before the first batch is full, and after an outage until another one is.
	Recent time.Duration
	Rounds int // number of full batches so far

	// The current batch.
	batchMin     time.Duration // minimum of Adjusted
	batchStart   time.Duration // when it began
	batchSamples int
}

// recentSamples is the number of samples that it takes to tell a queue from jitter. If delays are
// spread evenly from 0 to some maximum, the minimum of 8 is a ninth of the maximum on average.
const recentSamples = 8

// Known reports whether there is an estimate, measured or assumed.
func (r *RTT) Known() bool { return r.Smoothed != 0 }

// Assume drops all samples and starts with the estimates of others for the same path.
func (r *RTT) Assume(smoothed, variance time.Duration) {
	*r = RTT{Latest: smoothed, Adjusted: smoothed, Smoothed: smoothed, Variance: variance}
}

// Held is called when an ack ends an outage. Packets sent before now may have been held up
// somewhere, and that time mustn't be mistaken for a round trip. Otherwise an interruption of 20 s
// would cause a probe timeout of 20 s.
//
// We can't ignore their samples, since the path may really have become longer, but they count for
// at most heldTrips round trips, or for least if that's longer. An outage at the very beginning is
// no exception, but what such samples show is replaced by the first sample of a later packet.
func (r *RTT) Held(now, least time.Duration) {
	r.outageEnd = now
	r.maxHeld = max(heldTrips*r.Current(), least)

	// A queue that stood before the outage may be gone.
	r.Recent = 0
	r.batchSamples = 0
}

// HeldUp reports whether a packet that was sent at that time may have been held up by an outage.
func (r *RTT) HeldUp(sent time.Duration) bool { return sent < r.outageEnd }

// Update adds a sample. delay is the peer's ack delay, which the caller has bounded, or 0 if
// unknown.
//
// Because delays are rounded, the sample without its delay may be a microsecond below Min, in
// which case it counts as Min. RFC 9002, section 5.3, would ignore the delay instead, but then
// the sample would look like a queue.
func (r *RTT) Update(now, sample, delay time.Duration) {
	sample = max(sample, time.Microsecond)
	r.Latest = sample
	held := r.maxHeld > 0 && now-sample < r.outageEnd
	if held {
		sample = min(sample, r.maxHeld)
	}
	if r.onlyHeld && !held {
		// Those of held samples may be too low, because such samples are capped.
		r.Min, r.MinEver = 0, 0
		r.batchSamples = 0
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
	r.addToBatch(now)
	first := !r.Known() || r.onlyHeld && !held
	r.onlyHeld = held && (first || r.onlyHeld)
	if first {
		r.Smoothed = r.Adjusted
		r.Variance = r.Adjusted / 2
		return
	}
	r.Variance += ((r.Smoothed - r.Adjusted).Abs() - r.Variance) / 4
	r.Smoothed += (r.Adjusted - r.Smoothed) / 8
}

// addToBatch adds Adjusted to the current batch, and ends the batch if it is full.
func (r *RTT) addToBatch(now time.Duration) {
	if r.batchSamples == 0 {
		r.batchMin = r.Adjusted
		r.batchStart = now
	}
	r.batchMin = min(r.batchMin, r.Adjusted)
	r.batchSamples++
	if r.batchSamples >= recentSamples && now-r.batchStart >= r.Smoothed {
		r.Recent = r.batchMin
		r.batchSamples = 0
		r.Rounds++
	}
}

// Current returns the smoothed round trip, or initialRTT if it's unknown.
func (r *RTT) Current() time.Duration {
	if !r.Known() {
		return initialRTT
	}
	return r.Smoothed
}

// PTO returns the probe timeout (RFC 9002, section 6.2.1), up to longestPTO. delay is the time for
// which the peer may delay an ack.
func (r *RTT) PTO(delay time.Duration) time.Duration {
	if !r.Known() {
		return 2*initialRTT + delay
	}
	return min(r.Smoothed+max(4*r.Variance, minPTOMargin), longestPTO) + delay
}

// Backoff returns the PTO after a number of consecutive timeouts. delay is as for PTO.
//
// The PTO doubles with each timeout, but only up to maxPTO, or up to maxPTOTrips round trips on a
// long path, so that we soon notice when an outage is over. While the round trip is unknown, it
// doesn't double before evenProbes timeouts.
func (r *RTT) Backoff(timeouts int, delay time.Duration) time.Duration {
	if !r.Known() {
		timeouts = max(0, timeouts-evenProbes)
	}
	pto := r.PTO(delay)
	return min(pto<<min(timeouts, maxDoublings), max(maxPTO, maxPTOTrips*r.Current(), pto))
}
