package pace

const (
	// steadyRounds is the number of consecutive rounds in which a path must carry a rate,
	// and lose no more than usual, for the rate to count as carried. It is also the
	// length of a trial.
	steadyRounds = 8
	// cruisedRounds is the number of rounds before a flood that must have ended in
	// Cruise. The losses of a look are seen up to two rounds after it.
	cruisedRounds = 3
	// regainRounds is the number of rounds without losses after which the rate is tried
	// again. It is more than one because a spell of losses may pause for a round. Each
	// trial that fails doubles the number. After maxTrials failures there are no more
	// trials.
	regainRounds, maxTrials = 4, 3
	// spellPause replaces regainRounds once a trial has succeeded. The path then has spells
	// of losses, and the next one may begin within half a second.
	//
	// If the next spell ends a trial, the trial has failed nevertheless. When it had not,
	// three controllers behind a policer lost 2.5 % instead of 1.5.
	spellPause = 2
	// regainedPart is the part of the rate that needs no trial.
	regainedPart = 0.8
)

// A regain keeps the rate that a flood of losses takes away.
//
// A radio may lose half of all packets for a tenth of a second and none for the next. No
// queue tells that from a policer, or from a queue of a few packets that others fill. But
// those continue to drop what is too much.
//
// A flood that no look made may follow a rate which the path had carried. The controller
// responds to it as to any other, and tries that rate again once nothing is lost any
// more. Without these trials, spells of 60 % loss in a tenth of each second left a fifth
// of 20 Mbit/s over 50 ms.
type regain struct {
	rate    float64 // rate that the last flood took; 0 = nothing
	carried float64 // rate that the path has carried; 0 = unknown
	known   instant // when it had done so for steadyRounds
	began   float64 // rate in the first of the current steadyRounds
	clean   int     // consecutive rounds that lost no more than usual
	cruised int     // consecutive rounds that ended in Cruise
	steady  bool    // the losses of the last rounds followed a carried rate
	trial   bool    // the rate is being tried
	spells  bool    // the last trial lost no more than usual: the path has spells of losses
	failed  int     // trials since the flood that lost more than usual
}

// roundOver adds a round: its fates, the usual share of random loss, and the rate that
// the path carried in it. A rate that was carried long ago, as before a pause, says
// nothing about the path any more.
func (g *regain) roundOver(t instant, fates tally, usual, rate float64, cruises bool) {
	if t-g.known > minimumLife {
		g.rate, g.carried = 0, 0
	}
	if fates.above(usual) {
		g.lost(fates)
	} else {
		g.passed(t, rate)
	}
	g.cruised++
	if !cruises {
		g.cruised = 0
	}
}

// lost adds a round that lost more than usual. In a trial such a round is not a flood of
// its own.
func (g *regain) lost(fates tally) {
	if g.clean > 0 {
		g.steady = g.clean >= steadyRounds && g.cruised >= cruisedRounds
	}
	g.clean = 0
	switch {
	case g.trial:
		g.trial = false
		g.spells = false
		g.failed++
		if g.failed == maxTrials {
			g.rate, g.carried = 0, 0
		}
	case g.rate > 0:
	case fates.above(unexplainedLoss) && (g.steady || g.spells):
		g.rate = g.carried
		g.failed = 0
	}
}

// passed adds a round that lost no more than usual.
func (g *regain) passed(t instant, rate float64) {
	g.clean++
	if g.clean == 1 {
		g.began = rate
	}
	switch {
	case g.trial && g.clean >= steadyRounds:
		g.trial = false
		g.spells = true
		g.rate = 0
	case rate > regainedPart*g.rate:
		g.rate = 0
	}
	if g.clean%steadyRounds == 0 {
		if g.rate == 0 {
			g.carry(t, rate)
		}
		g.began = rate
	}
}

// carry records that the path has carried a rate for steadyRounds. If the path carries
// an earlier, higher rate again, but has not done so for all these rounds, the earlier
// rate stays: otherwise each spell lowered the rate of the next trial.
func (g *regain) carry(t instant, rate float64) {
	if rate < regainedPart*g.carried || g.began > g.carried {
		g.carried = min(g.began, rate)
	}
	g.known = t
}

// wants reports whether to try the lost rate instead of the current one. A trial that
// meets no loss, but a lower rate, continues until its end.
func (g *regain) wants(rate float64) bool {
	return !g.trial && rate < regainedPart*g.rate && g.clean >= g.pause()<<g.failed
}

// pause returns the number of rounds without losses before the first trial.
func (g *regain) pause() int {
	if g.spells {
		return spellPause
	}
	return regainRounds
}
