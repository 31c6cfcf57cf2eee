package scenes

import (
	"slices"
	"time"

	"github.com/quivernet/quiver/internal/netsim"
)

// Result is what a scene showed.
type Result struct {
	Scene Scene
	Flows []FlowResult
	Queue []time.Duration // that a packet would wait at the bottleneck, each step
}

// FlowResult is what one flow did.
type FlowResult struct {
	Ended    time.Duration // since the flow's beginning; 0 = it has not
	Points   []Point       // each step since the scene's beginning
	Delays   []time.Duration
	Spurious uint64
}

// Point is what a flow had done by a time.
type Point struct {
	Received int    // bytes of payload
	Sent     uint64 // packets
	Wire     uint64 // bytes on the wire, dropped packets included
	Dropped  uint64 // packets that the queue dropped
	Lost     uint64 // packets, for whatever reason
}

// sample notes how all stands at the steps until t.
func (st *stage) sample(t time.Duration) {
	for ; st.sampled <= t; st.sampled += Step {
		now := netsim.Epoch.Add(st.sampled)
		rate := st.RateAt(st.sampled)
		st.result.Queue = append(st.result.Queue, time.Duration(float64(st.there.Backlog(now))*8e9/rate))
		for i := range st.flows {
			st.result.Flows[i].Points = append(st.result.Flows[i].Points, st.point(i))
		}
	}
}

func (st *stage) point(i int) Point {
	s := st.pairs[i].A.Link.Stats()
	return Point{
		Received: st.flows[i].received(), Sent: s.Packets, Wire: s.Bytes + netsim.UDPOverhead*s.Packets,
		Dropped: s.LostQueue, Lost: s.Dropped(),
	}
}

func (st *stage) finish() {
	for i, f := range st.flows {
		r := &st.result.Flows[i]
		r.Points = append(r.Points, st.point(i))
		r.Delays, r.Spurious = f.delays(), f.spurious()
		if e := f.ended(); e > 0 {
			r.Ended = e - st.Scene.Flows[i].Begin
		}
	}
}

// At returns the point of a time.
func (f FlowResult) At(t time.Duration) Point {
	return f.Points[min(int(t/Step), len(f.Points)-1)]
}

// Between returns what was done between two times.
func (f FlowResult) Between(from, until time.Duration) Point {
	a, b := f.At(from), f.At(until)
	return Point{b.Received - a.Received, b.Sent - a.Sent, b.Wire - a.Wire, b.Dropped - a.Dropped, b.Lost - a.Lost}
}

// Rate returns the goodput between two times in bit/s.
func (f FlowResult) Rate(from, until time.Duration) float64 {
	return float64(f.Between(from, until).Received) * 8 / (until - from).Seconds()
}

// Rates returns the goodput of all flows of a kind.
func (r Result) Rates(k Kind, from, until time.Duration) (rates []float64) {
	for i, f := range r.Flows {
		if r.Scene.Flows[i].Kind == k {
			rates = append(rates, f.Rate(from, until))
		}
	}
	return rates
}

// Share returns which part of the bottleneck's rate all flows of a kind have as goodput.
func (r Result) Share(k Kind, from, until time.Duration) float64 {
	sum := 0.0
	for _, rate := range r.Rates(k, from, until) {
		sum += rate
	}
	return sum / float64(r.Scene.There.Rate)
}

// Drops returns which share of the packets of all flows of a kind the queue dropped.
func (r Result) Drops(k Kind, from, until time.Duration) float64 {
	dropped, sent := uint64(0), uint64(0)
	for i, f := range r.Flows {
		if r.Scene.Flows[i].Kind == k {
			p := f.Between(from, until)
			dropped, sent = dropped+p.Dropped, sent+p.Sent
		}
	}
	return float64(dropped) / float64(max(sent, 1))
}

// StandingQueue returns the mean of the queue between two times.
func (r Result) StandingQueue(from, until time.Duration) time.Duration {
	sum, n := time.Duration(0), 0
	for _, q := range r.Queue[min(int(from/Step), len(r.Queue)):min(int(until/Step), len(r.Queue))] {
		sum, n = sum+q, n+1
	}
	return sum / time.Duration(max(n, 1))
}

// Ideal returns how long a transfer of so many bytes takes at best: half a round trip, and the bytes at the mean rate that
// random loss leaves.
func (s Scene) Ideal(bytes int) time.Duration {
	rate := float64(s.There.Rate) * (1 - s.randomLoss())
	return s.There.Delay + time.Duration(float64(bytes)*8e9/rate)
}

// Jain returns Jain's index of fairness: 1 when all are equal, 1/n when one has all.
func Jain(rates []float64) float64 {
	sum, squares := 0.0, 0.0
	for _, x := range rates {
		sum, squares = sum+x, squares+x*x
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(rates)) * squares)
}

// Percentile returns the p-th part of delays, 0 without any.
func Percentile(delays []time.Duration, p float64) time.Duration {
	if len(delays) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(delays))
	return sorted[min(int(p*float64(len(sorted))), len(sorted)-1)]
}
