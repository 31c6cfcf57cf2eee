package recovery

import (
	"slices"
	"time"
)

const (
	// The start ends after flatRounds rounds in which the rate hasn't grown by a quarter, as in
	// BBR version 1, or after startSamples consecutive round trips that show a queue.
	flatRounds   = 3
	startSamples = 4

	// minStartQueue and maxStartQueue are MIN_RTT_THRESH and MAX_RTT_THRESH of HyStart++ (RFC 9406,
	// section 4.3).
	minStartQueue = 4 * time.Millisecond
	maxStartQueue = 16 * time.Millisecond
)

// A start is the period in which the gate finds out what the path holds. The window grows with the
// rate until the rate stops growing or a queue builds up.
type start struct {
	gentle  bool                        // it follows a drain, so the window doesn't include queuePackets
	over    bool                        // the window no longer grows beyond what the path holds
	plateau float64                     // the rate when it last grew by a quarter
	flat    int                         // number of rounds since then
	latest  [startSamples]time.Duration // the latest round trips, a ring indexed by trips
	trips   int                         // number of round trips so far
}

// endRound is called with the current rate when a round ends. It ends the start if the rate has
// stopped growing.
func (s *start) endRound(rate float64) {
	if rate > s.plateau*5/4 {
		s.plateau = rate
		s.flat = 0
		return
	}
	s.flat++
	if s.flat >= flatRounds {
		s.over = true
	}
}

// addTrip adds a round trip. One that is longer than limit shows a queue, however short. Unless the
// start is gentle, it ends if all of the latest round trips show one. Since the rate doubles with
// each round trip, it would be too late to wait for a standing queue.
func (s *start) addTrip(trip, limit time.Duration) {
	s.latest[s.trips%startSamples] = trip
	s.trips++
	if !s.gentle && s.trips >= startSamples && slices.Min(s.latest[:]) > limit {
		s.over = true
	}
}

// startQueue returns the length of the queue that the start may build on a path with the given
// minimum RTT.
func startQueue(minRTT time.Duration) time.Duration {
	return min(max(minRTT/8, minStartQueue), maxStartQueue)
}
