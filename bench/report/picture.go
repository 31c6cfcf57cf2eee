package report

import (
	"fmt"
	"image/color"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"

	"github.com/quivernet/quiver/bench/job"
)

// pictures returns the charts of the page.
func (d *Document) pictures() ([]picture, error) {
	var all []picture
	for _, draw := range []func() ([]picture, error){d.heatMaps, d.wires, d.latencies, d.overTime} {
		some, err := draw()
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// wires returns bar charts of bytes on the wire as a multiple of the payload.
func (d *Document) wires() ([]picture, error) {
	var all []picture
	for _, p := range d.panels() {
		means := p.wire()
		if len(means) == 0 {
			continue
		}
		chart := newPlot("", "bytes on the wire / payload")
		bars, err := plotter.NewBarChart(means, 0.5*vg.Inch)
		if err != nil {
			return nil, err
		}
		bars.Color, bars.LineStyle.Width = plotutil.Color(2), 0
		chart.Add(plotter.NewGrid(), bars)
		chart.NominalX(p.peers...)
		chart.X.Tick.Label.Rotation, chart.X.Tick.Label.XAlign, chart.X.Tick.Label.YAlign = 0.35, -0.9, -0.5
		chart.Y.Min, chart.X.Min, chart.X.Max = 0, -0.6, float64(len(p.peers))-0.4
		text, err := svg(3*vg.Inch, chart)
		if err != nil {
			return nil, err
		}
		all = append(all, picture{"On the wire: " + p.title(), "The sender's UDP payload over the blob's bytes, the mean of all paths on which it came through.", text})
	}
	return all, nil
}

// wire returns the mean over the paths for each peer, or nil if no peer has any.
func (p *panel) wire() plotter.Values {
	means, found := make(plotter.Values, len(p.peers)), false
	for i, name := range p.peers {
		n := 0.0
		for _, path := range p.paths {
			c := p.cells[[2]string{path, name}]
			if c == nil || c.cut() {
				continue
			}
			v, _ := c.median("wire_over_payload")
			means[i] += v
			n++
		}
		if n > 0 {
			means[i], found = means[i]/n, true
		}
	}
	if !found {
		return nil
	}
	return means
}

// latencies returns charts of the share of messages that took longer than a given time.
func (d *Document) latencies() ([]picture, error) {
	var all []picture
	for _, clock := range clocks {
		groups := groupBy(d.cells("play", clock.clock))
		for _, g := range groups {
			text, err := distribution(g.cells)
			if err != nil {
				return nil, err
			}
			all = append(all, picture{fmt.Sprintf("Messages %s (%s): %s", g.cells[0].Mode, clock.name, g.row),
				"The share of messages that took longer than so long. Down and to the left is better.", text})
		}
	}
	return all, nil
}

type group struct {
	row   string
	cells []*cell
}

func groupBy(cells []*cell) []group {
	var groups []group
	for _, c := range cells {
		if n := len(groups); n == 0 || groups[n-1].row != c.Row() {
			groups = append(groups, group{row: c.Row()})
		}
		groups[len(groups)-1].cells = append(groups[len(groups)-1].cells, c)
	}
	return groups
}

func distribution(cells []*cell) (text htmlText, err error) {
	p := newPlot("ms", "share of messages that took longer")
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	p.Add(plotter.NewGrid())
	for i, c := range cells {
		var samples []float64
		for _, r := range c.runs {
			samples = append(samples, r.Samples...)
		}
		if len(samples) == 0 {
			continue
		}
		slices.Sort(samples)
		if err := addLine(p, i, c.Peer, beyond(samples)); err != nil {
			return "", err
		}
	}
	return svg(4.5*vg.Inch, p)
}

// beyond returns the complementary distribution of sorted samples, in no more than a few hundred
// points.
func beyond(sorted []float64) plotter.XYs {
	const dense = 400 // points while the share is large
	var points plotter.XYs
	n := len(sorted)
	for i := 0; i < n; i += max(1, min(n/dense, (n-i)/20)) {
		points = append(points, plotter.XY{X: max(sorted[i], 0.1), Y: float64(n-i) / float64(n)})
	}
	return append(points, plotter.XY{X: max(sorted[n-1], 0.1), Y: 1 / float64(n)})
}

type lineStyle struct {
	color  color.Color
	dashes []vg.Length
}

// styleOf returns the line style of series i: seven colours, then dashes.
func styleOf(i int) lineStyle {
	return lineStyle{plotutil.DarkColors[i%len(plotutil.DarkColors)], plotutil.Dashes(i / len(plotutil.DarkColors))}
}

func addLine(p *plot.Plot, i int, name string, points plotter.XYs) error {
	line, err := plotter.NewLine(points)
	if err != nil {
		return err
	}
	s := styleOf(i)
	line.Color, line.Dashes, line.Width = s.color, s.dashes, vg.Points(1.6)
	p.Add(line)
	p.Legend.Add(name, line)
	return nil
}

// overTime returns charts of the rate and the queue of single blobs, one row for each contender, on
// the same scales.
func (d *Document) overTime() ([]picture, error) {
	var all []picture
	series := slices.DeleteFunc(d.cells("blob", job.Virtual), func(c *cell) bool { return c.runs[0].Series == nil })
	for _, g := range groupBy(series) {
		var rows [][]*plot.Plot
		for _, c := range g.cells {
			rate, err := timeline(c, "mbit_per_second", "Mbit/s", 2, g.cells)
			if err != nil {
				return nil, err
			}
			queue, err := timeline(c, "queue_ms", "queue, ms", 0, g.cells)
			if err != nil {
				return nil, err
			}
			rows = append(rows, []*plot.Plot{rate, queue})
		}
		text, err := grid(1.3*vg.Inch, rows)
		if err != nil {
			return nil, err
		}
		all = append(all, picture{"One blob over time: " + g.row, "What enters the path, and how long its queue is at most in each step of 50 ms, over seconds. In virtual time.", text})
	}
	return all, nil
}

// timeline draws one series, with the scales of all.
func timeline(c *cell, name, unit string, colour int, all []*cell) (*plot.Plot, error) {
	p := newPlot(c.Peer, unit)
	for _, other := range all {
		r := other.runs[0]
		p.X.Max = max(p.X.Max, float64(len(r.Series[name]))*r.Step.Seconds())
		p.Y.Max = max(p.Y.Max, slices.Max(append([]float64{1}, r.Series[name]...)))
	}
	p.X.Min, p.Y.Min = 0, 0
	line, err := plotter.NewLine(points(c.runs[0], name))
	if err != nil {
		return nil, err
	}
	line.Color = plotutil.Color(colour)
	p.Add(plotter.NewGrid(), line)
	return p, nil
}

func points(r job.Result, name string) plotter.XYs {
	xys := plotter.XYs{{}}
	for i, v := range r.Series[name] {
		xys = append(xys, plotter.XY{X: float64(i+1) * r.Step.Seconds(), Y: v})
	}
	return xys
}
