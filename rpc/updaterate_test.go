package rpc

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
)

// An actor whose rate is no part of the tick rate, or all of it, is compared as often as UpdateRate
// says and no more: a real clock brings half of all ticks a moment before the period is over.
func TestUpdateRateIsReached(t *testing.T) {
	random := testkit.Rand(t)
	for _, rate := range []float64{1, 7, 10, 20, 25, 29, 30, 45, 60, 100} {
		for _, hz := range []int{10, 30, 60} {
			class := NewClass("Beacon", UpdateRate(rate))
			start := time.Unix(1000, 0)
			var s actorStates
			ref := Ref(random.Uint64())
			var at []time.Time
			const seconds = 20
			for tick := range seconds * hz {
				jitter := time.Duration(random.IntN(2_000_001)) - time.Millisecond
				if now := start.Add(time.Duration(tick)*time.Second/time.Duration(hz) + jitter); s.claimSlot(now, class.updatePeriod, ref) {
					at = append(at, now)
				}
			}
			require.InDelta(t, seconds*min(rate, float64(hz)), len(at), 2, "UpdateRate(%v) at %d ticks a second", rate, hz)
			for i, from := range at {
				for j, to := range at[i:min(len(at), i+10)] {
					if float64(j) > to.Sub(from).Seconds()*rate+1.001 {
						require.Fail(t, "too often", "UpdateRate(%v) at %d ticks a second: %d in %v", rate, hz, j, to.Sub(from))
					}
				}
			}
		}
	}
}

// After a pause, or a ForceUpdate, nothing is made up for.
func TestUpdateRateMakesUpForNoPause(t *testing.T) {
	a := &Actor{}
	now := time.Unix(1000, 0)
	due := func(after time.Duration) bool {
		now = now.Add(after)
		return a.states.claimSlot(now, 100*time.Millisecond, 0)
	}
	require.True(t, due(0))
	require.True(t, due(0), "for all states in one Flush")
	require.False(t, due(99*time.Millisecond))
	require.True(t, due(33*time.Millisecond))
	require.True(t, due(70*time.Millisecond), "the one before was late")
	require.True(t, due(time.Minute))
	require.False(t, due(99*time.Millisecond))
	require.True(t, due(time.Millisecond))
	require.False(t, due(50*time.Millisecond))
	a.ForceUpdate()
	require.True(t, due(10*time.Millisecond))
	require.False(t, due(99*time.Millisecond))
	require.True(t, due(time.Millisecond))
	require.True(t, due(-time.Hour), "the clock was set back")
	require.False(t, due(99*time.Millisecond))
}

// Actors that were spawned together, or came in sight together, do not travel
// together: each tick has about as many updates.
func TestUpdateRateSpreadsActors(t *testing.T) {
	const actors, hz = 3000, 30
	states := make([]actorStates, actors)
	now := time.Unix(1000, 0)
	for tick := range 4 * hz {
		due := 0
		for i := range states {
			if states[i].claimSlot(now, 100*time.Millisecond, Ref(i+1)) {
				due++
			}
		}
		if tick > 0 {
			require.InDelta(t, actors/3, due, actors/100, "tick %d", tick)
		}
		now = now.Add(time.Second / hz)
	}
}
