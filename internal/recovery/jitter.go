package recovery

import "time"

// calmDeviation is how much round trips deviate because of our own queues and of delayed acks.
// Anything beyond that is jitter. With even jitter in both directions, the mean round trip is
// three deviations above the minimum, so jitterDeviations is sure to cover it.
const (
	calmDeviation    = 8 * time.Millisecond
	jitterDeviations = 4
)

// A jitter knows by how much the path's round trips exceed the minimum without a queue. If the
// window allowed for the minimum alone, it would shrink with every round whose round trips are
// longer by more than slack, down to minPackets (rpctest.TestBlobsInJitter).
type jitter struct {
	// excess is by how much the mean round trip exceeded the minimum in the last drain, or before
	// the start if that was later.
	excess time.Duration

	// maxDeviation is the deviation before the start, without our queue. Later ones count for no
	// more than that.
	maxDeviation time.Duration
}

// allowance returns how much jitter to allow for, given the variance of round trips.
func (j *jitter) allowance(variance time.Duration) time.Duration {
	return max(j.excess, min(j.maxDeviation, deviation(variance)))
}

// deviation returns how much jitter there is, going by the variance of round trips.
func deviation(variance time.Duration) time.Duration {
	return jitterDeviations * max(0, variance-calmDeviation)
}
