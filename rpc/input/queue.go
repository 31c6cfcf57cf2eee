package input

import (
	"math"
	"time"

	"github.com/quivernet/quiver/rpc"
)

// A Queue holds the inputs of one actor's owner on the server until their ticks. The zero Queue is
// empty and ready to use. A Queue must only be used on the world's goroutine.
type Queue[I any] struct {
	handle *Handle[I]
	actor  *rpc.Actor
	conn   *rpc.Conn // the owner's connection; inputs from another connection reset the queue
	slots  []slot[I] // by tick modulo len(slots); nil until the owner's first message

	// The simulation.
	started bool   // a tick was taken
	newest  uint64 // newest tick that was taken
	last    I      // newest input that was taken
	inTime  bool   // last is the input of tick newest

	// The owner.
	complete uint64 // all inputs up to this tick have arrived or are too late
	seen     uint64 // result of Seen, apart from its limit

	// The answer.
	answerDue     bool          // a message from the owner has not been answered
	leastLeft     time.Duration // least time left of an input since the last answer; may be negative
	leastLeftTick uint64        // the tick of that input; 0 if there was no input

	stats QueueStats
}

// A slot holds the input of one tick.
type slot[I any] struct {
	tick     uint64
	arrived  bool      // the input is here
	wasTaken bool      // Take was called for the tick
	at       time.Time // when Take was called for the tick, or else when the input arrived
	input    I
}

// QueueStats counts the inputs of one actor's owner by their outcome.
type QueueStats struct {
	Taken  uint64 // ticks that had their input
	Missed uint64 // ticks taken without their input, since the owner's first message
	Late   uint64 // inputs that arrived after their tick was taken or left out

	// Inputs dropped because their tick was too far from the newest tick taken: more than a
	// second or 32 ticks, whichever is longer.
	Outside uint64

	Repeated int           // ticks without input since the last tick that had its input
	Margin   time.Duration // how early inputs arrive before their tick, smoothed
}

// Take returns the input for the tick that the server simulates now. ok reports whether the input
// arrived in time. now is the time of the current Dispatch.
//
// The queue keeps the input for two seconds, so what it refers to must not change. If the input did
// not arrive in time, Take returns the newest input before it, or the zero I if
// there is none yet. A game may repeat that input, but stop after some ticks: see
// [QueueStats].Repeated.
//
// Take must be called for every tick that is simulated, in order, starting with tick 1 or higher.
// Ticks may be left out. Taking a tick again returns the same result. Taking a lower tick rewinds
// the queue, and rewinding by a second (at least 32 ticks) or more resets it.
//
// A client learns the server's tick from Take. Before the first call it predicts nothing, and
// [Predictor.Tick] does not call its function.
//
// Number the ticks by the clock, as in uint64(now.Sub(start)*60/time.Second)+1, rather than by
// adding 1 per frame, which would make every late frame delay all later inputs, by up to a third of
// a second in total if two frames a second are late. After a late frame, simulate all ticks that
// are due. Leave ticks out only after a stall of a second or more, because clients must undo their
// predictions for these ticks.
func (q *Queue[I]) Take(now time.Time, tick uint64) (input I, ok bool) {
	switch {
	case q.started && tick == q.newest:
		return q.last, q.inTime
	case q.started && tick < q.newest:
		q.rewind(tick)
	}
	q.started = true
	q.newest = tick
	q.inTime = false
	if q.slots == nil {
		return q.last, false
	}

	s := q.slot(tick)
	ok = s.tick == tick && s.arrived
	q.inTime = ok
	if ok {
		if !s.wasTaken {
			q.noteLeft(tick, now.Sub(s.at))
		}
		q.last = s.input
		q.stats.Taken++
		q.stats.Repeated = 0
	} else {
		q.stats.Missed++
		q.stats.Repeated++
	}
	s.tick = tick
	s.arrived = ok
	s.wasTaken = true
	s.at = now

	if q.answerDue {
		q.reply()
	}
	return q.last, ok
}

// Seen returns the newest tick whose outcome the owner has seen, according to [Predictor.Saw] or
// to answers. When the owner aimed, it saw the other actors as they were at that tick. Before the
// owner has sent a message, Seen returns 0.
//
// The client reports the tick, so it may be lying. The result is limited to the ticks whose
// inputs are stored: the ticks of the last second, or the last 32 ticks if that is more.
func (q *Queue[I]) Seen() uint64 {
	if q.handle == nil {
		return 0
	}
	return max(q.seen, q.newest-min(q.newest, q.handle.half()))
}

// Stats returns the counters of the queue.
func (q *Queue[I]) Stats() QueueStats { return q.stats }

func (q *Queue[I]) slot(tick uint64) *slot[I] { return &q.slots[tick%uint64(len(q.slots))] }

// receive is called for a message from the owner.
func (q *Queue[I]) receive(h *Handle[I], call *rpc.Call, message batch[I]) {
	if q.handle == nil || q.conn != call.Conn || q.actor != call.Actor {
		q.handle = h
		q.conn = call.Conn
		q.actor = call.Actor
		q.reset()
	}
	q.answerDue = true
	if message.Seen > q.seen && message.Seen <= q.newest {
		q.seen = message.Seen
	}
	if message.First > math.MaxUint64-maxBatch {
		// Ticks must not wrap around.
		q.stats.Outside += uint64(len(message.Inputs))
		return
	}
	for i, input := range message.Inputs {
		q.put(message.First+uint64(i), input, call.Arrived)
	}
}

// reset removes all inputs, and the tick that the owner has seen.
func (q *Queue[I]) reset() {
	if q.slots == nil {
		q.slots = make([]slot[I], 2*q.handle.half())
	}
	clear(q.slots)
	var zero I
	q.last = zero
	q.inTime = false
	q.complete = 0
	q.seen = 0
	q.leastLeftTick = 0
	q.stats.Repeated = 0
}

// rewind is called when Take is called for a lower tick than before.
func (q *Queue[I]) rewind(tick uint64) {
	if q.slots == nil {
		return
	}
	if q.newest-tick >= q.handle.half() {
		q.reset()
		return
	}
	q.seen = min(q.seen, tick)
	q.last = q.newestBefore(tick)
}

// newestBefore returns the newest input that is stored for a lower tick, or the zero I if there
// is none.
func (q *Queue[I]) newestBefore(tick uint64) (input I) {
	for t := tick - 1; t > 0 && tick-t < q.handle.half(); t-- {
		if s := q.slot(t); s.tick == t && s.arrived {
			return s.input
		}
	}
	return input
}

// put stores the input of a tick. Only the first copy counts, so a client can't change its mind.
func (q *Queue[I]) put(tick uint64, input I, at time.Time) {
	if !q.accepts(tick) {
		q.stats.Outside++
		return
	}
	s := q.slot(tick)
	switch {
	case s.tick == tick && s.arrived:
		// We already have this input. Messages repeat inputs in case some are lost.
	case tick > q.newest:
		*s = slot[I]{tick: tick, arrived: true, at: at, input: input}
	case s.tick == tick && s.wasTaken:
		// It's too late for this tick, but keep it in case Take goes back.
		s.arrived = true
		s.input = input
		q.stats.Late++
		q.noteLeft(tick, s.at.Sub(at))
	default:
		// Take left this tick out, so the slot still holds an older tick.
		*s = slot[I]{tick: tick, arrived: true, at: at, input: input}
		q.stats.Late++
	}
}

// accepts reports whether a tick is close enough to the newest tick taken for its input to be
// stored.
func (q *Queue[I]) accepts(tick uint64) bool {
	half := q.handle.half()
	switch {
	case !q.started:
		return false
	case tick > q.newest:
		return tick-q.newest <= half
	}
	return q.newest-tick < half
}

// noteLeft records how much time an input had left when it arrived.
func (q *Queue[I]) noteLeft(tick uint64, left time.Duration) {
	q.stats.Margin = smooth(q.stats.Margin, left)
	if q.leastLeftTick == 0 || left < q.leastLeft {
		q.leastLeft = left
		q.leastLeftTick = tick
	}
}

// reply tells the owner which inputs have arrived, and the least time that one of them had left.
func (q *Queue[I]) reply() {
	q.answerDue = false
	q.complete = max(q.complete, q.newest)
	for q.complete-q.newest < q.handle.half() {
		next := q.slot(q.complete + 1)
		if next.tick != q.complete+1 || !next.arrived {
			break
		}
		q.complete++
	}
	message := answer{
		Taken:  q.newest,
		Have:   q.complete,
		Tick:   q.leastLeftTick,
		Left:   micros(q.leastLeft),
		Missed: q.stats.Missed,
	}
	q.leastLeftTick = 0
	_ = q.handle.answer.Call(q.actor, message) // if this fails, the next answer makes up for it
}
