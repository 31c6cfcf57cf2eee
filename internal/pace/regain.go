package pace

const (
	// steadyRounds is how many rounds in a row a path must carry a rate, and lose no more than
	// usual, for the rate to count as carried. That holds for a rate that is tried again as well.
	steadyRounds = 8
	// cruisedRounds is how many rounds before a flood must have ended in
	// Cruise: the losses of a look are seen up to two rounds after it.
	cruisedRounds = 3
	// regainRounds is how many rounds without losses pass until the rate is
	// tried again, because a spell of losses may pause for one. Each trial that
	// fails doubles it, and after mostTrials failures there are no more trials.
	regainRounds, mostTrials = 4, 3
	// regained is the part of the rate that needs no trial.
	regained = 0.8
)

// A regain keeps the rate that a flood takes away. A radio loses half of all packets for a
// tenth of a second and none for the next, and no queue tells that from a policer, or from
// a queue of a few packets that others fill. But those continue to lose what is too much.
//
// So if a flood that no look has made follows a rate which the path had carried, it is
// answered like any other, and once nothing is lost any more that rate is tried again. Without
// that, spells of 60 % in a tenth of each second left a fifth of 20 Mbit/s over 50 ms.
type regain struct {
	rate    float64 // the rate that the last flood took; 0 = nothing
	carried float64 // the rate that the path has carried; 0 = unknown
	known   instant // when it had done so for steadyRounds
	began   float64 // the rate in the first of the present steadyRounds
	clean   int     // rounds in a row that lost no more than usual
	cruised int     // rounds in a row that ended in Cruise
	steady  bool    // the losses of the last rounds followed a carried rate
	trial   bool    // the rate is being tried
	spells  bool    // the last trial has lost no more than usual: the path is one that has spells of losses
	failed  int     // trials since the flood that lost more than usual
}

// roundOver adds a round: its fates, the usual share of random loss, and the
// rate that the path carried in it. A rate that was carried long ago, as before
// a pause, says nothing about the path any more.
func (g *regain) roundOver(t instant, fates tally, usual, rate float64, cruises bool) {
	if t-g.known > minimumLife {
		g.rate, g.carried = 0, 0
	}
	if fates.above(usual) {
		g.lost(fates)
	} else {
		g.passed(t, rate)
	}
	if g.cruised++; !cruises {
		g.cruised = 0
	}
}

// lost adds a round that lost more than usual. In a trial such a round is not a flood of its own.
func (g *regain) lost(fates tally) {
	if g.clean > 0 {
		g.steady = g.clean >= steadyRounds && g.cruised >= cruisedRounds
	}
	g.clean = 0
	switch {
	case g.trial:
		g.trial, g.spells = false, false
		if g.failed++; g.failed == mostTrials {
			g.rate, g.carried = 0, 0
		}
	case g.rate > 0:
	case fates.above(blind) && (g.steady || g.spells):
		g.rate, g.failed = g.carried, 0
	}
}

// passed adds a round that lost no more than usual.
func (g *regain) passed(t instant, rate float64) {
	if g.clean++; g.clean == 1 {
		g.began = rate
	}
	switch {
	case g.trial && g.clean >= steadyRounds:
		g.trial, g.spells, g.rate = false, true, 0
	case rate > regained*g.rate:
		g.rate = 0
	}
	if g.clean%steadyRounds == 0 {
		if g.rate == 0 {
			g.carried, g.known = min(g.began, rate), t
		}
		g.began = rate
	}
}

// wants reports whether to try the lost rate instead of the present one. A
// trial that meets no loss, but a lower rate, continues for its time.
func (g *regain) wants(rate float64) bool {
	return !g.trial && rate < regained*g.rate && g.clean >= regainRounds<<g.failed
}
