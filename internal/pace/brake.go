package pace

const (
	// brakeShare is the share lost over brakeRounds above which the brake acts: more than any random loss that the controller bears. It
	// acts on an excess that persists, not on one burst (RFC 8084, section 3).
	brakeShare  = 0.15
	brakeRounds = 3
)

// brake is the circuit breaker of RFC 8084: while loss stays above a ceiling it halves the rate again and again, whatever the
// model believes.
type brake struct {
	tally  tally
	rounds int
}

// roundOver adds a round, and reports whether to halve the rate.
func (b *brake) roundOver(round tally) bool {
	b.tally.add(round)
	if b.rounds++; b.rounds < brakeRounds {
		return false
	}
	t := b.tally
	*b = brake{}
	return t.beyond(brakeShare)
}
