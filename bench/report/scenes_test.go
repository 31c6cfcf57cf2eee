package report

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bench/scene"
	"github.com/quivernet/quiver/internal/scenes"
)

// TestSections holds that the families that sections name exist, and that all
// but one stand for a section.
func TestSections(t *testing.T) {
	families := make(map[string]bool)
	for _, row := range scenes.Table() {
		families[row.Family] = true
	}
	for _, s := range sections {
		for _, f := range s.families {
			require.True(t, families[f], "%s: %s", s.number, f)
		}
		require.True(t, s.families != nil || s.but != "", "%s says why it is not covered", s.number)
	}
	for f := range families {
		require.True(t, slices.ContainsFunc(sections, func(s section) bool { return slices.Contains(s.families, f) }), f)
	}
}

func TestScenesMarkdown(t *testing.T) {
	rows := scene.Rows("policed")
	figures := []scenes.Figure{{Name: "time", Value: 1.2, Most: 1.5}, {Name: "dropped", Value: 0.25, Most: 0.05}}
	s := &Scenes{Date: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC), Revision: "abc", Seeds: scene.Seeds{First: 4, Count: 9}, Outcomes: []scene.Outcome{
		{Row: rows[0], Figures: figures, Others: []scene.Other{{Kind: scenes.Reno, Figures: []scenes.Figure{{}, {Value: 0.3}}}}},
		{Row: rows[1], Figures: figures[:1]},
	}, Pictures: []File{{"a row", "a.svg"}}}
	var b strings.Builder
	require.NoError(t, s.WriteMarkdown(&b))
	for _, want := range []string{
		"2 January 2026: revision abc", "seeds 4 to 12, 1 of 2 rows meet their bounds; 1 of the others have a proof or a peer that misses the bound as well, 0 are open",
		"| 20 Mbit/s 50 ms, policed | 1.2 ≤ 1.5 | **0.25** ≤ 0.05 | dropped: reno 0.3 | a |\n",
		"| 100 Mbit/s 50 ms, policed | 1.2 ≤ 1.5 |  |  |  |\n",
		"a: " + rows[0].Binds, "with seed 4", "up to 100 ms later", "![a row](a.svg)",
	} {
		require.Contains(t, b.String(), want)
	}
}

func TestDrawScene(t *testing.T) {
	var b strings.Builder
	require.NoError(t, (&Scenes{Revision: "abc", Seeds: scene.Seeds{First: 4, Count: 2}}).Draw(&b, scene.Rows("within 100 ms")[0]))
	for _, want := range []string{"Jain&#39;s index", "of the bottleneck", "ours 8", "limit", "sans-serif", "revision abc, seed 4"} {
		require.True(t, strings.Contains(strings.ToLower(b.String()), strings.ToLower(want)), want)
	}
	require.Less(t, b.Len(), 80<<10)
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		least, most float64
		want        string
	}{{0, 20.8, "0 5 10 15 20"}, {0, 52, "0 10 20 30 40 50"}, {0, 1.04, "0 0.2 0.4 0.6 0.8 1"}, {1, 2, "1 1.2 1.4 1.6 1.8 2"}} {
		var labels []string
		for _, mark := range (ticks{6}).Ticks(c.least, c.most) {
			labels = append(labels, mark.Label)
		}
		require.Equal(t, c.want, strings.Join(labels, " "))
	}
}
