package report

import (
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
