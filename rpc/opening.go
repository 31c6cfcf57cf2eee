package rpc

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/drops"
	"github.com/quivernet/quiver/internal/keyed"
	"github.com/quivernet/quiver/internal/state"
)

// opening is an actor's channel on one connection.
type opening struct {
	actor    *Actor
	conn     *Conn
	channel  uint64
	reliable int // messages sent reliably, the open included

	// On a server, of its states.
	sees   state.Mask // fields that are for this client, by their conditions; those of the open alone are not among them
	lacks  state.Mask // of them, those that it may not have as they are now, and that are not on their way
	fresh  state.Mask // of lacks, those that have changed since the last update that left before the client had the open
	told   state.Mask // those that left in an update since the open, kept or not: a copy that lives on gets them with its close
	listed bool       // it is in stateOutbox.dirty
	closed bool
	since  time.Time       // when the last update was handed over, or the actor opened: what has waited longest goes first
	claim  float64         // what urgency returned, while stateOutbox.dirty is sorted
	late   state.Mask      // initial fields, of an open that left before there was an object
	lists  []keyed.Lacking // by list of the class; nil when it has none, or before the actor has its replicas
	items  int             // updates of lists whose fate is not known
	queued []byte          // calls of ForceQueue methods that wait for the next update, each behind its length
	backed int             // bytes of them, the first, that were taken back since calls were last handed over

	// On a server, of its relevancy.
	relevant time.Duration // relevance.elapsed when it last was
	far      float32       // square of the distance to the connection's view, as a part of the square of the cull distance; at most 1
	at       int           // its place in view.openings
}

// mark notes that the client may not have the newest of fields.
func (o *opening) mark(fields state.Mask) {
	o.lacks |= fields & o.sees
	o.fresh |= fields & o.sees
	if o.lacks != 0 {
		o.list()
	}
}

// list has the next Flush look at o.
func (o *opening) list() {
	if !o.listed {
		o.listed = true
		o.conn.state.dirty = append(o.conn.state.dirty, o)
	}
}

// maxQueuedCalls is how many bytes of calls wait behind the states of an actor for one client: as much as some seven packets take.
const maxQueuedCalls = 8 << 10

// queue keeps a call for the next update of its actor.
func (o *opening) queue(m *method, call []byte) error {
	if most := o.conn.maxUpdate() - binary.MaxVarintLen16; len(call) > most {
		return fmt.Errorf("rpc: %v: %d bytes with ForceQueue, at most %d travel with states: %w", m, len(call), most, bunch.ErrBunchTooLarge)
	}
	if len(o.queued)+len(call) > maxQueuedCalls {
		o.conn.drop(drops.Saturated, o.actor, m)
		return nil
	}
	o.queued = append(binary.AppendUvarint(o.queued, uint64(len(call))), call...)
	o.list()
	return nil
}

// callsDue reports whether calls may leave now: behind all states, as they are since the last call was made.
func (o *opening) callsDue(now time.Time) bool {
	return len(o.queued) > 0 && !o.closed && o.lacks == 0 && o.actor.due(now)
}

// cut takes the first calls off the queue, whole, of at most so many bytes.
func (o *opening) cut(most int) (calls []byte) {
	n := 0
	for n < len(o.queued) {
		size, head := binary.Uvarint(o.queued[n:])
		if n+head+int(size) > most {
			break
		}
		n += head + int(size)
	}
	calls, o.queued = o.queued[:n], o.queued[n:]
	if len(o.queued) == 0 {
		o.queued = calls[:0] // its memory, for the next ones; the caller copies these before
	}
	return calls
}

// requeue puts calls back that have not left, behind those that were put back before.
func (o *opening) requeue(calls []byte) {
	if o.closed {
		o.dropCalls(calls)
	} else if len(calls) > 0 {
		o.queued = slices.Insert(o.queued, o.backed, calls...)
		o.backed += len(calls)
		o.list()
	}
}

// dropCalls counts calls that will not leave, for the channel has closed.
func (o *opening) dropCalls(calls []byte) {
	for len(calls) > 0 {
		size, head := binary.Uvarint(calls)
		calls = calls[head+int(size):]
		o.conn.drops.Add(drops.Closed, 1)
	}
}

// look finds out which fields are for the client, and marks those that were not before.
func (o *opening) look() {
	if o.lists == nil {
		o.markLists(false)
	}
	before := o.sees
	o.sees = o.actor.fieldsFor(o.conn) | o.late
	o.lacks &= o.sees
	o.mark(o.sees &^ before)
}

// farPriority is what is left of an actor's priority at its cull distance. UE: a pawn's goes down to 0.2 when it is far and out of
// sight (AActor::GetNetPriority).
const farPriority = 0.2

// urgency is the time since the last update times the class's priority, which falls with distance. UE: GetNetPriority.
func (o *opening) urgency(now time.Time) float64 {
	nearness := 1 - (1-farPriority)*math.Sqrt(float64(o.far))
	return now.Sub(o.since).Seconds() * o.actor.class.updatePriority * nearness
}

// settled reports whether the client has the lists as they are, and no call waits for it.
func (o *opening) settled() bool {
	return o.items == 0 && len(o.queued) == 0 && o.lacks&o.actor.class.listFields() == 0
}

// giveBack notes that the client may lack again what a message held. When nothing newer left, its claim is as old as before: else
// what is handed over first, and taken back, would wait behind what was not.
func (o *opening) giveBack(sent sentState) {
	if sent.items != nil && sent.fields&o.actor.class.listFields() != 0 {
		o.lists[o.actor.class.stateOf(bits.TrailingZeros64(uint64(sent.fields))).list].Add(sent.items)
	}
	o.mark(sent.fields)
	if o.since.Equal(sent.at) {
		o.since = sent.since
	}
}

// markLists notes that the client may lack all items. census: it may also have some that are gone.
func (o *opening) markLists(census bool) {
	if o.actor.class.lists == 0 || o.actor.replicas == nil {
		return
	}
	o.lists = make([]keyed.Lacking, o.actor.class.lists)
	for _, r := range o.actor.replicas {
		if list, ok := r.(keeper); ok {
			o.lists[list.declaration().list].AddAll(list, census)
		}
	}
}

// appendList appends an update of the first list that lacks something, and notes in sent what it holds.
func (o *opening) appendList(b []byte, sent *sentState) []byte {
	for _, r := range o.actor.replicas {
		list, ok := r.(keeper)
		if !ok || o.lacks&list.declaration().mask() == 0 {
			continue
		}
		d, lacks := list.declaration(), &o.lists[list.declaration().list]
		sent.fields = d.mask()
		b = state.AppendMask(b, sent.fields, o.actor.class.fields)
		b, sent.items = lacks.Take(b, sent.items, list, o.conn.maxUpdate())
		if lacks.Empty() {
			o.lacks &^= sent.fields
		}
		return b
	}
	return b
}

// Channel is an actor's channel on one connection. The zero Channel is closed. Its methods are safe from any goroutine.
type Channel struct {
	conn   *Conn
	number uint64
}

// Channel returns the actor's channel on c; the zero Channel when the actor is not open there.
func (a *Actor) Channel(c *Conn) Channel {
	if o := a.find(c); o != nil {
		return Channel{c, o.channel}
	}
	return Channel{}
}

// Open reports whether the channel exists and its connection lives.
func (ch Channel) Open() bool { return ch.conn != nil && ch.conn.usable() }

// Reliable returns how many entries of the channel's reliable buffer are taken, and how many it has; one of them is for
// the close alone. UE: NumOutRec, RELIABLE_BUFFER.
func (ch Channel) Reliable() (out, slots int) {
	if ch.conn == nil {
		return 0, 0
	}
	ch.conn.link.Lock()
	defer ch.conn.link.Unlock()
	return ch.conn.machine.Reliable(ch.number)
}

// QueueTime returns how long what waits unsent on the channel, and before it, takes at the present delivery rate.
func (ch Channel) QueueTime() time.Duration {
	if ch.conn == nil {
		return 0
	}
	ch.conn.link.Lock()
	defer ch.conn.link.Unlock()
	return ch.conn.machine.QueueTime(ch.number)
}

// Gate returns what keeps the calls of the channel back now, in one of these words, the nearest to the game first:
//
//	reliable buffer  no entry is free: the next reliable call closes the connection, or is an error (Config.Bunch.Overflow)
//	flow control     the peer takes no more reliable bytes before it has dispatched some: its Config.ReceiveLimit
//	rate             Config.Rate or WorldRate is used up, for unreliable calls and bulk
//	window           the path takes no more: its congestion window or pace, or an outage
//
// It is empty when nothing does: nothing waits, or only for Flush. States, which have no channel of their own, do not count.
func (ch Channel) Gate() string {
	if ch.conn == nil {
		return ""
	}
	ch.conn.link.Lock()
	defer ch.conn.link.Unlock()
	return ch.conn.gate(ch.number)
}

// Watch makes Run tick once as soon as fewer than out entries are taken and the queue time is at most queued.
func (ch Channel) Watch(out int, queued time.Duration) {
	if ch.conn == nil {
		return
	}
	ch.conn.link.Lock()
	defer ch.conn.link.Unlock()
	ch.conn.machine.Watch(ch.number, out, queued)
}
