package recovery

const (
	// A probe enlarges the window by probeShare of what the path holds, as in BBR version 1, for
	// probeTrips rounds, in the second of which acks show the result. If the rate has grown by
	// probeGrowth, another probe follows at once, otherwise after probeRounds rounds.
	probeShare  = 1. / 4
	probeTrips  = 2
	probeGrowth = 17. / 16
	probeRounds = 8
)

// A probe looks for a higher rate after the start. Without it, jitter uses up the slack that the
// window has beyond what the path holds, so a rate that was too low at the end of the start hardly
// grew: transfers at 50 Mbit/s, 150 ms and 10 % loss took three times as long as they had to.
type probe struct {
	on     bool    // the window is enlarged
	before float64 // the rate when the latest probe began
	rounds int     // since the latest probe began or ended
}

// endRound is called with the current rate when a round ends. forbidden is set if a queue stands.
func (p *probe) endRound(rate float64, forbidden bool) {
	p.rounds++
	switch {
	case forbidden:
		p.on = false
	case p.on && p.rounds < probeTrips:
	case p.on && rate <= p.before*probeGrowth:
		p.on = false
		p.rounds = 0
	case p.on, p.rounds >= probeRounds:
		*p = probe{on: true, before: rate}
	}
}
