package input

import (
	"fmt"
	"iter"
	"time"

	"github.com/quivernet/quiver/rpc"
)

const (
	// probeTime is the time after which a client that does not know the server's tick
	// requests it again. The packet may have been lost.
	probeTime = 100 * time.Millisecond

	// frameTicks is the maximum number of ticks that a frame predicts. If half a second has
	// fewer ticks, that is the maximum. Inputs for older ticks would be too late.
	frameTicks = 48

	// catchUpTime is the time in which a server whose ticks are a second behind may catch up
	// before the lead is guessed again. In that time it has the inputs of that second.
	catchUpTime = 500 * time.Millisecond
)

// A Predictor makes the inputs of a client's own actor. It must be
// used only on the world's goroutine.
type Predictor[I any] struct {
	handle *Handle[I]
	actor  *rpc.Actor
	began  time.Time // time of the first Tick, from which the client's clock counts
	lead   lead
	begun  time.Duration // time when lead last began
	made   []made[I]     // by tick modulo len(made)
	newest uint64        // the newest tick that was predicted
	have   uint64        // the server needs no inputs up to this tick
	taken  uint64        // the newest tick that the server has taken
	seen   uint64        // the newest tick whose outcome is known here: by Saw, or else by answers
	saw    bool          // the game has called Saw
	probed time.Duration // time of the last probe; initially so long ago that a probe is due

	// Start of the time in which answers show that the server is more than a
	// second behind. 0 if the last answer did not.
	lags time.Duration

	send  []I // scratch
	stats PredictorStats
}

// made is the input of one tick.
type made[I any] struct {
	tick   uint64
	at     time.Duration // time when it was made
	ahead  time.Duration // lead.ahead at that time
	waited time.Duration // time from the beginning of its tick until it was made
	input  I
}

// PredictorStats describes how a predictor's inputs reach the server.
type PredictorStats struct {
	Tick uint64 // the newest tick that was predicted; 0 = none yet

	// How early inputs arrive at the server, smoothed. Each answer reports the least early one.
	Margin time.Duration

	Latency time.Duration // time from making an input to the answer that it was applied, smoothed
	Missed  uint64        // ticks that the server simulated without their input
	Skipped uint64        // ticks never predicted: a frame took too long, or the server's ticks jumped
	Begun   uint64        // number of times that the predictor had to learn the server's tick
}

// Predictor returns a predictor for an actor that this client owns.
// The package comment says when to make it.
func (h *Handle[I]) Predictor(a *rpc.Actor) *Predictor[I] {
	return &Predictor[I]{
		handle: h,
		actor:  a,
		lead:   lead{tick: h.tick},
		made:   make([]made[I], 2*h.half()),
		probed: -probeTime,
	}
}

// Tick calls read for each new tick that has begun by now, in order. This may be no tick,
// one, or several after a long frame. now is the time of the current Dispatch. Until the
// server's tick is known, which takes a round trip, read is not called.
//
// In read a game reads its keys, and at once simulates the tick with them,
// which is the prediction. Tick then sends all inputs that the server may
// still need, in one message with the next Flush.
//
// If Tick returns an error, nothing was sent, because the connection or the actor has ended,
// or an input is refused. The next Tick sends the inputs again.
func (p *Predictor[I]) Tick(now time.Time, read func(tick uint64) I) error {
	if p.began.IsZero() {
		p.began = now
	}
	at := now.Sub(p.began)
	if !p.lead.known {
		return p.probe(at)
	}
	tick := p.lead.steer(at)
	if tick <= p.newest || tick > p.handle.maxTick() {
		return nil
	}
	for t := p.next(tick); t <= tick; t++ {
		m := &p.made[t%uint64(len(p.made))]
		waited := at + p.lead.ahead - time.Duration(t)*p.handle.tick
		*m = made[I]{tick: t, at: at, ahead: p.lead.ahead, waited: waited}
		p.newest = t
		p.stats.Tick = t
		m.input = read(t)
	}
	return p.flush(at)
}

// next returns the first tick to predict if the current one is tick.
func (p *Predictor[I]) next(tick uint64) uint64 {
	limit := uint64(min(frameTicks, max(4, p.handle.rate/2)))
	behind := tick - p.newest
	switch {
	case p.newest == 0: // no keys were read for the ticks before
		return tick
	case behind > limit:
		p.stats.Skipped += behind - limit
		return tick - limit + 1
	}
	return p.newest + 1
}

// probe requests the server's tick. It sends at most one request in probeTime.
func (p *Predictor[I]) probe(at time.Duration) error {
	if at-p.probed < probeTime {
		return nil
	}
	p.probed = at
	return p.handle.inputs.Call(p.actor, batch[I]{})
}

// flush sends the inputs that the server lacks and may still use: the
// newest ones, at most maxBatch.
func (p *Predictor[I]) flush(at time.Duration) error {
	first := p.newest
	for n := 1; n < maxBatch && first-1 > p.have; n++ {
		if p.inputOf(first-1) == nil || p.lead.useless(first-1, at) {
			break
		}
		first--
	}
	p.send = p.send[:0]
	for t := first; t <= p.newest; t++ {
		p.send = append(p.send, p.inputOf(t).input)
	}
	return p.handle.inputs.Call(p.actor, batch[I]{First: first, Seen: p.seen, Inputs: p.send})
}

// inputOf returns the input of a tick, or nil if none was made or the input is no longer stored.
func (p *Predictor[I]) inputOf(tick uint64) *made[I] {
	if m := &p.made[tick%uint64(len(p.made))]; m.tick == tick && tick > 0 {
		return m
	}
	return nil
}

// After yields the inputs of all ticks after the given one, oldest first. A game uses them to
// simulate again from the server's outcome of that tick. Inputs are stored for two seconds.
// UE: the saved moves that are replayed.
func (p *Predictor[I]) After(tick uint64) iter.Seq2[uint64, I] {
	return func(yield func(uint64, I) bool) {
		oldest := p.newest - min(p.newest, uint64(len(p.made))-1)
		for t := max(tick+1, oldest); t <= p.newest; t++ {
			if m := p.inputOf(t); m != nil && !yield(t, m.input) {
				return
			}
		}
	}
}

// Saw is called by the game when it has seen the outcome of a server tick in replicated states.
// The server learns of it with the next input. A lower tick than before has no effect.
//
// If a game never calls Saw, the newest tick of an answer counts.
// Answers arrive sooner than states do.
func (p *Predictor[I]) Saw(tick uint64) {
	if !p.saw {
		p.saw = true
		p.seen = 0
	}
	p.seen = max(p.seen, tick)
}

// Stats returns the counters of the predictor.
func (p *Predictor[I]) Stats() PredictorStats { return p.stats }

func (p *Predictor[I]) String() string {
	return fmt.Sprintf("%v of %v at tick %d", p.handle, p.actor, p.newest)
}

// receive handles an answer from the server.
func (p *Predictor[I]) receive(call *rpc.Call, a answer) {
	if a.Taken <= p.handle.maxTick() && !p.began.IsZero() {
		p.hear(call.Arrived.Sub(p.began), a, call.Conn.RTT)
	}
}

// hear handles an answer that arrived at a time. A server that lies can change which ticks
// its own client predicts. It cannot make the client predict more than frameTicks in a frame.
func (p *Predictor[I]) hear(at time.Duration, a answer, trip func() time.Duration) {
	half := p.handle.half()
	tick := p.lead.predicted(at)
	behind := tick > a.Taken+half || p.taken > a.Taken+half
	if !behind {
		p.lags = 0
	} else if p.lags == 0 {
		p.lags = at
	}
	switch {
	case !p.lead.known, a.Taken > tick+doubt, behind && at-p.lags >= catchUpTime:
		p.begin(at, a, trip())
		return
	case behind, a.Taken < p.taken: // in the second case a later answer arrived before this one
		return
	}
	p.taken = a.Taken
	p.stats.Missed = a.Missed
	p.have = max(p.have, min(a.Have, p.newest))
	p.learn(at, a)
}

// begin guesses the lead from the server's tick. An input that is sent now arrives a round
// trip after that tick was taken.
func (p *Predictor[I]) begin(at time.Duration, a answer, trip time.Duration) {
	ahead := time.Duration(a.Taken+1)*p.handle.tick + trip + guard - at
	p.lead.begin(at, ahead)
	p.stats.Begun++
	p.begun = at
	p.lags = 0
	p.taken = a.Taken
	p.have = a.Taken
	if p.seen > a.Taken || !p.saw {
		p.seen = a.Taken
	}
	if p.newest > a.Taken+p.handle.half() { // the server's ticks are lower than they were
		p.goBack(a)
	}
}

// goBack removes the inputs that the server does not have.
//
// Inputs that it has stay, such as those that arrived while it stood still. The server
// accepts no others for their ticks, so prediction continues after them.
func (p *Predictor[I]) goBack(a answer) {
	if a.Have <= a.Taken || a.Have-a.Taken > p.handle.half() || p.inputOf(a.Have) == nil {
		clear(p.made)
		p.newest = 0
		return
	}
	for i := range p.made {
		if p.made[i].tick > a.Have {
			p.made[i] = made[I]{}
		}
	}
	p.newest = a.Have
	p.have = a.Have
}

// learn records the need of the input that had the least time left, and the
// latency of the newest input that was taken.
//
// It ignores the need of an input that was made before the server's tick was last learned.
// That need says nothing about what inputs need now.
func (p *Predictor[I]) learn(at time.Duration, a answer) {
	if m := p.inputOf(a.Tick); m != nil && m.at >= p.begun {
		limit := time.Duration(p.handle.half()) * p.handle.tick // the server drops inputs beyond this
		left := min(max(time.Duration(a.Left)*time.Microsecond, -limit), limit)
		p.stats.Margin = smooth(p.stats.Margin, left)
		p.lead.learn(at, p.lead.need(m.ahead, m.waited, left))
	}
	if m := p.inputOf(a.Taken); m != nil {
		if !p.saw {
			p.seen = max(p.seen, a.Taken)
		}
		p.stats.Latency = smooth(p.stats.Latency, at-m.at)
	}
}

// smooth moves a mean towards a sample. The first sample becomes the mean.
func smooth(mean, sample time.Duration) time.Duration {
	if mean == 0 {
		return sample
	}
	return mean + (sample-mean)/16
}
