package input

import (
	"math"
	"time"

	"github.com/quivernet/quiver/rpc"
)

// A Queue holds, on the server, the inputs of one actor's owner until their ticks. The zero
// Queue is empty and ready to use. It must be used only on the world's goroutine.
type Queue[I any] struct {
	handle *Handle[I]
	actor  *rpc.Actor
	conn   *rpc.Conn // the owner's connection; inputs from another one reset the queue
	slots  []slot[I] // by tick modulo len(slots)

	began bool   // a tick was taken
	taken uint64 // the newest tick that was taken
	have  uint64 // the inputs of all ticks up to this one have arrived or are too late
	seen  uint64 // see Seen
	last  I      // the newest input that was taken
	came  bool   // last is the input of tick taken
	stats QueueStats

	owes      bool          // the owner waits for an answer
	worst     time.Duration // the shortest time left of an input since the last answer
	worstTick uint64        // the tick of that input; 0 = none
}

// slot holds the input of one tick.
type slot[I any] struct {
	tick  uint64
	came  bool      // the input has arrived
	taken bool      // Take was called for the tick
	at    time.Time // time when the input arrived or, once the tick was taken, when it was taken
	input I
}

// QueueStats counts what became of the inputs of one actor's owner.
type QueueStats struct {
	Taken  uint64 // ticks that had their input
	Missed uint64 // ticks taken without their input, since the owner's first message
	Late   uint64 // inputs that arrived after their tick was taken or left out

	// Inputs dropped because their tick was too far from the newest one taken: more than a
	// second or 32 ticks, whichever is longer.
	Outside uint64

	Repeated int           // ticks without input since the last one that had its input
	Margin   time.Duration // how early inputs arrive before their tick, smoothed
}

// Take returns the input for a tick, which the server simulates now. ok reports whether that
// input arrived in time. now is the time of the current Dispatch.
//
// If the input did not arrive in time, Take returns the newest input before
// it, and initially the zero I. A game may repeat that input, and stop
// after some ticks: see [QueueStats].Repeated.
//
// Call Take for every tick that is simulated, in order, beginning with 1 or more. Ticks may
// be left out. Taking a tick again returns the same result. Taking a lower tick rewinds the
// queue. Rewinding by a second (at least 32 ticks) or more resets it.
//
// A client learns the server's tick from Take. Before the first call it predicts nothing, and
// [Predictor.Tick] does not call its function.
//
// Number the ticks by the clock, as in uint64(now.Sub(start)*60/time.Second)+1. After a late
// frame, simulate all ticks that are due. Leave ticks out only after a stall of a second or
// more, because clients must undo what they predicted for them.
//
// Do not just add 1 per frame. Every late frame then delays all later inputs, by up to a
// third of a second in total if two frames a second are late.
func (q *Queue[I]) Take(now time.Time, tick uint64) (input I, ok bool) {
	switch {
	case q.began && tick == q.taken:
		return q.last, q.came
	case q.began && tick < q.taken:
		q.goBack(tick)
	}
	q.began = true
	q.taken = tick
	q.came = false
	if q.slots == nil { // no input has arrived
		return q.last, false
	}
	s := q.slot(tick)
	ok = s.tick == tick && s.came
	q.came = ok
	if ok {
		if !s.taken {
			q.note(tick, now.Sub(s.at))
		}
		q.last = s.input
		q.stats.Taken++
		q.stats.Repeated = 0
	} else {
		q.stats.Missed++
		q.stats.Repeated++
	}
	s.tick = tick
	s.came = ok
	s.taken = true
	s.at = now
	if q.owes {
		q.reply()
	}
	return q.last, ok
}

// Seen returns the newest tick whose outcome the owner has seen, by [Predictor.Saw] or by
// answers. When the owner aimed, it saw the others as they were at that tick. Before the
// owner has sent a message, Seen returns 0.
//
// The client reports the tick, so it may be false. It is limited to the ticks whose inputs
// are stored: those of the last second, or the last 32 if that is more.
func (q *Queue[I]) Seen() uint64 {
	if q.handle == nil {
		return 0
	}
	return max(q.seen, q.taken-min(q.taken, q.handle.half()))
}

// Stats returns the counters of the queue.
func (q *Queue[I]) Stats() QueueStats { return q.stats }

func (q *Queue[I]) slot(tick uint64) *slot[I] { return &q.slots[tick%uint64(len(q.slots))] }

// receive handles a message from the owner.
func (q *Queue[I]) receive(h *Handle[I], call *rpc.Call, message batch[I]) {
	if q.handle == nil || q.conn != call.Conn || q.actor != call.Actor {
		q.handle = h
		q.conn = call.Conn
		q.actor = call.Actor
		q.restart()
	}
	q.owes = true
	if message.Seen > q.seen && message.Seen <= q.taken {
		q.seen = message.Seen
	}
	if message.First > math.MaxUint64-maxBatch {
		q.stats.Outside += uint64(len(message.Inputs))
		return
	}
	for i, input := range message.Inputs {
		q.put(message.First+uint64(i), input, call.Arrived)
	}
}

// restart removes all inputs.
func (q *Queue[I]) restart() {
	if q.slots == nil {
		q.slots = make([]slot[I], 2*q.handle.half())
	}
	clear(q.slots)
	var none I
	q.last = none
	q.came = false
	q.have = 0
	q.seen = 0
	q.worstTick = 0
	q.stats.Repeated = 0
}

// goBack prepares the queue for a tick that is lower than the newest one taken.
func (q *Queue[I]) goBack(tick uint64) {
	if q.slots == nil {
		return
	}
	if q.taken-tick >= q.handle.half() {
		q.restart()
		return
	}
	q.seen = min(q.seen, tick)
	q.last = q.before(tick)
}

// before returns the newest input for a lower tick, or the zero I if none is stored.
func (q *Queue[I]) before(tick uint64) (input I) {
	for t := tick - 1; t > 0 && tick-t < q.handle.half(); t-- {
		if s := q.slot(t); s.tick == t && s.came {
			return s.input
		}
	}
	return input
}

// put stores the input of a tick. The first copy counts, so a client
// cannot change its input later.
func (q *Queue[I]) put(tick uint64, input I, at time.Time) {
	if !q.accepts(tick) {
		q.stats.Outside++
		return
	}
	s := q.slot(tick)
	switch {
	case s.tick == tick && s.came: // a copy
	case tick > q.taken:
		*s = slot[I]{tick: tick, came: true, at: at, input: input}
	case s.tick == tick && s.taken:
		s.came = true
		s.input = input // in case Take goes back
		q.stats.Late++
		q.note(tick, s.at.Sub(at))
	default: // Take left the tick out, and the slot is of an older tick
		*s = slot[I]{tick: tick, came: true, at: at, input: input}
		q.stats.Late++
	}
}

// accepts reports whether a tick is near enough to the newest one
// taken for its input to be stored.
func (q *Queue[I]) accepts(tick uint64) bool {
	half := q.handle.half()
	switch {
	case !q.began:
		return false
	case tick > q.taken:
		return tick-q.taken <= half
	}
	return q.taken-tick < half
}

// note records how early an input arrived.
func (q *Queue[I]) note(tick uint64, left time.Duration) {
	q.stats.Margin = smooth(q.stats.Margin, left)
	if q.worstTick == 0 || left < q.worst {
		q.worst = left
		q.worstTick = tick
	}
}

// reply tells the owner which inputs have arrived and how early.
func (q *Queue[I]) reply() {
	q.owes = false
	q.have = max(q.have, q.taken)
	for q.have-q.taken < q.handle.half() {
		next := q.slot(q.have + 1)
		if next.tick != q.have+1 || !next.came {
			break
		}
		q.have++
	}
	message := answer{
		Taken:  q.taken,
		Have:   q.have,
		Tick:   q.worstTick,
		Left:   micros(q.worst),
		Missed: q.stats.Missed,
	}
	q.worstTick = 0
	_ = q.handle.answer.Call(q.actor, message) // the next answer repeats it
}
