package scenes

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/internal/netsim"
)

// Kind is what a flow is.
type Kind uint8

const (
	Ours     Kind = iota // sessions of the sealed carrier, as they are
	Reno                 // New Reno as quic-go has it (RFC 9002, section 7)
	Cubic                // CUBIC (RFC 9438) with HyStart++
	BBR                  // BBR of the first version, as Linux has it
	Constant             // packets at a constant rate, whatever becomes of them
	Play                 // 30 packets of 100 bytes a second
)

func (k Kind) String() string {
	return [...]string{"ours", "reno", "cubic", "bbr", "constant", "play"}[k]
}

// Flow is one sender and its receiver.
type Flow struct {
	Kind  Kind
	Begin time.Duration // since the scene's beginning; a flow of ours has opened its carrier a second before
	Bytes int           // to transfer; 0 = without end
	Rate  float64       // of Constant, in bit/s on the wire
	Delay time.Duration // added to each way, beside the scene's
	Train float64       // what a train of ours says of the rate, in bit/s; 0 = it measures
	Moves time.Duration // when the address of ours changes; 0 = never
	Plays bool          // 30 packets of 100 bytes a second leave beside the transfer of ours, by the same carrier and from its opening on
	Lead  time.Duration // before its beginning the carrier of ours has opened; 0 = a second

	// Pause reports, for ours, that there is nothing to send now; nil = never. Refill tops up what waits to be
	// sent so often, to 1.2 times what the link carries until the next time; 0 = all waits from the beginning.
	Pause  func(since time.Duration) bool
	Refill time.Duration
}

// Scene is flows over one way there, whose bottleneck they share, and one way back.
type Scene struct {
	Name        string
	There, Back netsim.Config
	Rates       []Rate // of the way there, in the order of time
	Dark        []Span // of both ways
	Flows       []Flow
	OneServer   bool          // the flows of ours are one server's, which knows how many of them start
	For         time.Duration // the scene ends then, or when all flows with a size have ended
}

// Rate is a change of the bottleneck's rate.
type Rate struct {
	At  time.Duration
	Bit int64 // a second
}

// Span is a time in which nothing passes.
type Span struct{ From, Until time.Duration }

// RTT is the round trip of a flow without Delay over empty queues.
func (s Scene) RTT() time.Duration { return s.There.Delay + s.Back.Delay }

// Product is the bandwidth-delay product in bytes.
func (s Scene) Product() int { return int(float64(s.There.Rate) / 8 * s.RTT().Seconds()) }

// randomLoss is the share that the way there loses whatever its queue does.
func (s Scene) randomLoss() float64 {
	inRuns := 0.0
	if b := s.There.Burst; b.Enter > 0 {
		inRuns = b.Loss * b.Enter / (b.Enter + b.Leave)
	}
	return 1 - (1-s.There.Loss)*(1-inRuns)
}

// RateAt returns the bottleneck's rate at a time, in bit/s.
func (s Scene) RateAt(t time.Duration) float64 {
	rate := s.There.Rate
	for _, r := range s.Rates {
		if r.At <= t {
			rate = r.Bit
		}
	}
	return max(float64(rate), 1)
}

// Path is a scene's ways with a rate, a round trip and random loss, and a queue of so many bandwidth-delay products.
func Path(rate int64, rtt time.Duration, loss, queue float64) Scene {
	s := Scene{
		There: netsim.Config{Rate: rate, Delay: rtt / 2, Loss: loss},
		Back:  netsim.Config{Rate: rate, Delay: rtt / 2, Loss: loss},
	}
	s.There.Queue = max(int(queue*float64(s.Product())), 2*1500)
	s.Back.Queue = max(s.Product(), 64<<10)
	return s
}

// stillRate is that of a path that stands still, in bit/s: a packet takes longer than the scene.
const stillRate = 100

// Stalls has the path stand still again and again until a time, both by half to one and a half of the durations.
func (s Scene) Stalls(still, every, until time.Duration, seed uint64) Scene {
	s.Rates = append([]Rate(nil), s.Rates...)
	rng := rand.New(rand.NewPCG(seed, 0))
	around := func(d time.Duration) time.Duration { return d/2 + time.Duration(rng.Int64N(int64(d))) }
	for at := every; at < until; at += around(every - still) {
		s.Rates = append(s.Rates, Rate{at, stillRate})
		at += around(still)
		s.Rates = append(s.Rates, Rate{at, s.There.Rate})
	}
	return s
}

// With returns the scene with so many more flows like f, begun apart from each other.
func (s Scene) With(n int, f Flow, apart time.Duration) Scene {
	s.Flows = append([]Flow(nil), s.Flows...)
	for range n {
		s.Flows = append(s.Flows, f)
		f.Begin += apart
	}
	return s
}

// Step is how often a scene is sampled.
const Step = 20 * time.Millisecond

// stage is a scene that runs.
type stage struct {
	Scene
	seed    uint64
	now     time.Duration
	pairs   []*netsim.Pair
	live    []*netsim.Pair // those in which something happens yet
	flows   []flow
	there   *netsim.Link // one of those that share the bottleneck
	sampled time.Duration
	starts  *atomic.Int32 // flows of one server that start; nil = nobody counts them
	result  Result
}

// flow is what a stage asks of a running flow.
type flow interface {
	received() int           // bytes of payload, each once
	ended() time.Duration    // when the last byte arrived, since the beginning of the scene; 0 = not yet
	delays() []time.Duration // of Play
	spurious() uint64        // packets counted as lost that arrived
}

// Run plays a scene. The seed decides every draw. It panics when a machine fails, which none may.
func Run(s Scene, seed uint64) Result {
	st := newStage(s, seed)
	for st.act() {
	}
	st.finish()
	return st.result
}

func newStage(s Scene, seed uint64) *stage {
	st := &stage{Scene: s, seed: seed}
	if s.OneServer {
		st.starts = new(atomic.Int32)
	}
	for i, f := range s.Flows {
		st.add(i, f, seed)
	}
	st.result = Result{Scene: s, Flows: make([]FlowResult, len(s.Flows))}
	return st
}

// act lets happen what is next, and reports whether the scene goes on.
func (st *stage) act() bool {
	if len(st.live) == 0 {
		return false
	}
	next := st.first()
	st.now = next.Now().Sub(netsim.Epoch)
	st.sample(st.now)
	if st.now >= st.For || st.done() {
		return false
	}
	more, err := next.Step()
	if err != nil {
		panic(fmt.Sprintf("scene %s, seed %d: %v", st.Name, st.seed, err))
	}
	if !more {
		st.live = slices.DeleteFunc(st.live, func(p *netsim.Pair) bool { return p == next })
	}
	return true
}

// add puts a flow on the stage.
func (st *stage) add(i int, f Flow, seed uint64) {
	there, back := st.There, st.Back
	there.Delay += f.Delay
	back.Delay += f.Delay
	there.Seed, back.Seed = seed+uint64(i)*7919, seed+uint64(i)*7919
	begin := netsim.Epoch.Add(f.Begin)
	a, b, watched := f.ends(seed+uint64(i), begin, st.There.Rate, there.Delay+back.Delay, st.starts)
	p := netsim.NewPair(a, b, netsim.PairConfig{AtoB: there, BtoA: back, Start: begin.Add(-f.lead()), Max: maxPacket})
	if i > 0 {
		p.A.Link.ShareBottleneck(st.pairs[0].A.Link)
		p.B.Link.ShareBottleneck(st.pairs[0].B.Link)
	} else {
		st.there = p.A.Link
		for _, r := range st.Rates {
			p.A.Link.SetRate(netsim.Epoch.Add(r.At), r.Bit)
		}
	}
	for _, d := range st.Dark {
		p.A.Link.Dark(netsim.Epoch.Add(d.From), netsim.Epoch.Add(d.Until))
		p.B.Link.Dark(netsim.Epoch.Add(d.From), netsim.Epoch.Add(d.Until))
	}
	st.pairs, st.live, st.flows = append(st.pairs, p), append(st.live, p), append(st.flows, watched)
}

// first returns the pair whose next event is the earliest: pairs share bottlenecks, so packets enter those in their order.
func (st *stage) first() *netsim.Pair {
	first := st.live[0]
	for _, p := range st.live[1:] {
		if p.Now().Before(first.Now()) {
			first = p
		}
	}
	return first
}

func (st *stage) done() bool {
	sized := false
	for i, f := range st.flows {
		if st.Flows[i].Bytes > 0 {
			sized = true
			if f.ended() == 0 {
				return false
			}
		}
	}
	return sized
}
