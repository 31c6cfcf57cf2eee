package input

import (
	"fmt"
	"math"
	"reflect"
	"time"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/codec"
	"github.com/quivernet/quiver/rpc"
)

const (
	// maxBatch is the maximum number of inputs in a message, enough for a frame of half a second
	// at 120 Hz. The tag of batch.Inputs repeats this number.
	maxBatch = 64

	// maxHead is the maximum size of a batch without its inputs: the method, the header of a
	// struct of three fields, two numbers, and the header of a slice.
	maxHead = 2 + 1 + 9 + 9 + 5

	// maxName is the maximum size of a method's name in package rpc.
	maxName = 128

	// maxRate is the maximum number of ticks per second.
	maxRate = 240

	// maxTickTime limits the total time of all ticks to 146 years. This is half of what a
	// time.Duration can hold, so that the sum of two times doesn't overflow.
	maxTickTime = 1 << 62
)

// A Handle is a kind of input that New has declared for a class.
type Handle[I any] struct {
	tick   time.Duration // length of a tick
	rate   int           // ticks per second
	inputs *rpc.ServerRPC[batch[I]]
	answer *rpc.ClientRPC[answer]
}

// New declares a kind of input. The owner of an actor makes one such input for each tick. Like a
// call that is declared by [rpc.Server], a kind is declared once, for both ends. A class may have
// several kinds.
//
// I is the type of the input. It follows the rules for an RPC's argument. If it has a method
// Validate() error, that method is called for every input. Keep inputs small: a message repeats
// those of several ticks, and is lost if any of its packets is lost.
//
// ticks is the number of simulation ticks per second, from 1 to 240. It is independent of the
// rates of worlds and frames, but must be the same at both ends. Otherwise the handshake fails, as
// one end lacks a method whose name says how many ticks the other has. New panics if ticks is out
// of range, if the class has a kind of that name already, or if an I can never fit into a message.
//
// Every tick counts as a call for rpc.Config.DoS. dos.Default() allows 120 ticks a second. A
// server with a higher rate must double Frame.Calls and Period.Calls of the profile's States.
// Otherwise it kicks honest players.
func New[I any](class *rpc.Class, name string, ticks int) *Handle[I] {
	if ticks < 1 || ticks > maxRate {
		panic(fmt.Sprintf("input: New(%q): %d ticks a second; must be 1 to %d", name, ticks, maxRate))
	}
	mustFit[I](name)
	answerName := fmt.Sprintf("%sAnswersAt%dTicksASecond", name, ticks)
	if extra := len(answerName) - len(name); len(name) > maxName-extra {
		panic(fmt.Sprintf("input: New(%.20q…): name has %d bytes; the limit is %d", name, len(name), maxName-extra))
	}
	return &Handle[I]{
		tick: time.Second / time.Duration(ticks),
		rate: ticks,
		// A client sends no more than one message per tick. We allow for twice as many,
		// because a path may hold up a second's messages and deliver them together.
		inputs: rpc.Server[batch[I]](class, name, rpc.Unreliable, rpc.RateLimit(float64(2*ticks+20))),
		answer: rpc.Client[answer](class, answerName, rpc.Unreliable),
	}
}

// mustFit panics if even the smallest I is too large for a message. If an I can't be encoded at
// all, rpc.Server says so.
func mustFit[I any](name string) {
	c, err := codec.Inside(reflect.TypeFor[I]())
	if err != nil {
		return
	}
	if least := c.Size().Least; least > bunch.MaxBunchBytes-maxHead {
		panic(fmt.Sprintf("input: New(%q): %v has at least %d bytes; the limit is %d (bunch.MaxBunchBytes): make inputs much smaller, because a message repeats those of several ticks",
			name, reflect.TypeFor[I](), least, bunch.MaxBunchBytes-maxHead))
	}
}

// String returns "Class.Name".
func (h *Handle[I]) String() string { return h.inputs.String() }

// half returns the number of ticks, before and after the newest tick, for which we keep inputs.
// This is a second's worth of ticks, but at least 32.
func (h *Handle[I]) half() uint64 { return uint64(max(32, h.rate)) }

// maxTick returns the highest tick. Neither end makes or accepts a tick beyond it.
func (h *Handle[I]) maxTick() uint64 { return uint64(maxTickTime / h.tick) }

// A batch is a client's message. It contains the inputs of consecutive ticks, most of which may
// have arrived before. A batch without inputs just asks for an answer.
type batch[I any] struct {
	First  uint64 // tick of the first input
	Seen   uint64 // newest server tick whose outcome the client has seen
	Inputs []I    `quiver:"max=64"`
}

// Validate validates each of the inputs, if they have a Validate method.
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

// An answer is the server's message. There is at most one for each tick that the server
// takes.
type answer struct {
	Taken uint64 // newest tick that the server has taken
	Have  uint64 // inputs up to this tick needn't be sent again

	// Tick is the tick of the input that had the least time left, among the inputs that the
	// server has measured since the last answer. It is 0 if there were none.
	Tick uint64

	// Left is the time in microseconds from the arrival of that input until its tick was taken.
	// It is negative if the input came too late.
	Left int32

	Missed uint64 // number of ticks so far that were taken without their input
}

// micros returns d in microseconds, limited to the range of an int32.
func micros(d time.Duration) int32 {
	return int32(min(max(d/time.Microsecond, math.MinInt32), math.MaxInt32))
}

// Serve registers where to store the inputs of h that arrive at the server: in the queue that where
// returns for the object. where is called for every message.
//
// In a client's world Serve does nothing, so both ends may share the code that calls it. It panics
// if b has a Serve of h already. Each object needs a queue of its own, which where must always
// return.
func Serve[T, I any](b *rpc.Binding[T], h *Handle[I], where func(object T) *Queue[I]) {
	rpc.On(b, h.inputs, func(object T, call *rpc.Call, message batch[I]) {
		where(object).receive(h, call, message)
	})
}

// Predict registers which predictor receives the server's answers on a client: the one that where
// returns for the object, or none if where returns nil. On the server, Predict does nothing.
func Predict[T, I any](b *rpc.Binding[T], h *Handle[I], where func(object T) *Predictor[I]) {
	rpc.On(b, h.answer, func(object T, call *rpc.Call, message answer) {
		if p := where(object); p != nil {
			p.receive(call, message)
		}
	})
}
