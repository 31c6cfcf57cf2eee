package scenes

import (
	"fmt"
	"slices"
	"time"
)

// A Row is a scene and the bounds for its result.
type Row struct {
	Family string
	Scene  Scene
	Judge  func(r Result) []Figure
	// Compare, if not nil, judges the result together with that of playing the scene with flows of
	// kind Beside instead of ours.
	Beside  Kind
	Compare func(ours, theirs Result) []Figure
	// Binds is the reason why the row misses a bound. It is empty if the row meets its bounds or no
	// reason is known.
	Binds string
}

// Name returns the row's family and its scene's name.
func (row Row) Name() string { return row.Family + ": " + row.Scene.Name }

// A Figure is one measured value with its bounds. A bound of 0 means no bound.
type Figure struct {
	Name        string
	Value       float64
	Least, Most float64
	// Worst selects the maximum over several seeds instead of the median, which would hide one
	// collapse in five runs.
	Worst bool
	Each  []float64 // the value for each seed, in order; set by Play and PlayAs
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

// Play plays a row once for each seed. It returns the median of each figure, or its maximum if
// Worst is set.
func (row Row) Play(seeds ...uint64) []Figure { return row.PlayAs(Ours, seeds...) }

// PlayAs is like Play with flows of another kind instead of ours, judged by the same bounds.
//
// The models of these kinds draw nothing at random, so on a path that draws nothing either, all
// seeds would give the same figures. Therefore each flow begins a little later, depending on the
// seed (see [Scene.Shifted]).
func (row Row) PlayAs(k Kind, seeds ...uint64) []Figure {
	var all [][]Figure
	for _, seed := range seeds {
		all = append(all, row.figures(k, seed))
	}
	return medians(all)
}

func (row Row) figures(k Kind, seed uint64) (figures []Figure) {
	s := row.Scene
	if k != Ours {
		s = s.Shifted(seed)
	}
	r := Run(s.instead(k), seed)
	r.Scene = s
	if row.Judge != nil {
		figures = row.Judge(r)
	}
	if row.Compare != nil {
		figures = append(figures, row.Compare(r, Run(s.instead(row.Beside), seed))...)
	}
	return figures
}

// Models reports whether PlayAs can replace our flows by models of other stacks. The models
// have no trains, address changes, pauses or play.
func (row Row) Models() bool {
	return !slices.ContainsFunc(row.Scene.Flows, func(f Flow) bool {
		return f.Train > 0 || f.Moves > 0 || f.Pause != nil || f.Refill > 0 || f.Plays
	})
}

// instead returns the scene with flows of another kind instead of ours.
func (s Scene) instead(k Kind) Scene {
	s.Flows = slices.Clone(s.Flows)
	for i := range s.Flows {
		if s.Flows[i].Kind == Ours {
			s.Flows[i].Kind = k
		}
	}
	return s
}

// medians returns the median of each figure, or its maximum if Worst is set.
func medians(all [][]Figure) []Figure {
	middle := slices.Clone(all[0])
	for i := range middle {
		var values []float64
		for _, figures := range all {
			values = append(values, figures[i].Value)
		}
		middle[i].Each = values
		middle[i].Value = Percentile(values, 0.5)
		if middle[i].Worst {
			middle[i].Value = slices.Max(values)
		}
	}
	return middle
}

// ratio returns how long the first flow took as a multiple of the ideal.
func ratio(r Result) float64 {
	return r.took(0).Seconds() / r.Scene.ideal(r.Scene.Flows[0]).Seconds()
}

// besideReno judges how long the first flow took as a multiple of the time that New Reno takes on a
// QUIC stream.
func besideReno(most float64) func(ours, theirs Result) []Figure {
	return func(ours, theirs Result) []Figure {
		return []Figure{atMost("of a quic stream", ratio(ours)/ratio(theirs), most)}
	}
}

// ideal returns the shortest time in which a flow can end, considering the changes of the
// bottleneck's rate.
func (s Scene) ideal(f Flow) time.Duration {
	if len(s.Rates) == 0 {
		return s.Ideal(f.Bytes)
	}
	left := float64(f.Bytes) * 8 / (1 - s.randomLoss())
	at := f.Begin
	rate := float64(s.There.Rate)
	for _, c := range s.Rates {
		if c.At > at {
			carried := (c.At - at).Seconds() * rate
			if carried >= left {
				break
			}
			left -= carried
			at = c.At
		}
		rate = float64(c.Bit)
	}
	return at - f.Begin + time.Duration(left*1e9/rate) + s.There.Delay
}

// wire returns the bytes that the first flow put on the wire after its Begin, as a multiple
// of its payload.
func wire(r Result) float64 {
	f := r.Scene.Flows[0]
	return float64(r.Flows[0].Between(f.Begin, r.Scene.For).Wire) / float64(f.Bytes)
}
