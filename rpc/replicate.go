package rpc

import (
	"cmp"
	"slices"
	"time"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/state"
)

// replicator compares, on a server, the states of actors at each Flush. Actors that are open for nobody are not among them.
type replicator struct {
	states []comparison
	fields []byte // of an update; scratch
}

// comparison is one state of one actor, as the loop over all of them needs it.
type comparison struct {
	replica replica
	actor   *Actor
}

// replicate brings the newest state on its way.
func (w *World) replicate(now time.Time) {
	for i := range w.replicator.states {
		if c := &w.replicator.states[i]; c.replica.changed() && c.actor.due(now) {
			c.actor.compare(c.replica)
		}
	}
	for _, c := range w.conns {
		if c.server {
			c.dismissOverdue()
			c.sendState(now)
		}
	}
}

// due reports whether the actor may be looked at: it was not within the period of its class, or was at this very Flush.
func (a *Actor) due(now time.Time) bool {
	if since := now.Sub(a.compared); since != 0 && since < a.class.updatePeriod {
		return false
	}
	a.compared = now
	return true
}

// ForceUpdate makes the next Flush look at the actor's states, however soon that is after the last look. UE: ForceNetUpdate.
func (a *Actor) ForceUpdate() { a.compared = time.Time{} }

// compare encodes one state anew, and notes what has changed for all clients that have the actor.
func (a *Actor) compare(r replica) {
	changed, err := r.encode()
	if err != nil {
		a.world.stateFailed(a, r, err)
	}
	if changed != 0 {
		a.mark(changed << r.declaration().first)
	}
}

// firstLook encodes the states of a new object, also for those who have the actor already, for its constructor called it.
func (a *Actor) firstLook() {
	for _, r := range a.replicas {
		if r != nil {
			a.compare(r)
		}
	}
	if len(a.opens) > 0 {
		a.watched = false
		a.world.watch(a)
	}
	for _, o := range a.opens {
		o.look()
	}
}

// compareAll compares all states of the actor, whether or not they are due.
func (a *Actor) compareAll() {
	for _, r := range a.replicas {
		if r != nil && r.changed() {
			a.compare(r)
		}
	}
}

// stateFailed tells, once a second at most, that fields can not travel as they are.
func (w *World) stateFailed(a *Actor, r replica, err error) {
	w.stateErrors.Add(1)
	if hidden, ok := w.stateWarn.pass(w.now); ok {
		w.log.Error("state not replicated: its clients keep what they have", "actor", a, "state", r.declaration().String(), "error", err, "more", hidden)
	}
}

// mark notes that clients may not have the newest of fields.
func (a *Actor) mark(fields state.Mask) {
	for _, o := range a.opens {
		o.mark(fields)
	}
}

// watch adds the states of an actor that is open for somebody to those that are compared; unwatch takes them out.
func (w *World) watch(a *Actor) {
	if a.watched {
		return
	}
	a.watched = true
	for _, r := range a.replicas {
		if r != nil {
			w.replicator.states = append(w.replicator.states, comparison{replica: r, actor: a})
		}
	}
}

func (w *World) unwatch(a *Actor) {
	if a.watched {
		a.watched = false
		w.replicator.states = slices.DeleteFunc(w.replicator.states, func(c comparison) bool { return c.actor == a })
	}
}

// opening is an actor's channel on one connection.
type opening struct {
	actor    *Actor
	conn     *Conn
	channel  uint64
	reliable int // messages sent reliably, the open included

	// On a server, of its states.
	sees   state.Mask // fields that are for this client
	lacks  state.Mask // of them, those that it may not have as they are now, and that are not on their way
	told   state.Mask // of them, those that an update brought since the open
	listed bool       // it is in the connection's dirty list
	closed bool
	since  time.Time // lacks was empty before, or an update left last
}

// mark notes that the client may not have the newest of fields.
func (o *opening) mark(fields state.Mask) {
	o.lacks |= fields & o.sees
	if o.lacks != 0 && !o.listed {
		o.listed = true
		o.conn.state.dirty = append(o.conn.state.dirty, o)
	}
}

// look finds out which fields are for the client, and marks those that were not before.
func (o *opening) look() {
	before := o.sees
	o.sees = o.actor.fieldsFor(o.conn)
	o.lacks &= o.sees
	o.mark(o.sees &^ before)
}

// fieldsFor returns the fields that travel to c, but for those that go with the open only.
func (a *Actor) fieldsFor(c *Conn) (fields state.Mask) {
	for _, r := range a.replicas {
		if r == nil {
			continue
		}
		d := r.declaration()
		for i := range d.plan.Fields() {
			if a.shows(d.plan.Field(i), d.id, c) {
				fields |= 1 << (d.first + i)
			}
		}
	}
	return fields
}

// shows reports whether a field is for c. UE: ELifetimeCondition.
func (a *Actor) shows(f state.Field, id int, c *Conn) bool {
	switch f.Condition {
	case state.Owner:
		return a.owner == c
	case state.SkipOwner:
		return a.owner != c
	case state.Initial:
		return false
	case state.Custom:
		return a.conditions[condition{id, f.Custom}]
	}
	return true
}

// initialFields returns those that go with the open only.
func (a *Actor) initialFields() (fields state.Mask) {
	for _, r := range a.replicas {
		if r == nil {
			continue
		}
		for i := range r.declaration().plan.Fields() {
			if r.declaration().plan.Field(i).Condition == state.Initial {
				fields |= 1 << (r.declaration().first + i)
			}
		}
	}
	return fields
}

// stateOutbox is what a server's connection has of the states that its client shall get. It belongs to the world's goroutine.
type stateOutbox struct {
	dirty []*opening // those that lack something, and some that do no more
	sent  []sentState
	free  []uint64 // places in sent
	room  int      // bytes that the next Flush may hand to the machine
	short bool     // the path did not take all of the last Flush
	all   bool     // the client has asked for everything anew
	fates [64]bunch.Fate
}

// sentState is an update on its way.
type sentState struct {
	to     *opening
	fields state.Mask
}

const (
	// Room for states at a Flush: what does not leave until the next is taken back and composed anew, which only costs time.
	minStateRoom, maxStateRoom = 4 << 10, 256 << 10
	updateHeader               = 6 // bytes of an update beside its fields: flags, channel, length and mask
)

// sendState settles what became of earlier updates, takes back what has not left, and hands the newest of what the client
// lacks to the machine: what has waited longest goes first when the path does not take all.
func (c *Conn) sendState(now time.Time) {
	s := &c.state
	if len(s.dirty) == 0 && len(s.free) == len(s.sent) && !s.all || !c.usable() {
		return
	}
	if s.all {
		c.markAll()
	}
	c.link.Lock()
	defer c.link.Unlock()
	c.world.cork(c)
	left := c.machine.TrackedQueued()
	c.machine.TakeBack()
	c.settleStates()
	s.adapt(left)
	if s.short {
		slices.SortStableFunc(s.dirty, func(a, b *opening) int { return cmp.Compare(b.urgency(now), a.urgency(now)) })
	}
	c.compose(now)
}

// adapt finds out how much the next Flush may hand over: twice what left since the last, once something did not.
func (s *stateOutbox) adapt(left int) {
	if s.short = left > 0; s.short {
		s.room = max(2*(s.room-left), minStateRoom)
		return
	}
	s.room = min(2*max(s.room, minStateRoom), maxStateRoom)
}

// urgency is the time since the last update times the class's priority. UE: NetPriority.
func (o *opening) urgency(now time.Time) float64 {
	return now.Sub(o.since).Seconds() * o.actor.class.updatePriority
}

// settleStates hears what became of updates. What was lost the client may not have: the newest of it goes again.
func (c *Conn) settleStates() {
	s := &c.state
	for n := c.machine.Fates(s.fates[:]); n > 0; n = c.machine.Fates(s.fates[:]) {
		for _, f := range s.fates[:n] {
			sent := s.sent[f.Record]
			s.sent[f.Record] = sentState{}
			s.free = append(s.free, f.Record)
			if !f.Kept && !sent.to.closed {
				sent.to.mark(sent.fields)
			}
		}
	}
}

// compose hands updates to the machine while there is room. It is called under the link's lock.
func (c *Conn) compose(now time.Time) {
	s := &c.state
	kept, used := s.dirty[:0], 0
	for i, o := range s.dirty {
		if used >= s.room {
			kept = append(kept, s.dirty[i:]...)
			break
		}
		if !o.closed && o.lacks != 0 && c.machine.Opened(o.channel) {
			used += c.update(o, now)
		}
		if o.listed = !o.closed && o.lacks != 0; o.listed {
			kept = append(kept, o)
		}
	}
	clear(s.dirty[len(kept):])
	s.dirty = kept
}

// update hands over what o lacks, or as much of it as one message takes, and returns its bytes.
func (c *Conn) update(o *opening, now time.Time) int {
	fields := o.actor.fitting(o.lacks)
	b := o.actor.appendFields(c.world.replicator.fields[:0], fields)
	c.world.replicator.fields = b
	record := c.state.record(sentState{o, fields})
	if err := c.machine.SendTracked(o.channel, record, b); err != nil {
		c.state.sent[record] = sentState{}
		c.state.free = append(c.state.free, record)
		return 0
	}
	o.lacks &^= fields
	o.told |= fields
	o.since = now
	return updateHeader + len(b)
}

// record keeps what a message holds until its fate is known.
func (s *stateOutbox) record(sent sentState) uint64 {
	if n := len(s.free); n > 0 {
		record := s.free[n-1]
		s.free = s.free[:n-1]
		s.sent[record] = sent
		return record
	}
	s.sent = append(s.sent, sent)
	return uint64(len(s.sent) - 1)
}

// fitting returns as many of the fields as one message takes, which is one at least.
func (a *Actor) fitting(fields state.Mask) state.Mask {
	if a.sizeOf(fields) <= maxUpdate {
		return fields
	}
	var fit state.Mask
	size := 0
	for i := range a.class.fields {
		bit := state.Mask(1) << i
		if fields&bit == 0 {
			continue
		}
		if size += a.sizeOf(bit); size > maxUpdate {
			break
		}
		fit |= bit
	}
	return fit
}

// maxUpdate is how many bytes of fields travel in one message, beside the mask of at most 9.
const maxUpdate = bunch.EntryBytes - 16

func (a *Actor) sizeOf(fields state.Mask) (size int) {
	for _, r := range a.replicas {
		if r != nil {
			size += r.size(r.declaration().own(fields))
		}
	}
	return size
}

// appendFields appends a mask and the fields that it names, as encoded last.
func (a *Actor) appendFields(b []byte, fields state.Mask) []byte {
	b = state.AppendMask(b, fields, a.class.fields)
	for _, r := range a.replicas {
		if r != nil {
			b = r.appendTo(b, r.declaration().own(fields))
		}
	}
	return b
}

// markAll marks all that the client may see: it could not keep what it acknowledged.
func (c *Conn) markAll() {
	c.state.all = false
	for _, a := range c.channels {
		if i := a.find(c); i >= 0 {
			a.opens[i].mark(a.opens[i].sees)
		}
	}
}
