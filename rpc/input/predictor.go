package input

import (
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/rpc"
)

const (
	// probeTime is the time after which a client asks for the server's tick again, in case the
	// packet was lost.
	probeTime = 100 * time.Millisecond

	// frameTicks is the maximum number of ticks that a frame predicts. If half a second has fewer
	// ticks, that is the limit instead, though never less than minFrameTicks. Inputs for older
	// ticks would arrive too late.
	frameTicks    = 48
	minFrameTicks = 4

	// If the server's ticks are a second behind, we give the server catchUpTime to catch up
	// before we guess the lead anew. Until then, it has the inputs of that second.
	catchUpTime = 500 * time.Millisecond
)

// A Predictor makes the inputs of a client's own actor, and sends them to the server.
//
// It predicts ticks that the server has yet to simulate. The server's answers, which report how
// early inputs arrive, determine how far ahead of the server it has to be. This is its lead.
//
// A Predictor must only be used on the world's goroutine.
type Predictor[I any] struct {
	handle *Handle[I]
	actor  *rpc.Actor
	epoch  time.Time // first Tick; the client's clock, a time.Duration, starts here

	// Predictions.
	lead        lead
	leadSince   time.Duration   // when the lead was last guessed
	predictions []prediction[I] // by tick modulo len(predictions)
	newest      uint64          // newest tick predicted; 0 if none

	// What we know of the server.
	serverTick  uint64        // newest tick that it has taken
	serverHas   uint64        // it needs no inputs up to this tick
	probedAt    time.Duration // last probe; initially so long ago that a probe is due
	behindSince time.Duration // when answers first showed it over a second behind; 0 if it isn't

	// The newest tick whose outcome is known here. It comes from Saw or, if the game never calls
	// Saw, from answers.
	seen     uint64
	callsSaw bool // the game has called Saw

	scratch []I // reused by flush
	stats   PredictorStats
}

// A prediction is the input of one tick.
type prediction[I any] struct {
	tick   uint64
	at     time.Duration // when it was made
	ahead  time.Duration // lead.ahead at that time
	waited time.Duration // from the beginning of its tick until it was made
	input  I
}

// PredictorStats describes how a predictor's inputs reach the server.
type PredictorStats struct {
	Tick uint64 // newest tick that was predicted; 0 if none was

	// How early inputs arrive at the server, smoothed. Each answer reports the input with the
	// least time left.
	Margin time.Duration

	Latency time.Duration // from making an input to the answer that it was applied, smoothed
	Missed  uint64        // ticks that the server simulated without their input
	Skipped uint64        // ticks never predicted: a frame took too long, or the server's ticks jumped
	Begun   uint64        // number of times that the predictor had to learn the server's tick
}

// Predictor returns a predictor for an actor that this client owns. The package comment says
// when to make one. It takes memory for two seconds of inputs at once, and needn't be closed.
func (h *Handle[I]) Predictor(a *rpc.Actor) *Predictor[I] {
	return &Predictor[I]{
		handle:      h,
		actor:       a,
		lead:        lead{tick: h.tick},
		predictions: make([]prediction[I], 2*h.half()),
		probedAt:    -probeTime,
	}
}

// Tick calls read for each new tick that has begun by now, in order. There may be no new tick,
// one, or several after a long frame. now is the time of the current Dispatch. Until the server's
// tick is known, which takes a round trip, read is not called.
//
// In read, a game reads its keys and immediately simulates the tick with them, which is the
// prediction. The predictor keeps the input for [Predictor.After], so what it refers to must not
// change any more.
//
// Tick then sends all inputs that the server may still need, in one message with the next Flush. It
// sends at most 64, and if they exceed rpc.Config.Bunch.MaxBunch, fewer of the older ones. With
// inputs of more than a KiB, a message that is lost may then cost the server some.
//
// If Tick returns an error, nothing was sent: either the connection or the actor has ended, or an
// input was refused by its Validate or because it exceeds MaxBunch by itself, in which case the
// error wraps bunch.ErrBunchTooLarge. The next Tick sends the inputs again, apart from those that
// no longer fit.
func (p *Predictor[I]) Tick(now time.Time, read func(tick uint64) I) error {
	if p.epoch.IsZero() {
		p.epoch = now
	}
	at := now.Sub(p.epoch)
	if !p.lead.known {
		return p.probe(at)
	}
	tick := p.lead.steer(at)
	if tick <= p.newest || tick > p.handle.maxTick() {
		return nil
	}
	for t := p.skipTicks(tick); t <= tick; t++ {
		m := &p.predictions[t%uint64(len(p.predictions))]
		waited := at + p.lead.ahead - time.Duration(t)*p.handle.tick
		*m = prediction[I]{tick: t, at: at, ahead: p.lead.ahead, waited: waited}
		p.newest = t
		p.stats.Tick = t
		m.input = read(t)
	}
	return p.flush(at)
}

// skipTicks returns the first tick to predict in a frame whose last one is tick, and counts the
// ticks that are left out.
func (p *Predictor[I]) skipTicks(tick uint64) (first uint64) {
	limit := uint64(min(frameTicks, max(minFrameTicks, p.handle.rate/2)))
	behind := tick - p.newest
	switch {
	case p.newest == 0:
		// This is the first frame. No keys were read for the ticks before it.
		return tick
	case behind > limit:
		p.stats.Skipped += behind - limit
		return tick - limit + 1
	}
	return p.newest + 1
}

// probe asks for the server's tick, unless we've asked less than probeTime ago.
func (p *Predictor[I]) probe(at time.Duration) error {
	if at-p.probedAt < probeTime {
		return nil
	}
	p.probedAt = at
	return p.handle.inputs.Call(p.actor, batch[I]{})
}

// flush sends up to maxBatch of the newest inputs, going back to the oldest input that the server
// may be missing and can still use.
func (p *Predictor[I]) flush(at time.Duration) error {
	first := p.newest
	for n := 1; n < maxBatch && first-1 > p.serverHas; n++ {
		if p.inputOf(first-1) == nil || p.lead.tooLate(first-1, at) {
			break
		}
		first--
	}
	p.scratch = p.scratch[:0]
	for t := first; t <= p.newest; t++ {
		p.scratch = append(p.scratch, p.inputOf(t).input)
	}
	return p.send(first, p.scratch)
}

// send sends inputs of consecutive ticks from first on. If they don't fit into a message, it leaves
// out the older half of them until the rest does. It fails if not even the newest input fits.
func (p *Predictor[I]) send(first uint64, inputs []I) error {
	for {
		err := p.handle.inputs.Call(p.actor, batch[I]{First: first, Seen: p.seen, Inputs: inputs})
		if !errors.Is(err, bunch.ErrBunchTooLarge) {
			return err
		}
		omit := (len(inputs) + 1) / 2
		if omit == len(inputs) {
			return fmt.Errorf("input: input of tick %d is too large for a message: %w", first, err)
		}
		first += uint64(omit)
		inputs = inputs[omit:]
	}
}

// inputOf returns the prediction of a tick, or nil if none was made or it is too old to be stored.
func (p *Predictor[I]) inputOf(tick uint64) *prediction[I] {
	if m := &p.predictions[tick%uint64(len(p.predictions))]; m.tick == tick && tick > 0 {
		return m
	}
	return nil
}

// After yields the inputs of all ticks after the given one, oldest first. A game uses them to
// simulate again from the server's outcome of that tick. Inputs are stored for two seconds, or for
// 64 ticks if that is longer. Older ones are left out without an error.
// UE: the saved moves that are replayed.
func (p *Predictor[I]) After(tick uint64) iter.Seq2[uint64, I] {
	return func(yield func(uint64, I) bool) {
		oldest := p.newest - min(p.newest, uint64(len(p.predictions))-1)
		for t := max(tick+1, oldest); t <= p.newest; t++ {
			if m := p.inputOf(t); m != nil && !yield(t, m.input) {
				return
			}
		}
	}
}

// Saw tells the server, with the next input, that the outcome of a server tick has arrived in
// replicated states. A lower tick than before has no effect.
//
// If a game never calls Saw, the newest tick of an answer is used instead, although answers arrive
// sooner than states do.
func (p *Predictor[I]) Saw(tick uint64) {
	if !p.callsSaw {
		p.callsSaw = true
		p.seen = 0
	}
	p.seen = max(p.seen, tick)
}

// Stats returns the counters of the predictor.
func (p *Predictor[I]) Stats() PredictorStats { return p.stats }

func (p *Predictor[I]) String() string {
	return fmt.Sprintf("%v of %v at tick %d", p.handle, p.actor, p.newest)
}

// receive is called for an answer from the server.
func (p *Predictor[I]) receive(call *rpc.Call, a answer) {
	if a.Taken <= p.handle.maxTick() && !p.epoch.IsZero() {
		p.handleAnswer(call.Arrived.Sub(p.epoch), a, call.Conn.RTT)
	}
}

// handleAnswer is called for an answer that arrived at a time of the client's clock. trip measures
// the round trip.
//
// A server that lies can change which ticks its own client predicts. But it can't make the
// client predict more than frameTicks in a frame.
func (p *Predictor[I]) handleAnswer(at time.Duration, a answer, trip func() time.Duration) {
	half := p.handle.half()
	tick := p.lead.predicted(at)
	behind := tick > a.Taken+half || p.serverTick > a.Taken+half
	if !behind {
		p.behindSince = 0
	} else if p.behindSince == 0 {
		p.behindSince = at
	}
	switch {
	case !p.lead.known, a.Taken > tick+doubt, behind && at-p.behindSince >= catchUpTime:
		// Either this is the first answer, or the server's ticks have jumped: ahead of our
		// predictions, or so far back that the server won't catch up.
		p.guessLead(at, a, trip())
		return
	case behind:
		// Give the server some time to catch up.
		return
	case a.Taken < p.serverTick:
		// The answer is stale, because a later one has overtaken it.
		return
	}
	p.serverTick = a.Taken
	p.stats.Missed = a.Missed
	p.serverHas = max(p.serverHas, min(a.Have, p.newest))
	p.learn(at, a)
}

// guessLead makes a first guess at the lead from the server's tick: an input sent now arrives a
// round trip after that tick was taken.
func (p *Predictor[I]) guessLead(at time.Duration, a answer, trip time.Duration) {
	ahead := time.Duration(a.Taken+1)*p.handle.tick + trip + guard - at
	p.lead.begin(at, ahead)
	p.stats.Begun++
	p.leadSince = at
	p.behindSince = 0
	p.serverTick = a.Taken
	p.serverHas = a.Taken
	if p.seen > a.Taken || !p.callsSaw {
		p.seen = a.Taken
	}
	if p.newest > a.Taken+p.handle.half() {
		// The server's ticks are lower than they were.
		p.rewind(a)
	}
}

// rewind removes the inputs that the server doesn't have, so that we can predict their ticks anew.
//
// Inputs that the server does have stay, such as inputs that arrived while it stood still. The
// server wouldn't accept other inputs for the same ticks, so prediction carries on after them.
func (p *Predictor[I]) rewind(a answer) {
	if a.Have <= a.Taken || a.Have-a.Taken > p.handle.half() || p.inputOf(a.Have) == nil {
		// The server has none of the inputs.
		clear(p.predictions)
		p.newest = 0
		return
	}
	for i := range p.predictions {
		if p.predictions[i].tick > a.Have {
			p.predictions[i] = prediction[I]{}
		}
	}
	p.newest = a.Have
	p.serverHas = a.Have
}

// learn evaluates an answer. From the input that had the least time left, it learns the need, and
// from the newest input that was taken, the latency.
func (p *Predictor[I]) learn(at time.Duration, a answer) {
	// An input that was made before the lead was last guessed says nothing about what inputs need
	// now.
	if m := p.inputOf(a.Tick); m != nil && m.at >= p.leadSince {
		limit := time.Duration(p.handle.half()) * p.handle.tick // the server drops inputs beyond this
		left := min(max(time.Duration(a.Left)*time.Microsecond, -limit), limit)
		p.stats.Margin = smooth(p.stats.Margin, left)
		p.lead.learn(at, p.lead.need(m.ahead, m.waited, left))
	}
	if m := p.inputOf(a.Taken); m != nil {
		if !p.callsSaw {
			p.seen = max(p.seen, a.Taken)
		}
		p.stats.Latency = smooth(p.stats.Latency, at-m.at)
	}
}

// smooth returns the moving average mean, updated with one more sample. The first sample becomes
// the mean. A weight of 1/16 averages over about a quarter of a second at 60 Hz.
func smooth(mean, sample time.Duration) time.Duration {
	if mean == 0 {
		return sample
	}
	return mean + (sample-mean)/16
}
