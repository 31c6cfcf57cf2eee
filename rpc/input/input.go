package input

import (
	"fmt"
	"math"
	"time"

	"github.com/quivernet/quiver/rpc"
)

const (
	// maxBatch is how many inputs a message may hold: those of a frame of half a second at 120 Hz. The tag of batch.Inputs repeats it.
	maxBatch = 64
	// maxRate is how many ticks a second may have.
	maxRate = 240
	// maxTickTime bounds ticks by the time that so many take: 146 years, half of what a time.Duration holds, so that no sum of two times overflows.
	maxTickTime = 1 << 62
)

// Handle is a declared kind of input of a class.
type Handle[I any] struct {
	tick   time.Duration // from one tick to the next
	rate   int           // ticks a second
	inputs *rpc.ServerRPC[batch[I]]
	answer *rpc.ClientRPC[answer]
}

// New declares the inputs that the owner of an actor makes for each tick, as [rpc.Server] declares a call: once, for both ends. I is
// what a player wants in a tick; it follows the rules of an RPC's argument, and if it has a method Validate() error, that is called for
// every input. ticks is how many ticks a second the simulation has, 1 to 240, whatever the rates of worlds and frames; both ends must
// give the same. A class may have several kinds of inputs.
//
// Each tick counts as a call for rpc.Config.DoS. dos.Default() allows 120 ticks a second; a server with more must double Frame.Calls and
// Period.Calls of its States, or it kicks honest players.
func New[I any](class *rpc.Class, name string, ticks int) *Handle[I] {
	if ticks < 1 || ticks > maxRate {
		panic(fmt.Sprintf("input: New(%q) with %d ticks a second: there are 1 to %d", name, ticks, maxRate))
	}
	return &Handle[I]{
		tick: time.Second / time.Duration(ticks),
		rate: ticks,
		// A client sends at most one message a tick. The limit is twice that, because a path may hold up those of a second.
		inputs: rpc.Server[batch[I]](class, name, rpc.Unreliable, rpc.RateLimit(float64(2*ticks+20))),
		answer: rpc.Client[answer](class, fmt.Sprintf("%sTimeLeftOf%dHz", name, ticks), rpc.Unreliable),
	}
}

// String returns "Class.Name".
func (h *Handle[I]) String() string { return h.inputs.String() }

// half returns the number of ticks on either side of the newest one for which inputs are kept: a second's, at least 32.
func (h *Handle[I]) half() uint64 { return uint64(max(32, h.rate)) }

// maxTick returns the highest tick; neither end makes or believes a higher one.
func (h *Handle[I]) maxTick() uint64 { return uint64(maxTickTime / h.tick) }

// batch is a client's message: the inputs of consecutive ticks; most of them may have come before. Without inputs it only asks for an
// answer.
type batch[I any] struct {
	First  uint64 // tick of the first
	Seen   uint64 // the newest tick of the server's whose outcome the client has seen
	Inputs []I    `quiver:"max=64"`
}

// Validate validates the inputs, if their type can.
func (b *batch[I]) Validate() error {
	for i := range b.Inputs {
		input, ok := any(&b.Inputs[i]).(interface{ Validate() error })
		if !ok {
			return nil
		}
		if err := input.Validate(); err != nil {
			return fmt.Errorf("input of tick %d: %w", b.First+uint64(i), err)
		}
	}
	return nil
}

// answer is the server's message, at most one a tick of its world.
type answer struct {
	Taken  uint64 // the newest tick that the server has taken
	Have   uint64 // inputs up to this tick need not be sent any more
	Tick   uint64 // the tick whose input had the least time left, of those that became known since the last answer; 0: none
	Left   int32  // microseconds that this input came before its tick was taken; negative: after
	Missed uint64 // how many ticks were taken without their input so far
}

// micros returns a time in microseconds, clamped to an int32.
func micros(d time.Duration) int32 {
	return int32(min(max(d/time.Microsecond, math.MinInt32), math.MaxInt32))
}

// Serve has the server put inputs of h for an object of class T into the queue that where returns; it calls where for every message.
// In a client's world it does nothing, so that both ends may share the line.
func Serve[T, I any](b *rpc.Binding[T], h *Handle[I], where func(object T) *Queue[I]) {
	rpc.On(b, h.inputs, func(object T, call *rpc.Call, message batch[I]) { where(object).receive(h, call, message) })
}

// Predict tells a client where an object has its predictor; where returns nil for an object without one. On the server it does nothing.
func Predict[T, I any](b *rpc.Binding[T], h *Handle[I], where func(object T) *Predictor[I]) {
	rpc.On(b, h.answer, func(object T, call *rpc.Call, message answer) {
		if p := where(object); p != nil {
			p.receive(call, message)
		}
	})
}
