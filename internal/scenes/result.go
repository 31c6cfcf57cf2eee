package scenes

import (
	"cmp"
	"slices"
	"time"

	"github.com/quivernet/quiver/internal/netsim"
)

// A Result is what happened in one run of a scene.
type Result struct {
	Scene Scene
	Flows []FlowResult
	Queue []time.Duration // how long a packet waits at the bottleneck, at each step
}

// A FlowResult is what one flow did in a run.
type FlowResult struct {
	Ended    time.Duration // when the flow ended, since its Begin; 0 if it hasn't
	Points   []Point       // one for each step from the start of the scene
	Delays   []time.Duration
	Spurious uint64
}

// A Point is what a flow did until some time.
type Point struct {
	Received int    // bytes of payload
	Sent     uint64 // packets
	Wire     uint64 // bytes on the wire, including dropped packets
	Dropped  uint64 // packets that the queue dropped
	Lost     uint64 // packets lost for any reason
}

// sample records the state of all flows at each step up to t.
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
		Received: st.flows[i].received(), Sent: s.Packets,
		Wire:    s.Bytes + netsim.UDPOverhead*s.Packets,
		Dropped: s.LostQueue, Lost: s.Dropped(),
	}
}

// finish records what the flows did until the end of the scene.
func (st *stage) finish() {
	for i, f := range st.flows {
		r := &st.result.Flows[i]
		r.Points = append(r.Points, st.point(i))
		r.Delays = f.delays()
		r.Spurious = f.spurious()
		if e := f.ended(); e > 0 {
			r.Ended = e - st.Scene.Flows[i].Begin
		}
	}
}

// At returns the point of the last step up to t.
func (f FlowResult) At(t time.Duration) Point {
	return f.Points[min(int(t/Step), len(f.Points)-1)]
}

// Between returns what the flow did between two times.
func (f FlowResult) Between(from, until time.Duration) Point {
	a := f.At(from)
	b := f.At(until)
	return Point{
		Received: b.Received - a.Received,
		Sent:     b.Sent - a.Sent,
		Wire:     b.Wire - a.Wire,
		Dropped:  b.Dropped - a.Dropped,
		Lost:     b.Lost - a.Lost,
	}
}

// Rate returns the goodput between two times in bit/s.
func (f FlowResult) Rate(from, until time.Duration) float64 {
	return float64(f.Between(from, until).Received) * 8 / (until - from).Seconds()
}

// took returns how long a flow took. If it didn't end, that is the time until the end of the scene.
func (r Result) took(flow int) time.Duration {
	if ended := r.Flows[flow].Ended; ended > 0 {
		return ended
	}
	return r.Scene.For - r.Scene.Flows[flow].Begin
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

// Share returns the goodput of all flows of a kind as a share of the bottleneck's rate, 0 to 1.
//
// Share, Rates and Drops can't distinguish two groups of the same kind. There are two groups if the
// scene has flows of kind [Row.Beside] and also plays that kind in place of ours. Use Flows to look
// at one of them.
func (r Result) Share(k Kind, from, until time.Duration) float64 {
	sum := 0.0
	for _, rate := range r.Rates(k, from, until) {
		sum += rate
	}
	return sum / float64(r.Scene.There.Rate)
}

// Drops returns the share of packets, 0 to 1, that the queue dropped from flows of a kind.
func (r Result) Drops(k Kind, from, until time.Duration) float64 {
	dropped, sent := uint64(0), uint64(0)
	for i, f := range r.Flows {
		if r.Scene.Flows[i].Kind == k {
			p := f.Between(from, until)
			dropped += p.Dropped
			sent += p.Sent
		}
	}
	return float64(dropped) / float64(max(sent, 1))
}

// queues returns the queueing times between two times.
func (r Result) queues(from, until time.Duration) []time.Duration {
	return r.Queue[min(int(from/Step), len(r.Queue)):min(int(until/Step), len(r.Queue))]
}

// StandingQueue returns the mean queueing time between two times.
func (r Result) StandingQueue(from, until time.Duration) time.Duration {
	sum, n := time.Duration(0), 0
	for _, q := range r.queues(from, until) {
		sum += q
		n++
	}
	return sum / time.Duration(max(n, 1))
}

// Above returns the part of the time between two times during which the queueing time exceeded a
// bound.
func (r Result) Above(bound, from, until time.Duration) float64 {
	above := 0
	all := r.queues(from, until)
	for _, q := range all {
		if q > bound {
			above++
		}
	}
	return float64(above) / float64(max(len(all), 1))
}

// Ideal returns the shortest time in which a transfer of this size can arrive: half a round trip,
// and the time that it takes at the rate that random loss leaves on average.
func (s Scene) Ideal(bytes int) time.Duration {
	rate := float64(s.There.Rate) * (1 - s.randomLoss())
	return s.There.Delay + time.Duration(float64(bytes)*8e9/rate)
}

// Jain returns Jain's index of fairness: 1 if all rates are equal, and 1/n if one flow has
// everything.
func Jain(rates []float64) float64 {
	sum, squares := 0.0, 0.0
	for _, x := range rates {
		sum += x
		squares += x * x
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(rates)) * squares)
}

// Percentile returns the p-quantile of values, with p from 0 to 1, or 0 if there are no values.
func Percentile[T cmp.Ordered](values []T, p float64) (none T) {
	if len(values) == 0 {
		return none
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(int(p*float64(len(sorted))), len(sorted)-1)]
}
