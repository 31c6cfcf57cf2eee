package pace

const (
	// brakeShare of packets lost over brakeRounds is more than any random loss that is lived with: RFC 8084's circuit
	// breaker, which acts on a persistent excess and not on one burst.
	brakeShare  = 0.15
	brakeRounds = 3
)

// brake is the circuit breaker of RFC 8084: whatever the model believes, persistent loss above a ceiling halves it, again
// and again.
type brake struct {
	tally  tally
	rounds int
}

// roundOver takes what a round lost and reports whether to halve.
func (b *brake) roundOver(round tally) bool {
	b.tally.add(round)
	if b.rounds++; b.rounds < brakeRounds {
		return false
	}
	t := b.tally
	*b = brake{}
	return t.beyond(brakeShare)
}
