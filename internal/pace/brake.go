package pace

const (
	// The brake acts if more than brakeShare of the packets was lost in brakeRounds,
	// which is more than any random loss that the controller tolerates. It acts on
	// excessive loss that lasts, not on one burst (RFC 8084, section 3).
	brakeShare  = 0.15
	brakeRounds = 3
	// brakeExtends is the share above which the brake adds rounds until it can tell runs
	// of losses from chance. A peer that acks one stretch of packets and nothing else
	// makes one long run in every round. No bad network does that for long.
	brakeExtends = 0.4
)

// A brake is the circuit breaker of RFC 8084. While loss stays above a ceiling, the brake
// halves the rate again and again, whatever the model says.
type brake struct {
	tally      tally
	rounds     int
	maxArrived int // maximum bytes that arrived in one of the rounds
}

// roundOver adds a round in which arrived bytes arrived. It reports whether to halve the
// rate, and the maximum bytes that arrived in one of the rounds. In the other rounds the
// path may have been dark, or the sender may have waited for a queue to drain.
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

// doubts reports whether only the length of the loss runs keeps the brake from acting.
func (b *brake) doubts() bool {
	each := tally{lost: b.tally.lost, acked: b.tally.acked}
	return each.share() > brakeExtends && each.beyond(brakeShare)
}
