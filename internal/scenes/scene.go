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
	Play                 // 30 packets of 100 bytes a second
)

func (k Kind) String() string {
	return [...]string{"ours", "reno", "cubic", "bbr", "constant", "play"}[k]
}

// A Flow is one sender and its receiver. A field whose comment names a kind is
// used for that kind only.
type Flow struct {
	Kind  Kind
	Begin time.Duration // since the scene's beginning
	Bytes int           // payload to transfer, in bytes; 0 = endless
	Rate  float64       // Constant: bit/s on the wire
	Delay time.Duration // added to the delay of each way of the scene
	Train float64       // Ours: the rate in bit/s that the opening train shows; 0 = a real train measures it
	Moves time.Duration // Ours: when the address changes, since the scene's beginning; 0 = never
	Roams time.Duration // Ours: after how long it changes again, repeatedly; 0 = it changes once
	// Ours: 30 packets of play of 100 bytes are sent each second over the same
	// carrier, from its opening on.
	Plays bool
	Lead  time.Duration // Ours: how long before Begin the carrier opens; at least a second

	// Ours: Pause reports whether the sender has nothing to send at a time since the scene's
	// beginning; nil = it always has something. Refill is the time after which the bytes that
	// wait to be sent are filled up to Batch, or, if that is 0, to 1.2 times what the link
	// carries in that time; 0 = all bytes wait from the beginning. If Batch is set, the sender
	// knows that no more than a Batch waits, as with small transfers one after another.
	Pause  func(since time.Duration) bool
	Refill time.Duration
	Batch  int
}

// A Scene is one run's network and traffic: flows that share the bottleneck of
// the way There, and a way Back.
type Scene struct {
	Name        string
	There, Back netsim.Config
	Rates       []Rate // changes of There.Rate, by time
	Trips       []Trip // changes of the round trip, by time
	Dark        []Span // periods in which neither way carries anything
	Flows       []Flow
	// Our flows belong to one server, which knows how many of them start;
	// otherwise each host has a clock of its own.
	OneServer bool
	For       time.Duration // the scene ends after this time, or when all flows with a size have ended
}

// A Rate is a change of the bottleneck's rate.
type Rate struct {
	At  time.Duration
	Bit int64 // bit/s
}

// A Trip is a change of the round trip, as by a route, a satellite, or a radio.
// It affects packets that are sent later.
type Trip struct {
	At            time.Duration
	RTT           time.Duration
	Jitter, Clump time.Duration // of each way from then on; 0 = none
	Loss          float64       // random loss of each way from then on; 0 = that of the scene
}

// A Span is a period since the scene's beginning.
type Span struct{ From, Until time.Duration }

// RTT returns the round trip over empty queues of a flow without Delay.
func (s Scene) RTT() time.Duration { return s.There.Delay + s.Back.Delay }

// Product returns the bandwidth-delay product in bytes.
func (s Scene) Product() int { return int(float64(s.There.Rate) / 8 * s.RTT().Seconds()) }

// randomLoss returns the share of packets that the way there loses at random.
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

// CarriesAt returns what the path carries at a time, in bit/s: the bottleneck's
// rate, or that of the policer before it.
func (s Scene) CarriesAt(t time.Duration) float64 {
	if police := float64(s.There.Police); police > 0 {
		return min(police, s.RateAt(t))
	}
	return s.RateAt(t)
}

// Path returns a scene without flows. Both ways have the rate in bit/s, half of rtt as delay, and
// loss as the share of random loss. The bottleneck's queue holds queue bandwidth-delay products.
func Path(rate int64, rtt time.Duration, loss, queue float64) Scene {
	s := Scene{
		There: netsim.Config{Rate: rate, Delay: rtt / 2, Loss: loss},
		Back:  netsim.Config{Rate: rate, Delay: rtt / 2, Loss: loss},
	}
	s.There.Queue = max(int(queue*float64(s.Product())), 2*1500)
	s.Back.Queue = max(s.Product(), 64<<10)
	return s
}

// stillRate is the rate of a path that stalls, in bit/s: one packet takes longer than a scene.
const stillRate = 100

// Stalls returns the scene with stalls of the bottleneck until a time. Each lasts about still,
// and one begins about every every; both vary at random from half to one and a half times that.
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

// With returns the scene with n more flows like f. The first begins at f.Begin,
// and each later one apart after the one before.
func (s Scene) With(n int, f Flow, apart time.Duration) Scene {
	s.Flows = append([]Flow(nil), s.Flows...)
	for range n {
		s.Flows = append(s.Flows, f)
		f.Begin += apart
	}
	return s
}

// Step is the time between two samples of a scene.
const Step = 20 * time.Millisecond

// A stage is a scene that is being played.
type stage struct {
	Scene
	seed     uint64
	now      time.Duration
	pairs    []*netsim.Pair
	live     []*netsim.Pair // the pairs in which something will still happen
	flows    []flow
	there    *netsim.Link // the first of the links that share the bottleneck
	sampled  time.Duration
	changed  int              // how many of Trips have been applied
	siblings *sealed.Siblings // the one server's sessions; nil = it is not one server
	result   Result
}

// A flow is a running flow as the stage sees it.
type flow interface {
	received() int           // bytes of payload, each counted once
	ended() time.Duration    // when the last byte arrived, since the beginning of the scene; 0 = not yet
	delays() []time.Duration // how long each packet of play took
	spurious() uint64        // packets that counted as lost and arrived
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

// newStageOf is newStage with the sessions of a server, which may include
// sessions on other stages; nil = each flow of ours belongs to another program.
func newStageOf(s Scene, seed uint64, siblings *sealed.Siblings) *stage {
	st := &stage{Scene: s, seed: seed, siblings: siblings}
	for i, f := range s.Flows {
		st.add(i, f, seed)
	}
	st.result = Result{Scene: s, Flows: make([]FlowResult, len(s.Flows))}
	return st
}

// act plays the next event, and reports whether the scene continues.
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
	there.Seed, back.Seed = seed+uint64(i)*7919, seed+uint64(i)*7919
	begin := netsim.Epoch.Add(f.Begin)
	a, b, watched := f.ends(seed+uint64(i), begin, st.There.Rate, st.handshake(there, back), st.siblings)
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

// handshake returns the round trip that QUIC's handshake measures, with full packets both ways.
func (st *stage) handshake(there, back netsim.Config) time.Duration {
	const bits = 8 * (maxPacket + netsim.UDPOverhead)
	return there.Delay + back.Delay + time.Duration(bits*1e9/float64(there.Rate)+bits*1e9/float64(back.Rate))
}

// changeTrip changes the round trip of all pairs if it is time. No packet has been
// sent since that time, because pairs are played in the order of their events.
func (st *stage) changeTrip() {
	for ; st.changed < len(st.Trips) && st.Trips[st.changed].At <= st.now; st.changed++ {
		trip := st.Trips[st.changed]
		there, back, half := st.There, st.Back, trip.RTT/2
		there.Jitter, there.Clump, back.Jitter, back.Clump = trip.Jitter, trip.Clump, trip.Jitter, trip.Clump
		if trip.Loss > 0 {
			there.Loss, back.Loss = trip.Loss, trip.Loss
		}
		for i, p := range st.pairs {
			there.Delay, back.Delay = half+st.Flows[i].Delay, half+st.Flows[i].Delay
			p.A.Link.SetBehind(there)
			p.B.Link.SetBehind(back)
		}
	}
}

// first returns the pair whose next event is the earliest. Pairs share
// bottlenecks, so packets must enter those in order.
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
