package pace

const (
	// A path is known to carry a rate after it did so for steadyRounds rounds in a row without
	// losing more than usual. A trial takes as many rounds.
	steadyRounds = 8

	// cruisedRounds is how many rounds before a flood must have ended in Cruise to show that no
	// look caused it. The losses of a look show up to two rounds after it.
	cruisedRounds = 3

	// regainRounds is how many rounds must pass without losses before we try the rate again. One
	// isn't enough, because a spell of losses may pause for a round. The number doubles with each
	// failed trial, and we give up after maxTrials of them.
	regainRounds, maxTrials = 4, 3

	// spellPause replaces regainRounds after a trial succeeded. The path then has spells of losses,
	// and the next spell may come within half a second.
	//
	// A trial that meets that spell fails like any other. If we excused it, three controllers
	// behind a policer would lose 2.5 % instead of 1.5 %.
	spellPause = 2

	// regainedPart is the part of the rate that we must have for a trial to be unnecessary.
	regainedPart = 0.8
)

// A regain remembers the rate that we lost to a flood of losses, and decides when to try it again.
//
// A radio may lose half of all packets for a tenth of a second, and none in the next. No queue
// distinguishes this from a policer, or from a queue of a few packets that others fill, but those
// continue to drop whatever exceeds the rate.
//
// We answer all floods in the same way. But if one came at a rate that the path used to carry, and
// no look of ours caused it, we try that rate again when the losses have stopped. Without these
// trials, spells of 60 % loss in a tenth of each second would leave us a fifth of 20 Mbit/s over 50
// ms.
type regain struct {
	rate float64 // rate lost to the last flood; 0 = none

	// The rate that the path carried for steadyRounds.
	carried float64 // 0 = unknown
	known   instant // end of the latest such rounds
	began   float64 // rate in the first of the current steadyRounds

	clean   int  // rounds in a row that lost no more than usual
	cruised int  // rounds in a row that ended in Cruise
	steady  bool // the losses of the last rounds came at a rate that the path had carried

	// Trials.
	trial  bool // a trial is under way
	failed int  // how many have failed since the flood
	spells bool // the last trial succeeded, so the path has spells of losses
}

// roundOver adds a round with its fates and the rate that the path carried in it. usual is the
// usual share of random loss, and cruises is whether the round ended in Cruise.
func (g *regain) roundOver(t instant, fates tally, usual, rate float64, cruises bool) {
	if t-g.known > minimumLife {
		// The path may have changed since then, for example during a pause.
		g.rate = 0
		g.carried = 0
	}
	if fates.above(usual) {
		g.lossyRound(fates)
	} else {
		g.cleanRound(t, rate)
	}
	g.cruised++
	if !cruises {
		g.cruised = 0
	}
}

// lossyRound adds a round that lost more than usual.
func (g *regain) lossyRound(fates tally) {
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
		// This is still part of the flood that we know of.
	case fates.above(unexplainedLoss) && (g.steady || g.spells):
		g.rate = g.carried
		g.failed = 0
	}
}

// cleanRound adds a round that lost no more than usual.
func (g *regain) cleanRound(t instant, rate float64) {
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

// carry records that the path carried a rate for steadyRounds.
func (g *regain) carry(t instant, rate float64) {
	// If rate is about as high as what the path carried before, keep that. The path didn't carry it
	// in all of these rounds, but if the first of them decided, each spell would lower the rate of
	// the next trial.
	if rate < regainedPart*g.carried || g.began > g.carried {
		g.carried = min(g.began, rate)
	}
	g.known = t
}

// trialDue reports whether it's time to try the lost rate instead of the current one.
func (g *regain) trialDue(rate float64) bool {
	return !g.trial && rate < regainedPart*g.rate && g.clean >= g.pause()<<g.failed
}

// beginTrial begins a trial of the lost rate.
func (g *regain) beginTrial() {
	g.trial = true
	g.clean = 0
}

// pause returns how many rounds must pass without losses before the first trial.
func (g *regain) pause() int {
	if g.spells {
		return spellPause
	}
	return regainRounds
}
