package pace

const (
	// The brake acts when more than brakeShare of the packets of brakeRounds are lost, which
	// exceeds any random loss that we tolerate. It's meant for excessive loss that persists, and
	// not for a single burst (RFC 8084, section 3).
	brakeShare  = 0.15
	brakeRounds = 3

	// brakeExtends is the share of losses above which the brake goes on counting if it can't yet
	// tell runs of losses from chance. A peer that acks only one stretch of packets causes a single
	// long run in every round, which no bad network does for long.
	brakeExtends = 0.4
)

// A brake is a circuit breaker (RFC 8084). As long as loss stays above a limit, it halves the
// rate again and again, whatever the model says.
type brake struct {
	tally      tally
	rounds     int
	maxArrived int // most bytes that arrived in one of the rounds
}

// roundOver adds a round in which the given number of bytes arrived. It reports whether to halve
// the rate, and how many bytes arrived in the best of the rounds. In the others the path may have
// been dark, or we may have been waiting for a queue to drain.
func (b *brake) roundOver(round tally, arrived int) (halve bool, maxArrived int) {
	b.tally.add(round)
	b.maxArrived = max(b.maxArrived, arrived)
	b.rounds++
	if b.rounds < brakeRounds {
		return false, 0
	}
	halve = b.tally.beyond(brakeShare)
	maxArrived = b.maxArrived
	if halve || !b.doubts() {
		*b = brake{}
	}
	return halve, maxArrived
}

// doubts reports whether the brake doesn't act only because losses come in long runs.
func (b *brake) doubts() bool {
	each := tally{lost: b.tally.lost, acked: b.tally.acked}
	return each.share() > brakeExtends && each.beyond(brakeShare)
}
