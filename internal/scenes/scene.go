package scenes

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/sealed"
)

// A Kind is the kind of sender of a flow.
type Kind uint8

const (
	Ours     Kind = iota // two real sessions of the sealed carrier
	Reno                 // New Reno as in quic-go (RFC 9002, section 7)
	Cubic                // CUBIC (RFC 9438) with HyStart++
	BBR                  // BBR version 1, as in Linux
	Constant             // packets at a constant rate, whatever is lost
	Play                 // a game's own traffic: 30 packets of 100 bytes a second
)

func (k Kind) String() string {
	return [...]string{
		Ours:     "ours",
		Reno:     "reno",
		Cubic:    "cubic",
		BBR:      "bbr",
		Constant: "constant",
		Play:     "play",
	}[k]
}

// A Flow is one sender and its receiver. A field whose comment begins with a kind applies to that
// kind only.
type Flow struct {
	Kind  Kind
	Begin time.Duration // since the start of the scene
	Bytes int           // bytes of payload to transfer; 0 = endless
	Rate  float64       // Constant: bit/s on the wire
	Delay time.Duration // added to the scene's delay each way
	Train float64       // Ours: rate in bit/s that its train shows; 0 = it sends a real train
	Moves time.Duration // Ours: when its address changes, since the start of the scene; 0 = never
	Roams time.Duration // Ours: interval at which it changes again; 0 if it changes once
	Plays bool          // Ours: play is sent over the same carrier once it opens; see Play
	Lead  time.Duration // Ours: how long before Begin the carrier opens; at least a second

	// Ours: Pause reports whether the sender has nothing to send at a time since the start of
	// the scene. If it is nil, the sender always has something to send.
	//
	// Refill is the interval at which the bytes waiting to be sent are refilled, to Batch or, if
	// that is 0, to 1.2 times what the link carries in that interval. If Refill is 0, all bytes
	// wait from the beginning. If Batch is set, the sender knows that no more than Batch bytes
	// wait, as with small transfers one after another.
	Pause  func(since time.Duration) bool
	Refill time.Duration
	Batch  int
}

// A Scene is the network and the traffic of one run. All flows share the bottleneck of the way
// There.
type Scene struct {
	Name        string
	There, Back netsim.Config
	Rates       []Rate // changes of There.Rate, by time
	Trips       []Trip // changes of the round trip, by time
	Dark        []Span // periods in which neither way carries anything
	Flows       []Flow
	// OneServer is set if our flows belong to one server, which knows how many of them start.
	// Otherwise each belongs to a different host with its own clock.
	OneServer bool
	For       time.Duration // duration of the scene, unless all flows with a size end earlier
}

// A Rate is a change of the bottleneck's rate.
type Rate struct {
	At  time.Duration
	Bit int64 // bit/s
}

// A Trip is a change of the round trip, for example by a new route, a satellite or a radio. It
// affects the packets that are sent later.
type Trip struct {
	At            time.Duration
	RTT           time.Duration
	Jitter, Clump time.Duration // each way from then on; 0 = none
	Loss          float64       // random loss each way from then on; 0 = that of the scene
}

// A Span is a period, counted from the start of the scene.
type Span struct{ From, Until time.Duration }

// RTT returns the round trip of a flow without Delay over empty queues.
func (s Scene) RTT() time.Duration { return s.There.Delay + s.Back.Delay }

// Product returns the bandwidth-delay product in bytes.
func (s Scene) Product() int { return int(float64(s.There.Rate) / 8 * s.RTT().Seconds()) }

// randomLoss returns the share of packets lost at random on the way there.
func (s Scene) randomLoss() float64 {
	inRuns := 0.0
	if b := s.There.Burst; b.Enter > 0 {
		inRuns = b.Loss * b.Enter / (b.Enter + b.Leave)
	}
	return 1 - (1-s.There.Loss)*(1-inRuns)
}

// RateAt returns the bottleneck's rate in bit/s at time t.
func (s Scene) RateAt(t time.Duration) float64 {
	rate := s.There.Rate
	for _, r := range s.Rates {
		if r.At <= t {
			rate = r.Bit
		}
	}
	return max(float64(rate), 1)
}

// CarriesAt returns the rate in bit/s that the path carries at time t. That is the rate of the
// bottleneck, or of the policer in front of it if that is lower.
func (s Scene) CarriesAt(t time.Duration) float64 {
	if police := float64(s.There.Police); police > 0 {
		return min(police, s.RateAt(t))
	}
	return s.RateAt(t)
}

// Path returns a scene without flows. Each way has the given rate in bit/s, a delay of half of rtt,
// and loss as its share of random loss. The queue of the bottleneck holds queue bandwidth-delay
// products.
func Path(rate int64, rtt time.Duration, loss, queue float64) Scene {
	s := Scene{
		There: netsim.Config{Rate: rate, Delay: rtt / 2, Loss: loss},
		Back:  netsim.Config{Rate: rate, Delay: rtt / 2, Loss: loss},
	}
	s.There.Queue = max(int(queue*float64(s.Product())), 2*1500)
	s.Back.Queue = max(s.Product(), 64<<10)
	return s
}

// stillRate is the rate of a stalled path in bit/s. At this rate, one packet takes longer
// than a scene.
const stillRate = 100

// Stalls returns the scene with stalls of the bottleneck until the given time. A stall of about the
// length still begins in each interval of about the length every. Both lengths vary at random
// between half and one and a half times their value.
func (s Scene) Stalls(still, every, until time.Duration, seed uint64) Scene {
	s.Rates = append([]Rate(nil), s.Rates...)
	rng := rand.New(rand.NewPCG(seed, 0))
	around := func(d time.Duration) time.Duration {
		return d/2 + time.Duration(rng.Int64N(int64(d)))
	}
	for at := every; at < until; at += around(every - still) {
		s.Rates = append(s.Rates, Rate{at, stillRate})
		at += around(still)
		s.Rates = append(s.Rates, Rate{at, s.There.Rate})
	}
	return s
}

// With returns the scene with n more flows like f. The first begins at f.Begin, and each of the
// others begins apart later than the previous one.
func (s Scene) With(n int, f Flow, apart time.Duration) Scene {
	s.Flows = append([]Flow(nil), s.Flows...)
	for range n {
		s.Flows = append(s.Flows, f)
		f.Begin += apart
	}
	return s
}

// maxShift limits by how much [Scene.Shifted] puts off the beginning of a flow.
const maxShift = 100 * time.Millisecond

// Shifted returns the scene with each flow's Begin put off by a random part of maxShift, or of the
// shortest gap between two flows if that is shorter. The flows therefore begin in the same order as
// before, and within the time that the scene's name says.
func (s Scene) Shifted(seed uint64) Scene {
	limit := maxShift
	for _, a := range s.Flows {
		for _, b := range s.Flows {
			if b.Begin > a.Begin {
				limit = min(limit, b.Begin-a.Begin)
			}
		}
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	s.Flows = slices.Clone(s.Flows)
	for i := range s.Flows {
		s.Flows[i].Begin += time.Duration(rng.Int64N(int64(limit)))
	}
	return s
}

// Step is the time between two samples of a scene.
const Step = 20 * time.Millisecond

// A stage is a scene being played.
type stage struct {
	Scene
	seed     uint64
	now      time.Duration
	pairs    []*netsim.Pair
	live     []*netsim.Pair // pairs with events to come
	flows    []flow
	there    *netsim.Link // the first of the links that share the bottleneck
	sampled  time.Duration
	changed  int              // number of Trips applied so far
	siblings *sealed.Siblings // the server's sessions; nil if OneServer isn't set
	result   Result
}

// A flow is a running flow as seen by the stage.
type flow interface {
	received() int           // bytes of payload, each counted once
	ended() time.Duration    // arrival of the last byte, since the start of the scene; 0 = not yet
	delays() []time.Duration // how long each packet of play took
	spurious() uint64        // number of packets that were declared lost but arrived
}

// Run plays a scene. The seed decides every random draw. It panics if a machine returns an error.
func Run(s Scene, seed uint64) Result {
	st := newStage(s, seed)
	for st.act() {
	}
	st.finish()
	return st.result
}

func newStage(s Scene, seed uint64) *stage {
	if s.OneServer {
		return newStageOf(s, seed, new(sealed.Siblings))
	}
	return newStageOf(s, seed, nil)
}

// newStageOf is like newStage, but our flows join the sessions of a server, which may be on several
// stages. If siblings is nil, each of our flows belongs to a different program.
func newStageOf(s Scene, seed uint64, siblings *sealed.Siblings) *stage {
	st := &stage{Scene: s, seed: seed, siblings: siblings}
	for i, f := range s.Flows {
		st.add(i, f, seed)
	}
	st.result = Result{Scene: s, Flows: make([]FlowResult, len(s.Flows))}
	return st
}

// act plays the next event and reports whether the scene continues.
func (st *stage) act() bool {
	if len(st.live) == 0 {
		return false
	}
	next := st.first()
	st.now = next.Now().Sub(netsim.Epoch)
	st.sample(st.now)
	st.changeTrip()
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

// add adds a flow to the stage.
func (st *stage) add(i int, f Flow, seed uint64) {
	there, back := st.There, st.Back
	there.Delay += f.Delay
	back.Delay += f.Delay
	there.Seed = seed + uint64(i)*7919
	back.Seed = there.Seed
	begin := netsim.Epoch.Add(f.Begin)
	rtt := handshakeTrip(there, back)
	a, b, watched := f.machines(seed+uint64(i), begin, st.There.Rate, rtt, st.siblings)
	p := netsim.NewPair(a, b, netsim.PairConfig{
		AtoB: there, BtoA: back,
		Start: begin.Add(-f.lead()),
		Max:   maxPacket,
	})
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
	st.pairs = append(st.pairs, p)
	st.live = append(st.live, p)
	st.flows = append(st.flows, watched)
}

// handshakeTrip returns the round trip that QUIC's handshake measures with full packets both ways.
func handshakeTrip(there, back netsim.Config) time.Duration {
	const bits = 8 * (maxPacket + netsim.UDPOverhead)
	sending := bits*1e9/float64(there.Rate) + bits*1e9/float64(back.Rate)
	return there.Delay + back.Delay + time.Duration(sending)
}

// changeTrip applies the changes of the round trip that are due to all pairs. No packet has been
// sent since they became due, because the pairs are played in the order of their events.
func (st *stage) changeTrip() {
	for ; st.changed < len(st.Trips) && st.Trips[st.changed].At <= st.now; st.changed++ {
		trip := st.Trips[st.changed]
		there := st.There
		back := st.Back
		there.Jitter, back.Jitter = trip.Jitter, trip.Jitter
		there.Clump, back.Clump = trip.Clump, trip.Clump
		if trip.Loss > 0 {
			there.Loss, back.Loss = trip.Loss, trip.Loss
		}
		for i, p := range st.pairs {
			there.Delay = trip.RTT/2 + st.Flows[i].Delay
			back.Delay = there.Delay
			p.A.Link.SetBehind(there)
			p.B.Link.SetBehind(back)
		}
	}
}

// first returns the pair with the earliest next event. This order matters because pairs share the
// bottleneck, which packets must enter in order.
func (st *stage) first() *netsim.Pair {
	first := st.live[0]
	for _, p := range st.live[1:] {
		if p.Now().Before(first.Now()) {
			first = p
		}
	}
	return first
}

// done reports whether all flows with a size have ended.
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
