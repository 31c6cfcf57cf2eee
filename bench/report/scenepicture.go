package report

import (
	"cmp"
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/quivernet/quiver/internal/scenes"
)

const (
	sceneWidth, sceneHeight = 10 * vg.Inch, 8 * vg.Inch
	sceneLegend             = 1.3 * vg.Inch
	sceneTitle              = 0.75 * vg.Inch
)

// A view is a played scene and how a picture shows it.
type view struct {
	scenes.Result
	begin time.Duration
	end   time.Duration
	each  time.Duration // interval between points of goodput and queue
	loss  time.Duration // interval between points of loss
	title string
	stamp string // revision and seed with which it was played
}

// draw draws the title and, below it, the plots one below the other.
func (v view) draw(whole draw.Canvas) error {
	rows, err := v.panels()
	if err != nil {
		return err
	}
	legend := rows[0][0].Legend
	for _, row := range rows {
		row[0].Legend = plot.NewLegend()
	}
	tiles := draw.Tiles{Rows: len(rows), Cols: 1, PadY: vg.Points(10)}
	for i, canvas := range plot.Align(rows, tiles, draw.Crop(whole, 0, -sceneLegend, 0, -sceneTitle)) {
		rows[i][0].Draw(canvas[0])
	}
	legend.Draw(draw.Crop(whole, whole.Max.X-whole.Min.X-sceneLegend+vg.Points(10), 0, 0, -sceneTitle))
	v.writeTitle(whole)
	return nil
}

// panels returns a column of plots over the same time. The legend of the first one is for all of
// them.
func (v view) panels() (rows [][]*plot.Plot, err error) {
	for _, panel := range []func() (*plot.Plot, error){v.rates, v.queue, v.losses} {
		p, err := panel()
		if err != nil {
			return nil, err
		}
		p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = v.begin.Seconds(), v.end.Seconds(), 0, 1.04*p.Y.Max
		p.X.Tick.Marker, p.Y.Tick.Marker = ticks{10}, ticks{4}
		rows = append(rows, []*plot.Plot{p})
	}
	rows[2][0].X.Label.Text = "s"
	return rows, nil
}

func newView(row scenes.Row, seed uint64, stamp string) view {
	r := scenes.Run(row.Scene, seed)
	v := view{Result: r, end: time.Duration(len(r.Queue)) * scenes.Step, title: row.Name(), stamp: stamp}
	v.begin = v.end
	for _, f := range r.Scene.Flows {
		v.begin = min(v.begin, f.Begin)
	}
	switch {
	case v.end-v.begin <= 5*time.Second:
		v.each, v.loss = 2*scenes.Step, 200*time.Millisecond
	case v.end <= 30*time.Second:
		v.each, v.loss = 100*time.Millisecond, time.Second
	default:
		v.each, v.loss = 200*time.Millisecond, time.Second
	}
	return v
}

// writeTitle writes the row's name, how the flows share the bottleneck, and the stamp.
func (v view) writeTitle(c draw.Canvas) {
	style := text.Style{Color: color.Black, Font: plot.DefaultFont, YAlign: text.YTop, Handler: plot.DefaultTextHandler}
	style.Font.Size = vg.Points(14)
	c.FillText(style, vg.Point{X: vg.Points(10), Y: c.Max.Y - vg.Points(4)}, v.title)
	style.Font.Size = vg.Points(11)
	c.FillText(style, vg.Point{X: vg.Points(10), Y: c.Max.Y - vg.Points(24)}, v.shares())
	style.Font.Size = vg.Points(9)
	c.FillText(style, vg.Point{X: vg.Points(10), Y: c.Max.Y - vg.Points(40)}, v.stamp)
}

// shares returns Jain's index of the transfers, and the goodput of each kind as a part of what the
// bottleneck could carry, over the second half of the time in which all flows run.
func (v view) shares() string {
	from := time.Duration(0)
	for _, f := range v.Scene.Flows {
		from = max(from, f.Begin)
	}
	from = (from + (v.end-from)/2).Truncate(scenes.Step)
	var rates []float64
	var parts []string
	for _, kind := range v.kinds() {
		sum := v.Share(kind, from, v.end) * float64(v.Scene.There.Rate)
		parts = append(parts, fmt.Sprintf("%v %.3g %%", kind, 100*sum/v.capacity(from)))
		if kind != scenes.Constant && kind != scenes.Play {
			rates = append(rates, v.Rates(kind, from, v.end)...)
		}
	}
	s := fmt.Sprintf("Of the bottleneck's rate: %s, from %.3g s on.", strings.Join(parts, ", "), from.Seconds())
	if len(rates) > 1 {
		s = fmt.Sprintf("Jain's index %.3f. ", scenes.Jain(rates)) + s
	}
	return s
}

// capacity returns the mean rate in bit/s that the path carries from a time until the end.
func (v view) capacity(from time.Duration) float64 {
	sum, n := 0.0, 0.0
	for t := from; t < v.end; t += scenes.Step {
		sum, n = sum+v.Scene.CarriesAt(t), n+1
	}
	return sum / max(n, 1)
}

// kinds returns the kinds of the flows, in the order of their numbers.
func (v view) kinds() (kinds []scenes.Kind) {
	for _, f := range v.Scene.Flows {
		kinds = append(kinds, f.Kind)
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

func (v view) rates() (*plot.Plot, error) {
	var limit plotter.XYs
	for t := v.begin; t < v.end; t += v.each {
		limit = append(limit, plotter.XY{X: t.Seconds(), Y: v.Scene.CarriesAt(t) / 1e6})
	}
	p, err := v.flows("goodput, Mbit/s", v.each, func(f scenes.FlowResult, from, until time.Duration) float64 {
		return f.Rate(from, until) / 1e6
	})
	if err != nil {
		return nil, err
	}
	return p, dashed(p, corners(limit))
}

func (v view) losses() (*plot.Plot, error) {
	p, err := v.flows("packets lost, %", v.loss, func(f scenes.FlowResult, from, until time.Duration) float64 {
		done := f.Between(from, until)
		return 100 * float64(done.Lost) / float64(max(done.Sent, 1))
	})
	if err == nil {
		p.Y.Max = max(p.Y.Max, 1)
	}
	return p, err
}

// flows draws one line for each flow, whose value at each step is returned by of.
func (v view) flows(unit string, each time.Duration, of func(f scenes.FlowResult, from, until time.Duration) float64) (*plot.Plot, error) {
	p := newPlot("", unit)
	p.Add(plotter.NewGrid())
	number := make(map[scenes.Kind]int)
	for i, f := range v.Flows {
		kind := v.Scene.Flows[i].Kind
		var points plotter.XYs
		for t := v.Scene.Flows[i].Begin.Truncate(each); t+each <= v.end; t += each {
			points = append(points, plotter.XY{X: (t + each/2).Seconds(), Y: of(f, t, t+each)})
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			return nil, err
		}
		line.Color, line.Width = v.shade(kind, number[kind]), vg.Points(1.1)
		number[kind]++
		p.Add(line)
		p.Legend.Add(v.label(kind, number[kind]), line)
	}
	return p, nil
}

// label returns the name of a flow, with a number if there are several of its kind.
func (v view) label(k scenes.Kind, number int) string {
	if v.count(k) == 1 {
		return k.String()
	}
	return fmt.Sprintf("%v %d", k, number)
}

func (v view) count(k scenes.Kind) (n int) {
	for _, f := range v.Scene.Flows {
		if f.Kind == k {
			n++
		}
	}
	return n
}

// hues are the colours of the flows of a kind, in their order.
var hues = map[scenes.Kind][3]color.NRGBA{
	scenes.Ours:     {{0x0b, 0x1f, 0x5e, 255}, {0x1f, 0x8f, 0xd4, 255}, {0x5c, 0xd1, 0x9a, 255}},
	scenes.Reno:     {{0x8a, 0x25, 0x02, 255}, {0xe6, 0x55, 0x0d, 255}, {0xfd, 0xb8, 0x63, 255}},
	scenes.Cubic:    {{0x8a, 0x25, 0x02, 255}, {0xe6, 0x55, 0x0d, 255}, {0xfd, 0xb8, 0x63, 255}},
	scenes.BBR:      {{0x7a, 0x01, 0x77, 255}, {0xdd, 0x34, 0x97, 255}, {0xfa, 0x9f, 0xb5, 255}},
	scenes.Constant: {{0x44, 0x44, 0x44, 255}, {0x77, 0x77, 0x77, 255}, {0xaa, 0xaa, 0xaa, 255}},
	scenes.Play:     {{0x66, 0x8a, 0x00, 255}, {0x88, 0xaa, 0x22, 255}, {0xaa, 0xcc, 0x44, 255}},
}

func (v view) shade(k scenes.Kind, number int) color.NRGBA {
	at := 2 * float64(number) / float64(max(v.count(k)-1, 1))
	if at <= 1 {
		return blend(hues[k][0], hues[k][1], at)
	}
	return blend(hues[k][1], hues[k][2], at-1)
}

// queue draws how long a packet would wait and, unless that is far above, the wait in a full queue.
func (v view) queue() (*plot.Plot, error) {
	p := newPlot("", "queue, ms")
	var waits, full plotter.XYs
	for t := v.begin; t+v.each <= v.end; t += v.each {
		at := (t + v.each/2).Seconds()
		waits = append(waits, plotter.XY{X: at, Y: v.StandingQueue(t, t+v.each).Seconds() * 1e3})
		full = append(full, plotter.XY{X: at, Y: float64(v.Scene.There.Queue) * 8e3 / v.Scene.RateAt(t)})
	}
	line, err := plotter.NewLine(waits)
	if err != nil {
		return nil, err
	}
	line.Color, line.Width = color.Black, vg.Points(1.1)
	p.Add(plotter.NewGrid(), line)
	highest := func(all plotter.XYs) float64 {
		return slices.MaxFunc(all, func(a, b plotter.XY) int { return cmp.Compare(a.Y, b.Y) }).Y
	}
	if highest(full) > 3*highest(waits) {
		return p, nil
	}
	return p, dashed(p, corners(full))
}

// dashed adds a dashed line for a limit, which is the bottleneck's rate or a full queue.
func dashed(p *plot.Plot, points plotter.XYs) error {
	line, err := plotter.NewLine(points)
	if err != nil {
		return err
	}
	line.Color, line.Dashes = color.Gray{0x80}, []vg.Length{vg.Points(4), vg.Points(3)}
	p.Add(line)
	p.Legend.Add("limit", line)
	return nil
}

// corners removes points of a line that are between two points of the same height.
func corners(points plotter.XYs) (kept plotter.XYs) {
	for i, p := range points {
		if i == 0 || i == len(points)-1 || points[i-1].Y != p.Y || points[i+1].Y != p.Y {
			kept = append(kept, p)
		}
	}
	return kept
}

// A ticks marks an axis at round numbers.
type ticks struct{ limit float64 } // maximum number of marks

// Ticks implements plot.Ticker.
func (k ticks) Ticks(lowest, highest float64) (marks []plot.Tick) {
	step := math.Pow(10, math.Floor(math.Log10((highest-lowest)/k.limit)))
	for _, wider := range []float64{2, 2.5, 2} { // 1, 2, 5, 10
		if (highest-lowest)/step <= k.limit {
			break
		}
		step *= wider
	}
	for i := math.Ceil(lowest / step); i*step <= highest; i++ {
		marks = append(marks, plot.Tick{Value: i * step, Label: fmt.Sprintf("%.6g", i*step)})
	}
	return marks
}
