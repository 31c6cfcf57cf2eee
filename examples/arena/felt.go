package main

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"text/tabwriter"
	"time"
)

// What players notice of the network: the age of the states that they see, and how long a reliable
// call from the server takes.
//
// The age of a fighter that has just become relevant is counted separately, because its first
// updates wait a round trip until the server knows that the fighter is open on the client.
const (
	age   = "age"
	fresh = "age of newcomers"
	way   = "way"

	newcomer = 1500 * time.Millisecond
)

type feeling struct{ who, when, what string }

// A felt collects these times. It can measure one-way times because both ends run in one program
// and share a clock.
type felt struct {
	mu      sync.Mutex // each player may tick on its own goroutine
	when    string     // part of the match; "" = nothing is measured
	samples map[feeling][]time.Duration
}

func newFelt() *felt { return &felt{samples: make(map[feeling][]time.Duration)} }

// begin starts a part of the match.
func (f *felt) begin(when string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.when = when
}

// add adds a sample for a player.
func (f *felt) add(who, what string, d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.when != "" {
		key := feeling{who, f.when, what}
		f.samples[key] = append(f.samples[key], d)
	}
}

// percentile returns the p-th percentile of some samples, or 0 if there are none.
func (f *felt) percentile(who, when, what string, p int) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	sorted := slices.Sorted(slices.Values(f.samples[feeling{who, when, what}]))
	if len(sorted) == 0 {
		return 0
	}
	return sorted[len(sorted)*p/100]
}

// print writes a table of percentiles in milliseconds.
func (f *felt) print(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "ms\tage p50\tp99\tof newcomers p50\tp99\tway of a call p50\tp99\t")
	for _, row := range [][2]string{
		{"others", "before"},
		{"others", "during"},
		{"others", "after"},
		{"joiner", "during"},
		{"joiner", "after"},
	} {
		fmt.Fprint(t, row[0], " ", row[1], "\t")
		for _, what := range []string{age, fresh, way} {
			for _, p := range []int{50, 99} {
				fmt.Fprint(t, f.percentile(row[0], row[1], what, p).Milliseconds(), "\t")
			}
		}
		fmt.Fprintln(t)
	}
	t.Flush()
}
