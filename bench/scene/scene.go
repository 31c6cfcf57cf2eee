// Package scene plays the table of internal/scenes: our rate control on bad
// paths and beside other flows, in virtual time.
package scene

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/quivernet/quiver/internal/scenes"
)

// workers is how many rows are played at once.
const workers = 2

// otherSeeds is with how many seeds rows are played at most with flows of other
// kinds in place of ours.
const otherSeeds = 3

// An Outcome is the result of a row, with medians over all seeds.
type Outcome struct {
	Row     scenes.Row
	Figures []scenes.Figure
	Others  []Other // only if a bound is missed
}

// Other is a row that was played with flows of another kind in place of ours, and judged like ours.
type Other struct {
	Kind    scenes.Kind
	Figures []scenes.Figure
}

// Missed reports whether a figure is outside its bounds.
func (o Outcome) Missed() bool {
	return slices.ContainsFunc(o.Figures, func(f scenes.Figure) bool { return !f.Held() })
}

// Rows returns the table's rows whose family and name contain a text; '*' = all, "" = none.
func Rows(part string) []scenes.Row {
	return slices.DeleteFunc(scenes.Table(), func(r scenes.Row) bool {
		return part == "" || part != "*" && !strings.Contains(r.Name(), part)
	})
}

// Play plays each row with the seeds from 1 on, two rows at a time, and returns the
// outcomes in the order of the rows. It calls told after each row, once at a time.
// If ctx ends it returns the outcomes so far, and why the others are missing.
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

// feed sends the numbers below n until ctx ends.
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
