package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/quivernet/quiver/bench/job"
)

// A cell holds all runs of one job.
type cell struct {
	job.Job
	runs []job.Result
}

// cells groups the results with figures of a scenario and a clock, sorted by path and then by
// contender.
func (d *Document) cells(scenario string, clock job.Clock) []*cell {
	var all []*cell
	by := make(map[string]*cell)
	for _, r := range d.Results {
		if r.Scenario != scenario || r.Clock != clock || r.Err != "" {
			continue
		}
		name := r.Cell()
		if by[name] == nil {
			by[name] = &cell{Job: r.Job}
			all = append(all, by[name])
		}
		by[name].runs = append(by[name].runs, r)
	}
	rank := func(name string) int {
		return slices.IndexFunc(d.Contenders, func(c Contender) bool { return c.Name == name })
	}
	slices.SortStableFunc(all, func(a, b *cell) int {
		return cmp.Or(cmp.Compare(a.Rate, b.Rate), cmp.Compare(a.Size, b.Size), cmp.Compare(a.RTT, b.RTT), cmp.Compare(a.Loss, b.Loss),
			cmp.Compare(a.Mode, b.Mode), cmp.Compare(b.Hz, a.Hz), cmp.Compare(a.Count, b.Count), cmp.Compare(rank(a.Peer), rank(b.Peer)))
	})
	return all
}

// values returns the sorted values of a name in all runs that have it.
func (c *cell) values(name string) (all []float64) {
	for _, r := range c.runs {
		if v, ok := r.Values[name]; ok {
			all = append(all, v)
		}
	}
	slices.Sort(all)
	return all
}

// median returns the median of a value over the runs. ok is false if no run has it.
func (c *cell) median(name string) (v float64, ok bool) {
	all := c.values(name)
	if len(all) == 0 {
		return 0, false
	}
	if n := len(all); n%2 == 0 {
		return (all[n/2-1] + all[n/2]) / 2, true
	}
	return all[len(all)/2], true
}

// minQuartileRuns is the minimum number of runs with quartiles; those of fewer runs would be their
// minimum and maximum.
const minQuartileRuns = 5

// quartiles returns the quartiles of a value over the runs. ok is false if too few runs have it.
func (c *cell) quartiles(name string) (low, high float64, ok bool) {
	all := c.values(name)
	if len(all) < minQuartileRuns {
		return 0, 0, false
	}
	last := len(all) - 1
	return all[last/4], all[last-last/4], true
}

// spread returns the number of runs, and how much a value differs between them.
func (c *cell) spread(value string) string {
	all := c.values(value)
	median, _ := c.median(value)
	if len(all) < 2 || median == 0 {
		return strconv.Itoa(len(c.runs))
	}
	return fmt.Sprintf("%d, %.0f %%", len(c.runs), 100*(slices.Max(all)-slices.Min(all))/median)
}

// cut reports whether a run was cut.
func (c *cell) cut() bool {
	return slices.ContainsFunc(c.runs, func(r job.Result) bool { return r.Cut })
}

// dagger marks a cell with a run that was disturbed. disturbedNote explains the mark below a table
// that has one.
const (
	dagger        = " †"
	disturbedNote = "†: the machine disturbed a run in these figures, even when the run was repeated."
)

// mark returns text, with a dagger if a run of the cell was disturbed.
func (c *cell) mark(text string) string {
	if slices.ContainsFunc(c.runs, func(r job.Result) bool { return r.Disturbed() }) {
		return text + dagger
	}
	return text
}

// names returns the peers of the cells in the document's order.
func (d *Document) names(cells []*cell) []string {
	var names []string
	for _, p := range d.Contenders {
		if slices.ContainsFunc(cells, func(c *cell) bool { return c.Peer == p.Name }) {
			names = append(names, p.Name)
		}
	}
	return names
}
