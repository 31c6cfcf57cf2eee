package report

import (
	"encoding/json"
	"math"
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

// TestScenesJSON: a program finds seeds, bounds, the value with each seed, and what others reach.
func TestScenesJSON(t *testing.T) {
	row := scene.Rows("policed")[0]
	mine := []scenes.Figure{{Name: "time", Value: 3, Most: 1.5, Worst: true, Each: []float64{1, 3}}, {Name: "part", Value: math.Inf(1), Each: []float64{math.NaN(), 2}}}
	theirs := []scenes.Figure{{Name: "time", Value: 2, Most: 1.5, Each: []float64{2, 2}}}
	s := &Scenes{Revision: "abc", Seeds: scene.Seeds{First: 4, Count: 2}, Outcomes: []scene.Outcome{
		{Row: row, Figures: mine, Others: []scene.Other{{Kind: scenes.Reno, Figures: theirs}}}, {Row: row, Figures: theirs[:0]},
	}}
	var b strings.Builder
	require.NoError(t, s.WriteJSON(&b))
	var d struct {
		Revision string
		Seeds    []uint64
		Rows     []struct {
			Family, Scene, Binds string
			Met                  bool
			Figures              []struct {
				Value, Least, Most *float64
				Worst              bool
				Each               []*float64
			}
			Others []struct{ Kind string }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(b.String()), &d))
	require.Equal(t, "abc", d.Revision)
	require.Equal(t, []uint64{4, 5}, d.Seeds)
	require.Len(t, d.Rows, 2)
	first := d.Rows[0]
	require.Equal(t, []string{row.Family, row.Scene.Name, row.Binds, "reno"}, []string{first.Family, first.Scene, first.Binds, first.Others[0].Kind})
	require.False(t, first.Met)
	require.True(t, d.Rows[1].Met)
	f := first.Figures[0]
	require.Equal(t, []float64{3, 1.5, 1, 3}, []float64{*f.Value, *f.Most, *f.Each[0], *f.Each[1]})
	require.True(t, f.Worst)
	require.Nil(t, f.Least, "it has no such bound")
	require.Nil(t, first.Figures[1].Value, "infinite")
	require.Nil(t, first.Figures[1].Each[0], "not a number")
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
