// Package scene plays the table of internal/scenes: our rate control in weather and in company, in virtual time.
package scene

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/quivernet/quiver/internal/scenes"
)

// workers are how many rows are played at once.
const workers = 2

// otherSeeds are how many seeds those in our place play at most.
const otherSeeds = 3

// Outcome is what a row showed, the medians over all seeds.
type Outcome struct {
	Row     scenes.Row
	Figures []scenes.Figure
	Others  []Other // only where a bound is missed
}

// Other is a row played with flows of another kind in place of ours, and judged as ours.
type Other struct {
	Kind    scenes.Kind
	Figures []scenes.Figure
}

// Missed reports whether a figure is outside its bounds.
func (o Outcome) Missed() bool {
	return slices.ContainsFunc(o.Figures, func(f scenes.Figure) bool { return !f.Held() })
}

// Rows returns the table's rows whose family and name contain a text, '*' for all; an empty text is in none.
func Rows(part string) []scenes.Row {
	return slices.DeleteFunc(scenes.Table(), func(r scenes.Row) bool {
		return part == "" || part != "*" && !strings.Contains(r.Name(), part)
	})
}

// Play plays each row with the seeds from 1 on, two rows at a time, and returns what they showed in their order. It calls
// told after each, one at a time. When ctx ends it returns those that are done, and why the others are not.
func Play(ctx context.Context, rows []scenes.Row, seeds int, told func(Outcome)) ([]Outcome, error) {
	all := make([]Outcome, len(rows))
	next := make(chan int)
	var group sync.WaitGroup
	var mu sync.Mutex // held while told runs
	for range workers {
		group.Go(func() {
			for i := range next {
				all[i] = play(rows[i], seeds)
				mu.Lock()
				told(all[i])
				mu.Unlock()
			}
		})
	}
	err := feed(ctx, next, len(rows))
	group.Wait()
	return slices.DeleteFunc(all, func(o Outcome) bool { return o.Figures == nil }), err
}

// feed hands out the numbers below n until ctx ends.
func feed(ctx context.Context, next chan<- int, n int) error {
	defer close(next)
	for i := range n {
		select {
		case next <- i:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func play(row scenes.Row, seeds int) Outcome {
	o := Outcome{Row: row, Figures: row.Play(upTo(seeds)...)}
	if !o.Missed() || !row.Models() {
		return o
	}
	for _, kind := range []scenes.Kind{scenes.Reno, scenes.Cubic, scenes.BBR} {
		o.Others = append(o.Others, Other{kind, row.PlayAs(kind, upTo(min(seeds, otherSeeds))...)})
	}
	return o
}

func upTo(n int) (seeds []uint64) {
	for i := range n {
		seeds = append(seeds, uint64(i+1))
	}
	return seeds
}
