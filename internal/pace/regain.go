package pace

const (
	// A path has carried a rate if it did so for steadyRounds rounds in succession without
	// losing more than usual. A trial takes as many.
	steadyRounds = 8

	// cruisedRounds is how many rounds before a flood must have ended in Cruise. We see the
	// losses of a look up to two rounds after it.
	cruisedRounds = 3

	// regainRounds is how many rounds must pass without losses before we try the rate again. One
	// isn't enough, since a spell of losses may pause for a round. The number doubles with each
	// trial that fails, and after maxTrials failures we give up.
	regainRounds, maxTrials = 4, 3

	// spellPause replaces regainRounds once a trial has succeeded. We then know that the path
	// has spells of losses, and the next one may come within half a second.
	//
	// A trial that meets that spell fails like any other. When we excused it, three controllers
	// behind a policer lost 2.5 % instead of 1.5.
	spellPause = 2

	// regainedPart is how much of the rate we must have to do without a trial.
	regainedPart = 0.8
)

// A regain remembers the rate that a flood of losses has cost us, and decides when to try it
// again.
//
// A radio may lose half of all packets for a tenth of a second, and none in the next. There's no
// queue to tell this from a policer, or from a queue of a few packets that others fill. What does
// tell them apart is that the others keep dropping whatever is too much.
//
// We answer every flood alike. But if it came at a rate that the path had carried, and no look of
// ours caused it, we try that rate again when the losses have stopped. Without these trials,
// spells of 60 % loss in a tenth of each second left us a fifth of 20 Mbit/s over 50 ms.
type regain struct {
	rate float64 // what the last flood cost us; 0 = nothing

	// What the path has carried.
	carried float64 // rate; 0 = unknown
	known   instant // when it last had, for steadyRounds
	began   float64 // rate in the first of the current steadyRounds

	// Rounds in succession.
	clean   int  // lost no more than usual
	cruised int  // ended in Cruise
	steady  bool // the losses of the last rounds came at a carried rate

	// Trials.
	trial  bool // there is one
	failed int  // how many have failed since the flood
	spells bool // the last one succeeded, so the path has spells of losses
}

// roundOver adds a round: its fates, the usual share of random loss, and the rate that the path
// carried in it.
func (g *regain) roundOver(t instant, fates tally, usual, rate float64, cruises bool) {
	if t-g.known > minimumLife {
		// The path may have changed since, for example during a pause.
		g.rate = 0
		g.carried = 0
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

// lost adds a round that lost more than usual.
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
			g.rate = 0
			g.carried = 0
		}
	case g.rate > 0:
		// This still belongs to the flood that we know of.
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

// carry records that the path has carried a rate for steadyRounds.
func (g *regain) carry(t instant, rate float64) {
	// If rate is about as high as what we had carried before, keep that. The path hasn't carried
	// it in all of these rounds, but if we went by their first one, each spell would lower the
	// rate of the next trial.
	if rate < regainedPart*g.carried || g.began > g.carried {
		g.carried = min(g.began, rate)
	}
	g.known = t
}

// wants reports whether it's time to try the lost rate instead of the current one.
func (g *regain) wants(rate float64) bool {
	return !g.trial && rate < regainedPart*g.rate && g.clean >= g.pause()<<g.failed
}

// pause returns how many rounds must pass without losses before the first trial.
func (g *regain) pause() int {
	if g.spells {
		return spellPause
	}
	return regainRounds
}
