package recovery

import "time"

const (
	// Assumed before the first sample. It is typical of a game's path, unlike the 333 ms of
	// RFC 9002, section 6.2.2.
	initialRTT     = 100 * time.Millisecond
	minRTTLifetime = 10 * time.Second     // pause between samples after which the next one replaces Min
	minVariance    = 2 * time.Millisecond // lower bound of 4*Variance in a PTO; kGranularity, 1 ms, in RFC 9002
	maxPTO         = time.Second          // longest PTO to which Backoff doubles on a short path
	maxDoublings   = 16                   // maximum doublings in Backoff, so that it does not overflow
	// evenProbes is the number of probes that are sent one PTO apart while no round trip is
	// known. A Hello then arrives within rpc.Config.HelloTimeout even if several
	// consecutive ones are lost. If the PTO doubled from the start, there would be time for
	// three (rpctest.TestJoinsThroughBursts).
	evenProbes = 6
	// heldTrips limits a sample that was delayed by an outage, as a multiple of the
	// smoothed round trip.
	heldTrips = 4
)

// RTT measures round trips as in RFC 9002, section 5. Unlike in the RFC, the minimum expires
// after a pause or a drain, so that we notice when the path gets longer. All fields are 0
// before the first sample and before Assume. Times are on the owner's clock, since any
// fixed instant.
type RTT struct {
	Latest             time.Duration
	Adjusted           time.Duration // Latest without the peer's ack delay
	Smoothed, Variance time.Duration

	// The minimum of recent samples. It expires after 10 s without a sample, or when the
	// owner drains (see Gate).
	Min       time.Duration
	minAt     time.Duration // when Min was measured
	sampledAt time.Duration // when the last sample was added
	MinEver   time.Duration // the minimum of all samples

	held    time.Duration // packets sent before this time were delayed by an outage
	maxHeld time.Duration // maximum that their samples count for; 0 = there was no outage

	// Recent is the minimum Adjusted of the last full batch: of 8 samples, or of all
	// samples in a round trip if there are more. It reveals a standing queue but filters
	// out jitter.
	// It is 0 before the first batch is full.
	Recent   time.Duration
	Rounds   int           // number of full batches so far
	fresh    time.Duration // minimum Adjusted of the batch that began at freshAt
	freshAt  time.Duration
	freshFor int // number of samples in that batch
}

// recentSamples is the number of samples that distinguish a queue from jitter. If delays
// are spread evenly from 0 to a maximum, the minimum of 8 is on average a ninth of the
// maximum.
const recentSamples = 8

// Known reports whether there is an estimate, measured or assumed.
func (r *RTT) Known() bool { return r.Smoothed != 0 }

// Assume drops all samples and begins with the round trips of other packets on the same
// path.
func (r *RTT) Assume(smoothed, variance time.Duration) {
	*r = RTT{Latest: smoothed, Adjusted: smoothed, Smoothed: smoothed, Variance: variance}
}

// Held is called when an ack ends an outage. Packets sent before now may have waited
// somewhere, and that time is not a round trip. After an interruption of 20 s, the probe
// timeout would be as long.
//
// Their samples still count, because the path may have become longer, but for at most
// heldTrips round trips, or least if that is longer.
func (r *RTT) Held(now, least time.Duration) {
	if r.Known() {
		r.held = now
		r.maxHeld = max(heldTrips*r.Smoothed, least)
	}
}

// Update adds a sample. delay is the peer's ack delay, which the caller has bounded; 0
// means unknown.
//
// Delays are rounded, so Adjusted could be a microsecond below Min. It is then set to Min.
// RFC 9002, section 5.3, would ignore the delay instead, and the sample would look like a
// queue.
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

// gather adds Adjusted to the batch and ends the batch if it is full.
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

// Current returns the smoothed round trip, or initialRTT while none is known.
func (r *RTT) Current() time.Duration {
	if !r.Known() {
		return initialRTT
	}
	return r.Smoothed
}

// PTO returns the probe timeout (RFC 9002, section 6.2.1). delay is the peer's maximum ack
// delay.
func (r *RTT) PTO(delay time.Duration) time.Duration {
	if !r.Known() {
		return 2*initialRTT + delay
	}
	return r.Smoothed + max(4*r.Variance, minVariance) + delay
}

// Backoff returns the PTO after a number of consecutive timeouts. delay is as for PTO.
//
// The PTO doubles with each timeout, up to a second or, on a long path, up to three round
// trips. The end of an outage is therefore noticed soon. While no round trip is known, the
// PTO doubles only after evenProbes timeouts.
func (r *RTT) Backoff(timeouts int, delay time.Duration) time.Duration {
	if !r.Known() {
		timeouts = max(0, timeouts-evenProbes)
	}
	pto := r.PTO(delay)
	return min(pto<<min(timeouts, maxDoublings), max(maxPTO, 3*r.Current(), pto))
}
