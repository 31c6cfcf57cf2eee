// Package scene plays rows of the table of internal/scenes, which test our rate control on bad
// paths and beside other flows in virtual time.
package scene

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/quivernet/quiver/internal/scenes"
)

// workers is how many rows are played at once.
const workers = 2

// An Outcome is the result of a row, with medians over all seeds.
type Outcome struct {
	Row     scenes.Row
	Figures []scenes.Figure
	Others  []Other // only if a bound is missed
}

// Other is the result of playing a row with flows of another kind in place of ours, with the same
// seeds and the same bounds.
type Other struct {
	Kind    scenes.Kind
	Figures []scenes.Figure
}

// Missed reports whether a figure is outside its bounds.
func (o Outcome) Missed() bool {
	return slices.ContainsFunc(o.Figures, func(f scenes.Figure) bool { return !f.Held() })
}

// Rows returns the rows of the table whose family and name contain part. '*' means all rows, and ""
// none.
func Rows(part string) []scenes.Row {
	return slices.DeleteFunc(scenes.Table(), func(r scenes.Row) bool {
		return part == "" || part != "*" && !strings.Contains(r.Name(), part)
	})
}

// Seeds are consecutive seeds.
type Seeds struct {
	First uint64
	Count int // at least 1
}

// All returns the seeds in ascending order.
func (s Seeds) All() (seeds []uint64) {
	for i := range s.Count {
		seeds = append(seeds, s.First+uint64(i))
	}
	return seeds
}

func (s Seeds) String() string {
	if s.Count == 1 {
		return fmt.Sprintf("seed %d", s.First)
	}
	return fmt.Sprintf("seeds %d to %d", s.First, s.First+uint64(s.Count-1))
}

// Play plays each row with the seeds, several rows at a time, and returns the outcomes in the order
// of the rows. It calls done after each row, never concurrently. If ctx ends, it returns the
// outcomes so far and an error.
func Play(ctx context.Context, rows []scenes.Row, seeds Seeds, done func(Outcome)) ([]Outcome, error) {
	all := make([]Outcome, len(rows))
	next := make(chan int)
	var group sync.WaitGroup
	var mu sync.Mutex // held while done runs
	for range workers {
		group.Go(func() {
			for i := range next {
				all[i] = play(rows[i], seeds)
				mu.Lock()
				done(all[i])
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

func play(row scenes.Row, seeds Seeds) Outcome {
	o := Outcome{Row: row, Figures: row.Play(seeds.All()...)}
	if !o.Missed() || !row.Models() {
		return o
	}
	for _, kind := range []scenes.Kind{scenes.Reno, scenes.Cubic, scenes.BBR} {
		o.Others = append(o.Others, Other{kind, row.PlayAs(kind, seeds.All()...)})
	}
	return o
}
