package scenes

import (
	"fmt"
	"slices"
	"time"
)

// Row is a scene with what it must show.
type Row struct {
	Family string
	Scene  Scene
	Judge  func(r Result) []Figure
	// Beside plays the scene a second time with flows of this kind in place of ours, and Compare judges both. Compare nil =
	// the scene is played once.
	Beside  Kind
	Compare func(ours, theirs Result) []Figure
	// Binds says what keeps a row like this from its bounds, where they are not met; empty = nothing is known to.
	Binds string
}

// Name returns the row's family and its scene's name.
func (row Row) Name() string { return row.Family + ": " + row.Scene.Name }

// Figure is one measured value and its bounds; a zero bound is none.
type Figure struct {
	Name        string
	Value       float64
	Least, Most float64
	Worst       bool // over the seeds the greatest counts, and not the median: a median hides that one of five collapses
}

// Held reports whether the value is within its bounds.
func (f Figure) Held() bool {
	return (f.Most == 0 || f.Value <= f.Most) && (f.Least == 0 || f.Value >= f.Least)
}

func (f Figure) String() string {
	s := fmt.Sprintf("%s %.3g", f.Name, f.Value)
	if f.Most != 0 {
		s += fmt.Sprintf(" (at most %.3g)", f.Most)
	}
	if f.Least != 0 {
		s += fmt.Sprintf(" (at least %.3g)", f.Least)
	}
	return s
}

func atMost(name string, value, most float64) Figure {
	return Figure{Name: name, Value: value, Most: most}
}
func atLeast(name string, value, least float64) Figure {
	return Figure{Name: name, Value: value, Least: least}
}

// Play runs a row with each seed and returns the median of each figure, or the worst.
func (row Row) Play(seeds ...uint64) []Figure { return row.PlayAs(Ours, seeds...) }

// PlayAs is Play with flows of a kind in place of ours, which are judged as ours are.
func (row Row) PlayAs(k Kind, seeds ...uint64) []Figure {
	var all [][]Figure
	for _, seed := range seeds {
		all = append(all, row.figures(k, seed))
	}
	return medians(all)
}

func (row Row) figures(k Kind, seed uint64) (figures []Figure) {
	r := Run(row.Scene.instead(k), seed)
	r.Scene = row.Scene
	if row.Judge != nil {
		figures = row.Judge(r)
	}
	if row.Compare != nil {
		figures = append(figures, row.Compare(r, Run(row.Scene.instead(row.Beside), seed))...)
	}
	return figures
}

// Models reports whether models of others can stand in for our flows: they have no trains, addresses or pauses.
func (row Row) Models() bool {
	return !slices.ContainsFunc(row.Scene.Flows, func(f Flow) bool {
		return f.Train > 0 || f.Moves > 0 || f.Pause != nil || f.Refill > 0
	})
}

// instead returns the scene with flows of another kind in place of ours.
func (s Scene) instead(k Kind) Scene {
	s.Flows = slices.Clone(s.Flows)
	for i := range s.Flows {
		if s.Flows[i].Kind == Ours {
			s.Flows[i].Kind = k
		}
	}
	return s
}

func medians(all [][]Figure) []Figure {
	middle := slices.Clone(all[0])
	for i := range middle {
		var values []float64
		for _, figures := range all {
			values = append(values, figures[i].Value)
		}
		slices.Sort(values)
		if middle[i].Value = values[len(values)/2]; middle[i].Worst {
			middle[i].Value = values[len(values)-1]
		}
	}
	return middle
}

// ratio is the time of the first flow over the ideal; a transfer that has not ended counts as long as the scene.
func ratio(r Result) float64 {
	f := r.Scene.Flows[0]
	took := r.Flows[0].Ended
	if took == 0 {
		took = r.Scene.For - f.Begin
	}
	return took.Seconds() / r.Scene.ideal(f).Seconds()
}

// ideal is how long a flow takes at best, with the rate's changes.
func (s Scene) ideal(f Flow) time.Duration {
	if len(s.Rates) == 0 {
		return s.Ideal(f.Bytes)
	}
	left := float64(f.Bytes) * 8 / (1 - s.randomLoss())
	at, rate := f.Begin, float64(s.There.Rate)
	for _, c := range s.Rates {
		if c.At > at {
			if carried := (c.At - at).Seconds() * rate; carried >= left {
				break
			} else {
				left, at = left-carried, c.At
			}
		}
		rate = float64(c.Bit)
	}
	return at - f.Begin + time.Duration(left*1e9/rate) + s.There.Delay
}

// wire is what the first flow put on the wire, over its bytes, since its beginning.
func wire(r Result) float64 {
	f := r.Scene.Flows[0]
	return float64(r.Flows[0].Between(f.Begin, r.Scene.For).Wire) / float64(f.Bytes)
}
