package rpc

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/state"
)

// replicator compares, on a server, the states of actors at each Flush. Actors that are open for nobody are not among them.
type replicator struct {
	states []comparison
	left   bool   // some are of actors that are open for nobody any more
	fields []byte // of an update; scratch
}

// comparison is one state of one actor, as the loop over all of them needs it.
type comparison struct {
	replica replica
	actor   *Actor
}

// replicate brings the newest state on its way.
func (w *World) replicate(now time.Time) {
	if w.replicator.left {
		w.replicator.unwatch()
	}
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
	if since := now.Sub(a.compared); since > 0 && since < a.class.updatePeriod { // a game's clock may go back
		return false
	}
	a.compared = now
	return true
}

// ForceUpdate makes the next Flush look at the actor's states, however soon that is after the last look. UE: ForceNetUpdate.
func (a *Actor) ForceUpdate() { a.compared = time.Time{} }

// compare encodes one state anew, and notes what has changed for all clients that have the actor.
func (a *Actor) compare(r replica) {
	if list, ok := r.(keeper); ok {
		if !a.dormant { // it sleeps once all clients have its lists as they were, and what the game changes meanwhile waits until it wakes
			a.compareList(list)
		}
		return
	}
	changed, err := r.encode()
	if err != nil {
		a.world.stateFailed(a, r.declaration(), err)
	}
	if changed != 0 {
		a.mark(changed << r.declaration().first)
	}
}

// compareList encodes the items of a list that were touched, and notes for all clients that have the actor which are not what they
// were.
func (a *Actor) compareList(r keeper) {
	numbers, err := r.takeChanged()
	if err != nil {
		a.world.stateFailed(a, r.declaration(), err)
	}
	if len(numbers) == 0 {
		return
	}
	for _, o := range a.opens {
		o.lists[r.declaration().list].add(numbers)
		o.mark(r.declaration().mask())
	}
}

// firstLook encodes the states of a new object, also for those who have the actor already, for its constructor called it.
func (a *Actor) firstLook() {
	for _, r := range a.replicas {
		if _, list := r.(keeper); r != nil && !list {
			a.compare(r)
		}
	}
	if a.watched = false; len(a.opens) > 0 { // it had no states before
		a.world.watch(a)
	}
	for _, o := range a.opens {
		o.late = a.initialFields()
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
func (w *World) stateFailed(a *Actor, d *declaredState, err error) {
	w.stateErrors.Add(1)
	if hidden, ok := w.stateWarn.pass(w.now); ok {
		w.log.Error("state not replicated: its clients keep what they have", "actor", a, "state", d.String(), "error", err, "more", hidden)
	}
}

// mark notes that clients may not have the newest of fields.
func (a *Actor) mark(fields state.Mask) {
	for _, o := range a.opens {
		o.mark(fields)
	}
}

// watch adds the states of an actor that is open for somebody to those that are compared.
func (w *World) watch(a *Actor) {
	if a.watched {
		return
	}
	a.watched = true
	for _, r := range a.replicas {
		if r == nil {
			continue
		}
		w.replicator.states = append(w.replicator.states, comparison{replica: r, actor: a})
		if list, ok := r.(keeper); ok {
			list.watch(true)
			if _, err := list.encode(); err != nil { // of items that were set while nobody had the actor
				w.stateFailed(a, r.declaration(), err)
			}
		}
	}
}

// unwatch takes out the states of actors that are no longer open for anybody, all of a Flush at once: one by one they would cost as
// much as all that is compared, each.
func (r *replicator) unwatch() {
	r.left = false
	r.states = slices.DeleteFunc(r.states, func(c comparison) bool {
		if len(c.actor.opens) > 0 {
			return false
		}
		c.actor.watched = false
		if list, ok := c.replica.(keeper); ok {
			list.watch(false)
		}
		return true
	})
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
	since  time.Time  // lacks was empty before, or an update left last
	claim  float64    // its urgency, while they are sorted
	late   state.Mask // initial fields, of an open that left before there was an object
	lists  []lacking  // by list of the class
	items  int        // updates of lists on their way

	// On a server, of its relevancy.
	relevant time.Duration // when it was, last
	far      float32       // square of the distance to the connection's view, as a part of the square of the cull distance; at most 1
	at       int           // in the connection's view
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
	if o.lists == nil {
		o.markLists(false)
	}
	before := o.sees
	o.sees = o.actor.fieldsFor(o.conn) | o.late
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
		if d.isList() {
			fields |= d.mask()
			continue
		}
		for i := range d.count {
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
		for i := range r.declaration().count {
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
	given int      // bytes that the last Flush did
	pace  state.Pace
	began time.Time // by the link's clock, from which pace counts
	short bool      // the path did not take all of the last Flush
	held  bool      // the last Flush had no room for all
	all   bool      // the client has asked for everything anew
	allAt time.Time // when it last got that
	fates [64]bunch.Fate
}

// sentState is an update on its way.
type sentState struct {
	to     *opening
	fields state.Mask
	items  []uint32  // when fields is a list
	at     time.Time // when it was handed over
	since  time.Time // of the opening, before
}

const (
	// Room for states at a Flush: what does not leave until the next is taken back and composed anew, which only costs time.
	minStateRoom, maxStateRoom = 4 << 10, 96 << 10
	// maxUpdates leave at a Flush. With them, and maxStateRoom, the machine takes all, which reckons 64 bytes for each, and 256 KiB in all.
	maxUpdates = 2000
	// allPeriod bounds how often a client gets everything anew.
	allPeriod    = time.Second
	updateHeader = 6 // bytes of an update beside its fields: flags, channel, length and mask
)

// sendState settles what became of earlier updates, takes back what has not left, and hands the newest of what the client
// lacks to the machine: what has waited longest goes first when the path does not take all.
func (c *Conn) sendState(now time.Time) {
	s := &c.state
	if len(s.dirty) == 0 && len(s.free) == len(s.sent) && !s.all || !c.usable() {
		return
	}
	if since := now.Sub(s.allAt); s.all && (since < 0 || since >= allPeriod) {
		s.allAt = now
		c.markAll()
	}
	clock := c.link.Lock() // not the game's, which may jump
	defer c.link.Unlock()
	c.world.cork(c)
	left := c.machine.TrackedQueued()
	c.machine.TakeBack()
	c.settleStates()
	s.adapt(left)
	if s.began.IsZero() {
		s.began = clock
	}
	since := clock.Sub(s.began)
	recent, least, rounds := c.machine.RecentRTT()
	s.pace.Look(since, recent, least, rounds, s.given-left, s.short || s.held)
	s.pace.Sent(-left)
	s.given = s.pace.Room(since, s.room)
	if s.short || s.held {
		for _, o := range s.dirty {
			o.claim = o.urgency(now)
		}
		slices.SortStableFunc(s.dirty, func(a, b *opening) int { return cmp.Compare(b.claim, a.claim) })
	}
	s.given = c.compose(now, s.given)
	s.pace.Sent(s.given)
}

// adapt finds out how much the next Flush may hand over: twice what left since the last, once something did not.
func (s *stateOutbox) adapt(left int) {
	if s.short = left > 0; s.short {
		s.room = max(2*(s.room-left), minStateRoom)
		return
	}
	s.room = min(2*max(s.room, minStateRoom), maxStateRoom)
}

// farPriority is what is left of an actor's priority at its cull distance. UE: a pawn's goes down to 0.2 when it is far and out of
// sight (AActor::GetNetPriority).
const farPriority = 0.2

// urgency is the time since the last update times the class's priority, which falls with distance. UE: GetNetPriority.
func (o *opening) urgency(now time.Time) float64 {
	nearness := 1 - (1-farPriority)*math.Sqrt(float64(o.far))
	return now.Sub(o.since).Seconds() * o.actor.class.updatePriority * nearness
}

// settleStates hears what became of updates. What was lost the client may not have: the newest of it goes again.
func (c *Conn) settleStates() {
	s := &c.state
	for n := c.machine.Fates(s.fates[:]); n > 0; n = c.machine.Fates(s.fates[:]) {
		for _, f := range s.fates[:n] {
			sent := s.sent[f.Record]
			sent.settle()
			if !f.Kept && !sent.to.closed {
				sent.to.giveBack(sent)
			}
			s.release(f.Record)
		}
	}
}

// compose hands updates to the machine while there is room, and returns how many bytes it took. It is called under the link's lock.
func (c *Conn) compose(now time.Time, room int) (used int) {
	s := &c.state
	kept := s.dirty[:0]
	s.held = false
	updates := 0
	for i, o := range s.dirty {
		if s.held = used >= room || updates >= maxUpdates; s.held {
			kept = append(kept, s.dirty[i:]...)
			break
		}
		for used < room && !o.closed && o.lacks != 0 && c.machine.Opened(o.channel) {
			n := c.update(o, now)
			if n == 0 {
				break
			}
			used += n
			updates++
		}
		if o.listed = !o.closed && o.lacks != 0; o.listed {
			kept = append(kept, o)
		}
	}
	clear(s.dirty[len(kept):])
	s.dirty = kept
	return used
}

// update hands over what o lacks, or as much of it as one message takes, and returns its bytes.
func (c *Conn) update(o *opening, now time.Time) int {
	record, sent := c.state.record()
	b := c.world.replicator.fields[:0]
	if fields := o.lacks &^ o.actor.class.listFields(); fields != 0 {
		sent.fields = o.actor.fitting(fields, c.maxUpdate())
		b = o.actor.appendFields(b, sent.fields)
		o.lacks &^= sent.fields
	} else {
		b = o.appendList(b, sent)
	}
	c.world.replicator.fields = b
	o.told |= sent.fields
	if sent.fields&o.actor.class.listFields() != 0 {
		o.items++
	}
	sent.to, sent.at, sent.since, o.since = o, now, o.since, now
	err := c.machine.SendTracked(o.channel, record, b)
	switch {
	case err == nil:
		return updateHeader + len(b)
	case errors.Is(err, bunch.ErrBunchTooLarge):
		c.world.stateFailed(o.actor, o.actor.class.stateOf(bits.TrailingZeros64(uint64(sent.fields))), err)
	default: // the connection is over, or the channel about to close
		o.giveBack(*sent)
	}
	sent.settle()
	c.state.release(record)
	return 0
}

// settle notes that an update is on its way no more.
func (s *sentState) settle() {
	if s.fields&s.to.actor.class.listFields() != 0 {
		s.to.items--
	}
}

// settled reports whether the client has the lists as they are.
func (o *opening) settled() bool { return o.items == 0 && o.lacks&o.actor.class.listFields() == 0 }

// maxUpdate returns how many bytes of fields travel to the client in one message, beside the mask of at most 9.
func (c *Conn) maxUpdate() int { return min(bunch.EntryBytes, c.maxBunch) - 16 }

// giveBack notes that the client may lack again what a message held. When nothing newer left, its claim is as old as before: else
// what is handed over first, and taken back, would wait behind what was not.
func (o *opening) giveBack(sent sentState) {
	if sent.items != nil && sent.fields&o.actor.class.listFields() != 0 {
		o.lists[o.actor.class.stateOf(bits.TrailingZeros64(uint64(sent.fields))).list].add(sent.items)
	}
	o.mark(sent.fields)
	if o.since.Equal(sent.at) {
		o.since = sent.since
	}
}

// record returns a free place for what a message holds until its fate is known.
func (s *stateOutbox) record() (uint64, *sentState) {
	if n := len(s.free); n > 0 {
		record := s.free[n-1]
		s.free = s.free[:n-1]
		return record, &s.sent[record]
	}
	s.sent = append(s.sent, sentState{})
	return uint64(len(s.sent) - 1), &s.sent[len(s.sent)-1]
}

// release frees a place, but for the memory of its items.
func (s *stateOutbox) release(record uint64) {
	s.sent[record] = sentState{items: s.sent[record].items[:0]}
	s.free = append(s.free, record)
}

// fitting returns as many of the fields as one message takes, which is one at least.
func (a *Actor) fitting(fields state.Mask, most int) state.Mask {
	if a.sizeOf(fields) <= most {
		return fields
	}
	var fit state.Mask
	size := 0
	for i := range a.class.fields {
		bit := state.Mask(1) << i
		if fields&bit == 0 {
			continue
		}
		if size += a.sizeOf(bit); size > most && fit != 0 {
			break
		}
		fit |= bit
	}
	return fit
}

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
	for _, channel := range slices.Sorted(maps.Keys(c.channels)) {
		a := c.channels[channel]
		if i := a.find(c); i >= 0 {
			a.opens[i].markLists(true)
			a.opens[i].mark(a.opens[i].sees)
		}
	}
	for _, a := range c.sleepers() {
		if err := a.open(c); err != nil {
			a.notOpened(c, err)
		}
	}
}

// sleepers returns the actors with lists that sleep at the client. Other states came with the close, reliably.
func (c *Conn) sleepers() (actors []*Actor) {
	for a := range c.asleep {
		if a.class.lists > 0 && c.asleep[a] == Dormancy {
			actors = append(actors, a)
		}
	}
	slices.SortFunc(actors, func(a, b *Actor) int { return cmp.Compare(a.ref, b.ref) })
	return actors
}
