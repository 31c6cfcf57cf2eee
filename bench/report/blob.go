package report

import (
	"fmt"
	"slices"

	"github.com/quivernet/quiver/bench/job"
)

// A panel holds the blobs of one clock, rate and size, with paths against contenders.
type panel struct {
	clock string
	rate  int64
	size  int
	peers []string
	paths []string // RTT and loss, as text
	cells map[[2]string]*cell
}

// panels returns the panels of scenario blob.
func (d *Document) panels() []*panel {
	var all []*panel
	for _, clock := range clocks {
		cells := slices.DeleteFunc(d.cells("blob", clock.clock), func(c *cell) bool { return c.Mode != "" })
		for _, c := range cells {
			p := findOrAdd(&all, clock.name, c.Job)
			path := fmt.Sprintf("%v, %s", c.RTT, job.Share(c.Loss))
			if !slices.Contains(p.paths, path) {
				p.paths = append(p.paths, path)
			}
			p.cells[[2]string{path, c.Peer}] = c
		}
		for _, p := range all {
			if p.clock == clock.name {
				p.peers = d.names(cells)
			}
		}
	}
	return all
}

// findOrAdd returns the panel of a clock and a job, which it adds if there is none.
func findOrAdd(all *[]*panel, clock string, j job.Job) *panel {
	for _, p := range *all {
		if p.clock == clock && p.rate == j.Rate && p.size == j.Size {
			return p
		}
	}
	p := &panel{clock: clock, rate: j.Rate, size: j.Size, cells: make(map[[2]string]*cell)}
	*all = append(*all, p)
	return p
}

func (p *panel) title() string {
	return fmt.Sprintf("%s over %s (%s)", job.Bytes(p.size), job.Rate(p.rate), p.clock)
}

// table returns time over ideal with its quartiles, and bytes on the wire over payload in brackets.
func (p *panel) table() table {
	t := table{title: p.title(), note: "Time over ideal, the median of all runs, and if there are five or more their quartiles in square brackets; in round ones the sender's UDP payload over the blob. '>': cut at that."}
	t.rows = append(t.rows, append([]string{"RTT, loss"}, p.peers...))
	for _, path := range p.paths {
		row := []string{path}
		for _, name := range p.peers {
			row = append(row, p.cells[[2]string{path, name}].ratio())
		}
		t.rows = append(t.rows, row)
	}
	return t
}

// ratio returns the text of a cell, or "" if it has no figures.
func (c *cell) ratio() string {
	if c == nil {
		return ""
	}
	over, _ := c.median("over_ideal")
	wire, _ := c.median("wire_over_payload")
	if c.cut() {
		return c.mark(">" + ratio(over))
	}
	text := fmt.Sprintf("%.2f", over)
	if low, high, ok := c.quartiles("over_ideal"); ok {
		text += fmt.Sprintf(" [%.2f–%.2f]", low, high)
	}
	return c.mark(fmt.Sprintf("%s (%.2f)", text, wire))
}
