package pace

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// flooded is the fates of a round that lost more than random loss explains.
var flooded = tally{lost: 40, acked: 40}

// carrying returns a regain after rounds of Cruise that carried a rate.
func carrying(rounds int, rate float64) (g regain) {
	for range rounds {
		g.roundOver(second, tally{acked: 80}, 0, rate, true)
	}
	return g
}

const second = instant(time.Second)

func TestRegain(t *testing.T) {
	g := carrying(steadyRounds, 100)
	g.roundOver(second, flooded, 0, 50, false)
	g.roundOver(second, flooded, 0, 50, false)
	for range regainRounds {
		require.False(t, g.trialDue(50))
		g.roundOver(second, tally{acked: 80}, 0, 50, false)
	}
	require.True(t, g.trialDue(50))
	require.False(t, g.trialDue(90), "as good as regained")
	g.roundOver(second, tally{acked: 80}, 0, 90, false)
	require.False(t, g.trialDue(50))
}

// TestRegainOnlyWhatWasCarried: a flood may be caused by a look, follow a rate
// that has only just risen, or be a few losses.
func TestRegainOnlyWhatWasCarried(t *testing.T) {
	for name, g := range map[string]regain{
		"too short":         carrying(steadyRounds-1, 100),
		"not cruised":       {carried: 100, known: second, clean: steadyRounds, cruised: cruisedRounds - 1},
		"nothing to regain": {},
	} {
		g.roundOver(second, flooded, 0, 50, false)
		require.Zero(t, g.rate, name)
	}
	g := carrying(steadyRounds, 100)
	g.roundOver(second, tally{lost: 8, acked: 80}, 0, 50, false)
	require.Zero(t, g.rate, "no flood")
	g = carrying(steadyRounds/2, 100)
	for range steadyRounds / 2 {
		g.roundOver(second, tally{acked: 80}, 0, 120, true)
	}
	g.roundOver(second, flooded, 0, 50, false)
	require.EqualValues(t, 100, g.rate, "what all of the rounds carried")
}

// TestRegainGivesUp: trials that meet floods follow at longer and longer
// intervals, and there are three.
func TestRegainGivesUp(t *testing.T) {
	g := carrying(steadyRounds, 100)
	g.roundOver(second, flooded, 0, 50, false)
	for trial := range maxTrials {
		for range regainRounds << trial {
			require.False(t, g.trialDue(50))
			g.roundOver(second, tally{acked: 80}, 0, 50, false)
		}
		require.True(t, g.trialDue(50), "trial %d", trial)
		g.trial, g.clean = true, 0
		g.roundOver(second, flooded, 0, 50, false)
	}
	require.Zero(t, g.rate)
	require.Zero(t, g.carried)
}

// TestRegainOfSpells: once a trial has succeeded a flood may follow any rate.
func TestRegainOfSpells(t *testing.T) {
	g := carrying(steadyRounds, 100)
	g.roundOver(second, flooded, 0, 50, false)
	g.trial = true
	for range steadyRounds {
		g.roundOver(second, tally{acked: 80}, 0, 100, true)
	}
	require.Zero(t, g.rate)
	g.roundOver(second, tally{acked: 80}, 0, 100, false)
	g.roundOver(second, flooded, 0, 50, false)
	require.EqualValues(t, 100, g.rate)
}

// TestATrialGoesOn: a trial that lost nothing and found a lower rate never
// ended, because the next one began every four rounds.
func TestATrialGoesOn(t *testing.T) {
	g := carrying(steadyRounds, 100)
	g.roundOver(second, flooded, 0, 50, false)
	g.trial, g.clean = true, 0
	for range 4 * steadyRounds {
		g.roundOver(second, tally{acked: 80}, 0, 50, false)
		require.False(t, g.trialDue(50))
	}
	require.False(t, g.trial)
}

// TestRegainForgets: after a pause a rate from before says nothing about the path.
func TestRegainForgets(t *testing.T) {
	g := carrying(steadyRounds, 100)
	g.roundOver(second, flooded, 0, 50, false)
	for range regainRounds {
		g.roundOver(second+instant(minimumLife)+1, tally{acked: 80}, 0, 50, false)
	}
	require.False(t, g.trialDue(50))
	g = carrying(steadyRounds, 100)
	g.roundOver(second+instant(minimumLife)+1, flooded, 0, 50, true)
	require.Zero(t, g.rate)
}

// TestRegainRemembers: a rate that is back within steadyRounds stays the one
// that the path carries. When the rounds before that replaced it, each spell
// lowered what the next trial began at.
func TestRegainRemembers(t *testing.T) {
	g := carrying(steadyRounds, 100)
	g.roundOver(second, flooded, 0, 50, false)
	for range steadyRounds - 1 {
		g.roundOver(second, tally{acked: 80}, 0, 40, true)
	}
	g.roundOver(second, tally{acked: 80}, 0, 90, true)
	require.EqualValues(t, 100, g.carried)
	for range steadyRounds {
		g.roundOver(second, tally{acked: 80}, 0, 70, true)
	}
	require.EqualValues(t, 70, g.carried, "the path carries less now")
}

// TestSpellsReturn: on a path that has spells of losses, the next trial begins sooner.
func TestSpellsReturn(t *testing.T) {
	for _, tt := range []struct {
		spells bool
		pause  int
	}{{false, regainRounds}, {true, spellPause}} {
		g := carrying(steadyRounds, 100)
		g.spells = tt.spells
		g.roundOver(second, flooded, 0, 50, false)
		for range tt.pause {
			require.False(t, g.trialDue(50))
			g.roundOver(second, tally{acked: 80}, 0, 50, false)
		}
		require.True(t, g.trialDue(50), "spells: %v", tt.spells)
	}
}
