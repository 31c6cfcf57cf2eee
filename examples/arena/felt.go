package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"text/tabwriter"
	"time"
)

// who feels, and when: before the late joiner came, while it downloads, and after that.
type (
	who   int
	phase int
)

const (
	others who = iota
	joiner
)

const (
	before phase = iota
	during
	after
	phases
)

// settle is not measured: at the beginning everything opens at once.
const settle = 3 * time.Second

// felt gathers what players feel. The ends stand in one program and so on one clock, which is why a way can be measured at all.
type felt struct {
	mu    sync.Mutex // players may tick on goroutines of their own
	phase phase
	ages  [2][phases][]time.Duration // of each pose in sight, at each tick
	ways  [2][phases][]time.Duration // of reliable calls from the server
	seen  int                        // others in sight, over all ticks
	ticks int

	done chan struct{} // closed when the download has ended
	err  error         // of the download
}

func newFelt() *felt { return &felt{done: make(chan struct{})} }

func (f *felt) age(w who, d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ages[w][f.phase] = append(f.ages[w][f.phase], d)
}

func (f *felt) way(w who, d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ways[w][f.phase] = append(f.ways[w][f.phase], d)
}

func (f *felt) sight(_ who, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen += n
	f.ticks++
}

func (f *felt) enter(p phase) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.phase = p
}

// settled forgets what was felt so far.
func (f *felt) settled() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ages, f.ways = [2][phases][]time.Duration{}, [2][phases][]time.Duration{}
	f.seen, f.ticks = 0, 0
}

func (f *felt) downloaded(err error) {
	f.enter(after)
	f.err = err
	close(f.done)
}

// print writes the table.
func (f *felt) print(w io.Writer) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\tage of others\t\t\tway of a call\t\t\t")
	fmt.Fprintln(t, "\tp50\tp99\tsamples\tp50\tp99\tsamples\t")
	for i, name := range []string{"others", "joiner"} {
		for j, when := range []string{"before", "during", "after"} {
			ages, ways := f.ages[i][j], f.ways[i][j]
			if len(ages) == 0 {
				continue
			}
			fmt.Fprintf(t, "%s %s\t%d ms\t%d ms\t%d\t%d ms\t%d ms\t%d\t\n", name, when,
				percentile(ages, 50).Milliseconds(), percentile(ages, 99).Milliseconds(), len(ages),
				percentile(ways, 50).Milliseconds(), percentile(ways, 99).Milliseconds(), len(ways))
		}
	}
	return t.Flush()
}

// percentile is the nearest rank; 0 without samples.
func percentile(samples []time.Duration, p float64) time.Duration {
	if len(samples) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(samples))
	return sorted[max(int(math.Ceil(p/100*float64(len(sorted)))), 1)-1]
}
