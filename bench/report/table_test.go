package report

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bench/job"
)

func TestTableTellsTheSpread(t *testing.T) {
	d := &Document{Contenders: []Contender{{Name: "a"}, {Name: "b"}}}
	add := func(peer string, run int, speed float64) {
		r := job.Result{Job: job.Job{Scenario: "clean", Peer: peer, Clock: job.Loopback, Size: 1 << 20, Run: run}}
		r.Set("mb_per_second", speed)
		d.Add(r)
	}
	add("a", 0, 90)
	add("b", 0, 50)
	require.Equal(t, [][]string{{"what", "contender", "MB/s"}, {"1 MiB", "a", "90"}, {"1 MiB", "b", "50"}}, d.figures()[0].rows)
	add("a", 1, 100)
	add("a", 2, 120)
	require.Equal(t, [][]string{{"what", "contender", "MB/s", "runs, spread"}, {"1 MiB", "a", "100", "3, 30 %"}, {"1 MiB", "b", "50", "1"}}, d.figures()[0].rows)
}

// TestDisturbedCellsAreMarked: a dagger is on the cells of runs that the machine disturbed, in
// tables of blobs and in the others, and its meaning below these tables only.
func TestDisturbedCellsAreMarked(t *testing.T) {
	d := &Document{Contenders: []Contender{{Name: "a"}, {Name: "b"}}, Sittings: []Sitting{{}}}
	for _, scenario := range []string{"blob", "clean", "start"} {
		for _, peer := range []string{"a", "b"} {
			r := job.Result{Job: job.Job{Scenario: scenario, Peer: peer, Clock: job.Relay}, Notes: []string{"carried by quic"}}
			r.Set("over_ideal", 2)
			r.Set("wire_over_payload", 1.5)
			r.Set("mb_per_second", 7)
			if peer == "b" && scenario != "start" {
				r.Notes = append(r.Notes, job.Disturbed+"87ms")
			}
			d.Add(r)
		}
	}
	var markdown, page strings.Builder
	require.NoError(t, d.WriteMarkdown(&markdown))
	require.NoError(t, d.WriteHTML(&page))
	require.Contains(t, markdown.String(), "| 2.00 (1.50) | 2.00 (1.50) † |\n\n†: the machine")
	require.Contains(t, markdown.String(), "| a | 7 |")
	require.Contains(t, markdown.String(), "| b † | 7 |\n\n†: the machine")
	for _, text := range []string{markdown.String(), page.String()} {
		require.Equal(t, 4, strings.Count(text, "†"))
		require.Equal(t, 2, strings.Count(text, "†: the machine"))
	}
}

// TestBlobsTellTheirQuartiles, if there are five runs.
func TestBlobsTellTheirQuartiles(t *testing.T) {
	d := &Document{Contenders: []Contender{{Name: "a"}}, Sittings: []Sitting{{}}}
	for run, over := range []float64{2.1, 1.04, 1.06, 2.2} {
		r := job.Result{Job: job.Job{Scenario: "blob", Peer: "a", Clock: job.Virtual, Run: run}}
		r.Set("over_ideal", over)
		r.Set("wire_over_payload", 1.2)
		d.Add(r)
	}
	require.Equal(t, "1.58 (1.20)", d.panels()[0].table().rows[1][1])
	d.Results[3].Run = 4
	d.Add(job.Result{Job: job.Job{Scenario: "blob", Peer: "a", Clock: job.Virtual, Run: 3}, Values: map[string]float64{"over_ideal": 1, "wire_over_payload": 1.2}})
	require.Equal(t, "1.06 [1.04–2.10] (1.20)", d.panels()[0].table().rows[1][1])
	d.Results[0].Cut = true
	require.Equal(t, ">1.06", d.panels()[0].table().rows[1][1])
}
