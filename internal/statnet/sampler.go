package statnet

import (
	"sync"
	"time"
)

// Window is the minimum time over which a rate is computed. Unreal Engine's "stat net" uses a
// second too.
const Window = time.Second

// Sample holds a connection's counters (uint64) or their rates per second (float64).
type Sample[T uint64 | float64] struct {
	BytesIn, BytesOut, PacketsIn, PacketsOut, BunchesIn, BunchesOut T
	SlicesIn, SlicesOut                                             T // in bytes
	Ticks, Saturated                                                T
}

// rates returns the growth of counters per second.
func rates(now, then *Sample[uint64], seconds float64) Sample[float64] {
	gained := func(now, then uint64) float64 {
		return max(0, float64(now)-float64(then)) / seconds // a counter falls if a packet is unsent
	}
	return Sample[float64]{
		BytesIn: gained(now.BytesIn, then.BytesIn), BytesOut: gained(now.BytesOut, then.BytesOut),
		PacketsIn: gained(now.PacketsIn, then.PacketsIn), PacketsOut: gained(now.PacketsOut, then.PacketsOut),
		BunchesIn: gained(now.BunchesIn, then.BunchesIn), BunchesOut: gained(now.BunchesOut, then.BunchesOut),
		SlicesIn: gained(now.SlicesIn, then.SlicesIn), SlicesOut: gained(now.SlicesOut, then.SlicesOut),
		Ticks: gained(now.Ticks, then.Ticks), Saturated: gained(now.Saturated, then.Saturated),
	}
}

// A Sampler computes rates from counters without allocating. Of may be called concurrently;
// Start may not.
type Sampler struct {
	mu   sync.Mutex
	at   time.Time // when last was taken
	last Sample[uint64]
	rate Sample[float64]
	full bool // rate covers a whole window
}

// Start sets the time at which the counters were zero. It must be called before the first Of.
func (s *Sampler) Start(at time.Time) { s.at = at }

// Of takes the counters at now. It returns the rates of the last whole window. During the
// first window, it returns the rates since Start.
func (s *Sampler) Of(now time.Time, counters Sample[uint64]) Sample[float64] {
	s.mu.Lock()
	defer s.mu.Unlock()
	elapsed := now.Sub(s.at)
	if elapsed <= 0 || s.full && elapsed < Window {
		return s.rate
	}
	rate := rates(&counters, &s.last, elapsed.Seconds())
	if elapsed >= Window {
		s.at = now
		s.last = counters
		s.rate = rate
		s.full = true
	}
	return rate
}
