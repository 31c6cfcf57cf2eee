package input

import (
	"fmt"
	"math"
	"time"

	"github.com/quivernet/quiver/rpc"
)

const (
	// maxBatch is the maximum number of inputs in a message: those of a frame of half a
	// second at 120 Hz. The tag of batch.Inputs repeats it.
	maxBatch = 64

	// maxRate is the maximum number of ticks a second.
	maxRate = 240

	// maxTickTime limits the number of ticks by the time that they take: 146 years. This is
	// half of what a time.Duration can hold, so no sum of two times overflows.
	maxTickTime = 1 << 62
)

// A Handle is a declared kind of input of a class.
type Handle[I any] struct {
	tick   time.Duration // length of a tick
	rate   int           // ticks per second
	inputs *rpc.ServerRPC[batch[I]]
	answer *rpc.ClientRPC[answer]
}

// New declares the inputs that the owner of an actor makes for each tick.
// Like a call that [rpc.Server] declares, they are declared once, for both
// ends. A class may have several kinds of inputs.
//
// I is the input of one tick. It follows the rules of an RPC's argument. If it has a method
// Validate() error, that method is called for every input.
//
// ticks is the number of simulation ticks a second, 1 to 240. It does not depend on the rates of
// worlds and frames, and both ends must use the same number. New panics if it is out of range.
//
// Each tick counts as a call for rpc.Config.DoS. dos.Default() allows 120 ticks a second. A
// server with more must double Frame.Calls and Period.Calls of the profile's States.
// Otherwise it kicks honest players.
func New[I any](class *rpc.Class, name string, ticks int) *Handle[I] {
	if ticks < 1 || ticks > maxRate {
		panic(fmt.Sprintf("input: New(%q) with %d ticks a second: there are 1 to %d", name, ticks, maxRate))
	}
	return &Handle[I]{
		tick: time.Second / time.Duration(ticks),
		rate: ticks,
		// A client sends at most one message a tick. The limit is twice that, because a path
		// may hold up the messages of a second.
		inputs: rpc.Server[batch[I]](class, name, rpc.Unreliable, rpc.RateLimit(float64(2*ticks+20))),
		answer: rpc.Client[answer](class, fmt.Sprintf("%sTimeLeftOf%dHz", name, ticks), rpc.Unreliable),
	}
}

// String returns "Class.Name".
func (h *Handle[I]) String() string { return h.inputs.String() }

// half returns how many ticks on each side of the newest one have their inputs
// stored. It is a second's, but at least 32.
func (h *Handle[I]) half() uint64 { return uint64(max(32, h.rate)) }

// maxTick returns the highest tick. Neither end makes or accepts a higher one.
func (h *Handle[I]) maxTick() uint64 { return uint64(maxTickTime / h.tick) }

// batch is a client's message. It has the inputs of consecutive ticks, most of which may have
// arrived before. Without inputs it only requests an answer.
type batch[I any] struct {
	First  uint64 // tick of the first input
	Seen   uint64 // the newest server tick whose outcome the client has seen
	Inputs []I    `quiver:"max=64"`
}

// Validate calls Validate of the inputs, if they have it.
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

// answer is the server's message. The server sends at most one in each tick that it takes.
type answer struct {
	Taken uint64 // the newest tick that the server has taken
	Have  uint64 // inputs up to this tick need not be sent again

	// Of the inputs whose time left became known since the last answer: the tick of the one
	// with the least time left. 0 = none.
	Tick uint64

	// Microseconds from the arrival of that input until its tick was
	// taken. Negative if the input arrived later.
	Left int32

	Missed uint64 // number of ticks so far that were taken without their input
}

// micros returns a time in microseconds, clamped to an int32.
func micros(d time.Duration) int32 {
	return int32(min(max(d/time.Microsecond, math.MinInt32), math.MaxInt32))
}

// Serve makes the server put inputs of h for an object of class T into the queue that where
// returns. where is called for every message.
//
// In a client's world Serve has no effect, so both ends may share the line.
func Serve[T, I any](b *rpc.Binding[T], h *Handle[I], where func(object T) *Queue[I]) {
	rpc.On(b, h.inputs, func(object T, call *rpc.Call, message batch[I]) {
		where(object).receive(h, call, message)
	})
}

// Predict makes a client pass the server's answers for an object to the predictor that where
// returns. where may return nil if the object has none. On the server Predict has no effect.
func Predict[T, I any](b *rpc.Binding[T], h *Handle[I], where func(object T) *Predictor[I]) {
	rpc.On(b, h.answer, func(object T, call *rpc.Call, message answer) {
		if p := where(object); p != nil {
			p.receive(call, message)
		}
	})
}
