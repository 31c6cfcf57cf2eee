package pace_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/pace"
)

var plots = flag.String("plots", "", "folder that BenchmarkPlots writes rate and queue over time to, as CSV and SVG; empty = a temporary one")

// point is what a plot shows of one time.
type point struct {
	at    time.Duration
	rates []float64 // Mbit/s of payload received since the point before, by flow
	state []pace.State
	queue time.Duration
}

// trace watches flows.
func trace(w *world, each time.Duration, flows ...*bulk) *[]point {
	points := new([]point)
	before := make([]int, len(flows))
	w.each, w.watched = each, w.now
	w.watch = func(since time.Duration) {
		p := point{at: since, queue: w.there.backlog(w.now)}
		for i, f := range flows {
			p.rates = append(p.rates, float64(f.received-before[i])*8/each.Seconds()/1e6)
			before[i] = f.received
			state := pace.State(0)
			if c, ok := f.ctl.(*pace.Controller); ok {
				state = c.State()
			}
			p.state = append(p.state, state)
		}
		*points = append(*points, p)
	}
	return points
}

func csv(points []point) string {
	var s strings.Builder
	for _, p := range points {
		fmt.Fprintf(&s, "%.3f,%.2f", p.at.Seconds(), p.queue.Seconds()*1e3)
		for i := range p.rates {
			fmt.Fprintf(&s, ",%.3f,%v", p.rates[i], p.state[i])
		}
		s.WriteByte('\n')
	}
	return s.String()
}

const plotWidth, plotHeight = 1000, 300

// svg draws the rates above the queue.
func svg(title string, points []point) string {
	var s strings.Builder
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", plotWidth+80, 2*plotHeight+80)
	fmt.Fprintf(&s, `<rect width="100%%" height="100%%" fill="white"/><text x="40" y="16">%s</text>`+"\n", title)
	colours := []string{"#1f77b4", "#d62728", "#2ca02c"}
	for i := range points[0].rates {
		curve(&s, 30, colours[i], "Mbit/s", points, func(p point) float64 { return p.rates[i] }, most(points, func(p point) float64 { return max(p.rates[0], p.rates[len(p.rates)-1]) }))
	}
	wait := func(p point) float64 { return p.queue.Seconds() * 1e3 }
	curve(&s, plotHeight+60, "#555", "queue, ms", points, wait, most(points, wait))
	s.WriteString("</svg>\n")
	return s.String()
}

func most(points []point, of func(point) float64) float64 {
	m := 1e-3
	for _, p := range points {
		m = max(m, of(p))
	}
	return m
}

// curve draws one value over time in a frame.
func curve(s *strings.Builder, top int, colour, unit string, points []point, of func(point) float64, scale float64) {
	end := points[len(points)-1].at.Seconds()
	fmt.Fprintf(s, `<rect x="40" y="%d" width="%d" height="%d" fill="none" stroke="#ccc"/>`, top, plotWidth, plotHeight)
	fmt.Fprintf(s, `<text x="44" y="%d">%.1f %s</text><text x="%d" y="%d">%.1f s</text>`, top+12, scale, unit, plotWidth, top+plotHeight-4, end)
	fmt.Fprintf(s, `<polyline fill="none" stroke="%s" points="`, colour)
	for _, p := range points {
		fmt.Fprintf(s, "%.1f,%.1f ", 40+p.at.Seconds()/end*plotWidth, float64(top+plotHeight)-of(p)/scale*plotHeight)
	}
	s.WriteString("\"/>\n")
}

// BenchmarkPlots writes a plot of each scene: go test -run - -bench Plots
// -plots out ./internal/pace.
func BenchmarkPlots(b *testing.B) {
	dir := *plots
	if dir == "" {
		dir = b.TempDir()
	}
	require.NoError(b, os.MkdirAll(dir, 0o755))
	for _, s := range scenes {
		b.Run(s.name, func(b *testing.B) {
			for range b.N {
				w, flows := s.make()
				points := trace(w, s.each, flows...)
				w.until(s.long, w.done)
				require.NoError(b, os.WriteFile(filepath.Join(dir, s.name+".csv"), []byte(csv(*points)), 0o644))
				require.NoError(b, os.WriteFile(filepath.Join(dir, s.name+".svg"), []byte(svg(s.name, *points)), 0o644))
			}
		})
	}
}

// scene is something to plot.
type scene struct {
	name string
	long time.Duration
	each time.Duration
	make func() (*world, []*bulk)
}

var scenes = []scene{
	{"alone", 12 * time.Second, 20 * ms, func() (*world, []*bulk) { return scenery(shared(0.01), 1) }},
	{"lossy", 12 * time.Second, 20 * ms, func() (*world, []*bulk) { return scenery(link{10e6, 100 * ms, 0.05}, 1) }},
	{"slow", 12 * time.Second, 20 * ms, func() (*world, []*bulk) { return scenery(link{2e6, 30 * ms, 0.02}, 1) }},
	{"train-4x-low", 4 * time.Second, 20 * ms, func() (*world, []*bulk) { return scenery(shared(0), 0.25) }},
	{"train-4x-high", 4 * time.Second, 20 * ms, func() (*world, []*bulk) { return scenery(shared(0), 4) }},
	{"no-train", 4 * time.Second, 20 * ms, func() (*world, []*bulk) { return scenery(shared(0), 0) }},
	{"rate-10-2-10", 20 * time.Second, 20 * ms, func() (*world, []*bulk) {
		s := newStage(link{10e6, 50 * ms, 0.01}, 1)
		s.at(6*time.Second, func() { s.there.rate = 2e6 })
		s.at(13*time.Second, func() { s.there.rate = 10e6 })
		return s.world, []*bulk{s.bulk}
	}},
	{"rtt-50-100-30", 35 * time.Second, 50 * ms, func() (*world, []*bulk) {
		s := newStage(link{20e6, 50 * ms, 0}, 1)
		s.at(5*time.Second, func() { s.there.delay, s.back.delay = 50*ms, 50*ms })
		s.at(25*time.Second, func() { s.there.delay, s.back.delay = 15*ms, 15*ms })
		return s.world, []*bulk{s.bulk}
	}},
	{"dark-5s", 14 * time.Second, 20 * ms, func() (*world, []*bulk) {
		s := newStage(link{20e6, 50 * ms, 0.01}, 1)
		s.at(3*time.Second, func() { s.there.dark = true })
		s.at(8*time.Second, func() { s.there.dark = false })
		return s.world, []*bulk{s.bulk}
	}},
	{"two", 20 * time.Second, 50 * ms, func() (*world, []*bulk) { return duet(shared(0).joined(0)) }},
	{"reno", 40 * time.Second, 50 * ms, func() (*world, []*bulk) { return duet(newReno(0.7)) }},
}

// scenery is a transfer alone on a link.
func scenery(l link, factor float64) (*world, []*bulk) {
	w := l.world(1)
	b := newBulk(0, endless, l.joined(factor), netsim.Epoch.Add(ms))
	w.flows = []flow{b}
	return w, []*bulk{b}
}

// duet is a transfer that gets company after 2 s.
func duet(other governor) (*world, []*bulk) {
	w, flows := scenery(shared(0), 1)
	second := newBulk(1, endless, other, netsim.Epoch.Add(2*time.Second))
	w.flows = append(w.flows, second)
	return w, append(flows, second)
}
