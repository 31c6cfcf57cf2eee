package scenes

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
)

// TestShiftedKeepsTheScene: shifts are within 100 ms, seeds decide them, and flows begin in the
// order of the scene, those that begin within 50 ms as well.
func TestShiftedKeepsTheScene(t *testing.T) {
	seed := testkit.Seed(t)
	for _, row := range Table() {
		before := row.Scene.Flows
		a, b := row.Scene.Shifted(seed).Flows, row.Scene.Shifted(seed+1).Flows
		require.NotEqual(t, begins(a), begins(b), row.Name())
		require.Equal(t, begins(a), begins(row.Scene.Shifted(seed).Flows), row.Name())
		for i, f := range a {
			require.GreaterOrEqual(t, f.Begin, before[i].Begin, row.Name())
			require.Less(t, f.Begin, before[i].Begin+100*ms, row.Name())
			for j, g := range a {
				if before[i].Begin < before[j].Begin {
					require.Less(t, f.Begin, g.Begin, row.Name())
				}
			}
		}
		if strings.Contains(row.Scene.Name, "within 50 ms") {
			require.LessOrEqual(t, slices.Max(begins(a))-slices.Min(begins(a)), 50*ms, row.Name())
		}
	}
}

func begins(flows []Flow) (all []time.Duration) {
	for _, f := range flows {
		all = append(all, f.Begin)
	}
	return all
}

// TestPlayAsDraws: the figures of other kinds differ by seed where the path draws nothing,
// times count from the shifted Begin, and what Compare is given is shifted as well.
func TestPlayAsDraws(t *testing.T) {
	var took, begun []time.Duration
	row := Row{Scene: Path(20e6, 50*ms, 0, 1).With(2, Flow{Begin: second, Bytes: mib}, 0)}
	row.Scene.For = 1500 * ms
	row.Judge = func(r Result) []Figure {
		begun = append(begun, r.Scene.Flows[0].Begin)
		took = append(took, r.took(0))
		return []Figure{{Value: r.Flows[0].Rate(second, 1500*ms)}}
	}
	row.Beside = Reno
	row.Compare = func(r, theirs Result) []Figure {
		require.Equal(t, Ours, r.Scene.Flows[0].Kind, "bounds name flows of ours")
		require.Equal(t, r.Scene.Flows[0].Begin, theirs.Scene.Flows[0].Begin)
		return nil
	}
	require.NotEqual(t, row.PlayAs(Reno, 1), row.PlayAs(Reno, 2))
	require.NotEqual(t, begun[0], begun[1])
	for i := range took {
		require.Equal(t, row.Scene.For, begun[i]+took[i], "it has not ended")
	}
	row.Play(1)
	require.Equal(t, second, begun[2], "ours begin when the scene says")
}
