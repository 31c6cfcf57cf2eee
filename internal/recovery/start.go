package recovery

import (
	"slices"
	"time"
)

const (
	// The start ends after flatRounds rounds in which the rate hasn't grown by a quarter, or after
	// startSamples round trips in a row that show a queue.
	flatRounds    = 3
	startSamples  = 4
	minStartQueue = 4 * time.Millisecond // MIN_RTT_THRESH and MAX_RTT_THRESH of HyStart++ (RFC 9406, section 4.3)
	maxStartQueue = 16 * time.Millisecond
)

// A start is the time in which the gate finds out what the path holds: the window grows with the
// rate until the rate stops growing or a queue builds up.
type start struct {
	gentle   bool                        // it follows a drain, so the window has no queuePackets
	over     bool                        // the window no longer grows beyond what the path holds
	plateau  float64                     // the rate when it last grew by a quarter
	flat     int                         // how many rounds ago plateau last rose
	latest   [startSamples]time.Duration // the latest round trips, as a ring
	measured int                         // how many round trips were put into latest
}

// endRound is called when a round ends, with the rate so far. It ends the start if the rate has
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

// addTrip adds a round trip, which is longer than longest if there is a queue, however short. The
// start ends if the latest ones all show one, unless it's gentle. The rate doubles with each round
// trip, so it would be too late if we noticed the queue when it stands.
func (s *start) addTrip(trip, longest time.Duration) {
	s.latest[s.measured%startSamples] = trip
	s.measured++
	if !s.gentle && s.measured >= startSamples && slices.Min(s.latest[:]) > longest {
		s.over = true
	}
}

// startQueue returns how long a queue the start may build on a path with this minimum RTT.
func startQueue(minRTT time.Duration) time.Duration {
	return min(max(minRTT/8, minStartQueue), maxStartQueue)
}
