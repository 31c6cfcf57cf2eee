package report

import (
	"fmt"
	"html/template"
	"image/color"
	"math"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
)

type htmlText = template.HTML

// worst is the ratio at the end of the colour scale.
const worst = 10

// heatMaps returns charts of time over ideal, with contenders against paths.
func (d *Document) heatMaps() ([]picture, error) {
	var all []picture
	for _, p := range d.panels() {
		drawn, err := p.heatMap()
		if err != nil {
			return nil, err
		}
		all = append(all, picture{"Time over ideal: " + p.title(),
			"1 is as fast as the link can be; blue is near it, red ten times as long or more, '>' was cut. Columns are RTT and loss.", drawn})
	}
	return all, nil
}

func (p *panel) heatMap() (htmlText, error) {
	plot := newPlot("", "")
	h := plotter.NewHeatMap(p, scale{})
	h.Min, h.Max = 0, math.Log(worst)
	h.NaN = color.White
	h.Overflow, h.Underflow = stops[len(stops)-1], stops[0]
	labels, err := plotter.NewLabels(p)
	if err != nil {
		return "", err
	}
	for i := range labels.TextStyle {
		labels.TextStyle[i].XAlign, labels.TextStyle[i].YAlign = text.XCenter, text.YCenter
		labels.TextStyle[i].Font.Size = vg.Points(9)
	}
	plot.Add(h, labels)
	plot.NominalX(p.paths...)
	var names []string
	for i := range p.peers {
		names = append(names, p.peers[len(p.peers)-1-i])
	}
	plot.NominalY(names...)
	plot.X.Tick.Label.Rotation, plot.X.Tick.Label.XAlign, plot.X.Tick.Label.YAlign = 0.6, -0.9, -0.4
	return svg(vg.Length(len(p.peers))*0.28*vg.Inch+1.2*vg.Inch, plot)
}

// at returns the cell in a column, counted from the left, and a row, counted from the bottom.
func (p *panel) at(c, r int) *cell {
	return p.cells[[2]string{p.paths[c], p.peers[len(p.peers)-1-r]}]
}

// Dims, X, Y and Z implement plotter.GridXYZ.
func (p *panel) Dims() (c, r int) { return len(p.paths), len(p.peers) }
func (p *panel) X(c int) float64  { return float64(c) }
func (p *panel) Y(r int) float64  { return float64(r) }
func (p *panel) Z(c, r int) float64 {
	x := p.at(c, r)
	if x == nil {
		return math.NaN()
	}
	v, _ := x.median("over_ideal")
	return math.Log(v)
}

// Len, XY and Label implement plotter.XYLabeller.
func (p *panel) Len() int { return len(p.paths) * len(p.peers) }

func (p *panel) XY(i int) (x, y float64) {
	return float64(i % len(p.paths)), float64(i / len(p.paths))
}

func (p *panel) Label(i int) string {
	x := p.at(i%len(p.paths), i/len(p.paths))
	if x == nil {
		return ""
	}
	v, _ := x.median("over_ideal")
	if x.cut() {
		return ">" + ratio(v)
	}
	return ratio(v)
}

// ratio formats a ratio with its significant digits.
func ratio(v float64) string {
	if v < 9.995 {
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.0f", v)
}
