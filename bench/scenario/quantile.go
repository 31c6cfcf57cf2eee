package scenario

import (
	"math"
	"slices"
	"time"

	"github.com/quivernet/quiver/bench/job"
)

// quantiles records the quantiles of latencies, from p50 to the maximum, and the raw samples.
func quantiles(r *job.Result, latencies []time.Duration, unit time.Duration, suffix string) {
	r.Samples = make([]float64, len(latencies))
	for i, l := range latencies {
		r.Samples[i] = math.Round(l.Seconds()*1e6) / 1e3
	}
	if len(latencies) == 0 {
		return
	}
	sorted := slices.Sorted(slices.Values(latencies))
	for _, q := range []struct {
		name string
		at   float64
	}{{"p50", 0.5}, {"p98", 0.98}, {"p99", 0.99}, {"p999", 0.999}, {"max", 1}} {
		at := sorted[min(len(sorted)-1, int(math.Ceil(q.at*float64(len(sorted))))-1)]
		r.Set(q.name+suffix, float64(at)/float64(unit))
	}
}
