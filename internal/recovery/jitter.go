package recovery

import "time"

const (
	// calmDeviation is the mean deviation of round trips that our own queues and delayed acks
	// cause. Any more is jitter.
	calmDeviation = 8 * time.Millisecond
	// jitterDeviations is the number of deviations that the window allows for. With uniform jitter
	// in both directions, the mean round trip is three deviations above the minimum, so four are
	// enough.
	jitterDeviations = 4
)

// A jitter estimates the amount by which the path's round trips exceed the minimum without a
// queue. If the window allowed for the minimum alone, it would shrink in every round whose round
// trips are longer by more than slack, down to minPackets (see rpctest.TestBlobsInJitter).
type jitter struct {
	// excess is the amount by which the mean round trip exceeded the minimum in the last drain, or
	// before the start if that was later.
	excess time.Duration

	// maxDeviation is the deviation before the start, when we had no queue. It's an upper bound
	// for later ones, which may include a queue of ours.
	maxDeviation time.Duration
}

// allowance returns the amount of jitter to allow for, given the variance of round trips.
func (j *jitter) allowance(variance time.Duration) time.Duration {
	return max(j.excess, min(j.maxDeviation, deviation(variance)))
}

// deviation returns the amount of jitter that the variance of round trips shows.
func deviation(variance time.Duration) time.Duration {
	return jitterDeviations * max(0, variance-calmDeviation)
}
