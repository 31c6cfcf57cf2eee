package rpc

import (
	"errors"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/drops"
	"github.com/quivernet/quiver/internal/keyed"
	"github.com/quivernet/quiver/internal/logs"
	"github.com/quivernet/quiver/internal/outbox"
	"github.com/quivernet/quiver/internal/state"
	"github.com/quivernet/quiver/internal/tasks"
)

// The replicator is the part of a server that finds out which states have changed. In each Flush,
// it compares the states of all actors that are open for at least one connection, and marks the
// changed fields in the actors' openings.
//
// It is used only by the world's goroutine.
type replicator struct {
	states     []comparison
	compared   bool      // the current or last Flush compared states: see fewStates
	unwatchDue bool      // some actors in states are no longer open for any connection: see unwatch
	fields     []byte    // scratch space for an update
	warn       logs.Gate // limits warnings about unsendable states to one per second

	// Run sleeps until something happens. These fields tell it whether it has to wake up just
	// because of states.
	lastEvent time.Time // last event that may have changed states; zero if the game calls Flush
	behind    bool      // because of UpdateRate, the last Flush skipped states that may have changed
}

// A comparison is one state of one actor that each Flush has to compare.
type comparison struct {
	replica replica
	actor   *Actor
}

// replicate is called in Flush to compare the states and send their changes to the clients.
func (w *World) replicate(now time.Time) {
	if w.replicator.unwatchDue {
		w.replicator.unwatch()
	}
	w.replicator.compared = w.frame.allConns || len(w.replicator.states) <= fewStates
	if w.replicator.compared {
		w.replicator.compare(now)
	}
	for _, c := range w.frame.attended(w.announced) {
		if c.server {
			c.retryDismissals()
			c.sendState(now)
			c.world.logs.Updates(c, c.shown.state.budget.lastUsed, len(c.shown.state.dirty), c.shown.state.behind)
		}
	}
}

// fewStates is the maximum number of states for which Run compares all of them in every step.
// Comparing an unchanged state takes about 10 ns, so 256 of them take less than 3 µs.
//
// If there are more states, Run compares them only in steps that look at all connections, because
// otherwise the cost of each message would grow with the number of actors. Such steps are the
// ticks, one step per settleTime and, with at most fewConns connections, all steps. Tests set
// fewStates.
var fewStates = 256

// compare compares all states that are due.
func (r *replicator) compare(now time.Time) {
	r.behind = false
	for i := range r.states {
		c := &r.states[i]
		if !c.replica.changed() {
			continue
		}
		if c.actor.states.claimSlot(now, c.actor.class.updatePeriod, c.actor.ref) {
			c.actor.compare(c.replica)
			continue
		}

		// The state isn't due, so if it has changed, Run must wake up for it later. (If the game
		// calls Flush itself, it will do so again.) Any event since the last comparison may have
		// changed the state. Even without an event, an OnTick hook may have changed it, which only
		// a comparison shows.
		runSleeps := !r.lastEvent.IsZero()
		if runSleeps && (c.actor.states.compared.Before(r.lastEvent) || c.replica.differs()) {
			r.behind = true
		}
	}
}

// ForceUpdate makes the next Flush compare the actor's states, even if [UpdateRate] doesn't allow
// that yet. UE (Unreal Engine's counterpart): ForceNetUpdate.
func (a *Actor) ForceUpdate() { a.states.compared = time.Time{} }

// compare encodes one state again, and marks the fields that have changed for all clients that have
// the actor.
func (a *Actor) compare(r replica) {
	if list, ok := r.(itemReplica); ok {
		// Leave the lists of a dormant actor alone. Its channels close once the clients have all
		// items, so they would stay open for as long as the game keeps changing the lists.
		if !a.dormancy.on || a.dormancy.flushLists {
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

// compareList does for a list what compare does for a struct. It encodes only the items that the
// game has set or deleted.
func (a *Actor) compareList(r itemReplica) {
	numbers, err := r.TakeChanged()
	if err != nil {
		a.world.stateFailed(a, r.declaration(), err)
	}
	if len(numbers) == 0 {
		return
	}
	for _, o := range a.openings {
		o.lists[r.declaration().list].Add(numbers)
		o.mark(r.declaration().mask())
	}
}

// encodeFirst encodes the states of a new object. Its error names the fields and items that can't
// be encoded.
func (a *Actor) encodeFirst() (failed error) {
	for r := range a.states.present {
		changed, err := r.encode()
		if changed != 0 {
			a.mark(changed << r.declaration().first)
		}
		if err != nil {
			failed = errors.Join(failed, errorf("rpc: Spawn of a %q: state %v: %w", a.class.name, r.declaration(), err))
		}
	}

	// If the constructor has made a call, some clients already have the actor, but not its states.
	// There were no replicas to watch at that time, so watch the actor again, and send the states
	// to these clients in updates, including the fields that are normally sent only in the open.
	a.states.watched = false
	if len(a.openings) > 0 {
		a.world.watch(a)
	}
	for _, o := range a.openings {
		o.lateInitial = a.states.initial()
		o.updateVisible()
	}
	return failed
}

// compareAll compares all states of the actor, whether or not they are due.
func (a *Actor) compareAll() {
	for r := range a.states.present {
		if r.changed() {
			a.compare(r)
		}
	}
}

// stateFailed logs, at most once a second, that fields can't be sent as they are.
func (w *World) stateFailed(a *Actor, d *declaredState, err error) {
	if hidden, ok := w.replicator.warn.Pass(w.frame.now); ok {
		w.log.Error("state not replicated; clients keep the previous values",
			"actor", a, "state", d.String(), "error", err, "more", hidden)
	}
}

// mark records that clients may lack the newest values of fields.
func (a *Actor) mark(fields state.Mask) {
	for _, o := range a.openings {
		o.mark(fields)
	}
}

// watch makes each Flush compare an actor's states from now on. It is called when the actor opens
// for a connection.
func (w *World) watch(a *Actor) {
	if a.states.watched {
		return
	}
	a.states.watched = true
	for r := range a.states.present {
		w.replicator.states = append(w.replicator.states, comparison{replica: r, actor: a})
		if list, ok := r.(itemReplica); ok {
			list.Watch(true)
			// The game may have set items while no connection had the actor.
			if err := list.EncodeAll(); err != nil {
				w.stateFailed(a, r.declaration(), err)
			}
		}
	}
}

// noteClosed makes the next Flush call unwatch if the actor is no longer open for any connection,
// or has failed to open for its first one.
func (r *replicator) noteClosed(a *Actor) {
	if len(a.openings) == 0 {
		r.unwatchDue = true
	}
}

// unwatch stops comparing the states of all actors that are no longer open for any connection.
func (r *replicator) unwatch() {
	r.unwatchDue = false
	r.states = slices.DeleteFunc(r.states, func(c comparison) bool {
		if len(c.actor.openings) > 0 {
			return false
		}
		c.actor.states.watched = false
		if list, ok := c.replica.(itemReplica); ok {
			list.Watch(false)
		}
		return true
	})
}

// An opening is an actor's channel on one connection. A client uses only the first group of
// fields. On a server, the opening also records what the client lacks.
//
// An opening is used only by the world's goroutine.
type opening struct {
	actor    *Actor
	conn     *Conn
	channel  uint64
	reliable int  // number of messages sent reliably, including the open
	closed   bool // Actor.forget has removed it from its actor and its connection

	// States that the client still needs. A mask has a bit for each field of the class.
	visible     state.Mask // fields that the client may see, excluding fields tagged initial
	lacks       state.Mask // visible fields that may be stale at the client and aren't in flight
	fresh       state.Mask // the part of lacks that updateEarly hasn't sent since it changed
	everSent    state.Mask // fields sent in an update, arrived or not; sendLastState repeats them
	lateInitial state.Mask // initial fields missing from an open that the constructor caused

	// Lists and calls, which are sent along with the states.
	lists         []keyed.Backlog // by list of the class; nil if it has no lists, or no replica yet
	listsInFlight int             // list updates whose fate isn't known yet
	queuedCalls   outbox.Calls    // of ForceQueue methods, until the states have been sent

	// Competition for the budget of a Flush.
	enqueued bool      // the opening is in stateOutbox.dirty
	since    time.Time // when the last update was handed over, or when the actor opened
	sortKey  float64   // result of urgency, while stateOutbox.sort runs

	// If closePending is set, the actor has passed from this client to another owner. Nothing is
	// sent anymore, and the opening closes as soon as the client has acknowledged the open, unless
	// cancelClose is called first. See Actor.closeToPrevious.
	closePending bool
	missed       int // number of reliable Multicasts made since closePending was set

	// Relevancy.
	relevantAt time.Duration // relevance.elapsed when the actor was last relevant to the client
	far        float32       // squared distance from the view, in squared cull distances; at most 1
	viewIndex  int           // index in view.openings
}

// mark records that the client may not have the newest values of fields.
func (o *opening) mark(fields state.Mask) {
	o.lacks |= fields & o.visible
	o.fresh |= fields & o.visible
	if o.lacks != 0 {
		o.enqueue()
	}
}

// enqueue makes the next Flush look at the opening.
func (o *opening) enqueue() {
	// Activate the connection even if the opening is already queued, because the path may have room
	// for more than in the last Flush.
	o.conn.world.frame.activate(o.conn)
	if !o.enqueued {
		o.enqueued = true
		o.conn.shown.state.dirty = append(o.conn.shown.state.dirty, o)
	}
}

// receives reports whether the client gets a Multicast.
func (o *opening) receives(m *method) bool {
	return !o.closePending && !(m.skipOwner && o.conn == o.actor.conn)
}

// queueCall queues a call of a ForceQueue method until the states have been sent. If too many bytes
// of calls are already waiting, it drops the call.
func (o *opening) queueCall(m *method, call []byte) error {
	if limit := maxQueuedCall(o.conn.terms.maxBunch); len(call) > limit {
		return errorf("rpc: %v to %v: call has %d bytes; the limit for ForceQueue is %d: %w",
			m, o.conn, len(call), limit, bunch.ErrBunchTooLarge)
	}
	if !o.queuedCalls.Add(call) {
		o.conn.drop(drops.Saturated, o.actor, m)
		return nil
	}
	o.enqueue()
	return nil
}

// claimCallSlot claims the actor's slot for queued calls, if any may be sent, and reports whether
// it did.
func (o *opening) claimCallSlot(now time.Time) (claimed bool) {
	if !o.callsReady() {
		return false
	}
	a := o.actor
	return a.states.claimSlot(now, a.class.updatePeriod, a.ref)
}

// callsReady reports whether there are queued calls that needn't wait for states anymore. This
// Flush must have compared the states and the client must lack none of them, so that a call finds
// states at the client that are at least as new as the call.
func (o *opening) callsReady() bool {
	return o.conn.world.replicator.compared && !o.queuedCalls.Empty() && !o.closed && o.lacks == 0
}

// requeue is called for calls that the machine had accepted but has given back unsent. It puts
// them at the front of the queue, or counts them as dropped if the channel has closed since.
func (o *opening) requeue(calls []byte) {
	if o.closed {
		o.conn.drops.Add(drops.Closed, outbox.Count(calls))
	} else if len(calls) > 0 {
		o.queuedCalls.Back(calls)
		o.enqueue()
	}
}

// updateVisible recomputes which fields the client may see, and marks the newly visible fields.
func (o *opening) updateVisible() {
	if o.lists == nil {
		o.markLists(false)
	}
	before := o.visible
	o.visible = o.actor.fieldsFor(o.conn) | o.lateInitial
	if o.closePending {
		o.visible = 0
	}
	o.lacks &= o.visible
	o.mark(o.visible &^ before)
}

// farPriority is the fraction of an actor's priority that remains at its cull distance. In UE, a
// pawn's priority falls to 0.2 when it is far away and out of sight (AActor::GetNetPriority).
const farPriority = 0.2

// urgency returns the seconds since the last update times the class's priority, which falls
// with distance. The most urgent openings are sent first. UE: GetNetPriority.
func (o *opening) urgency(now time.Time) float64 {
	nearness := 1 - (1-farPriority)*math.Sqrt(float64(o.far))
	return now.Sub(o.since).Seconds() * o.actor.class.updatePriority * nearness
}

// noteRelevant is called when the actor is found relevant to the client, at distance far. It
// cancels a pending close.
func (o *opening) noteRelevant(far float32) {
	o.relevantAt = o.conn.world.relevance.elapsed
	o.far = far
	o.cancelClose()
}

// cancelClose cancels a pending close, so that states are sent again. The reliable Multicasts that
// the client has missed are counted as dropped.
func (o *opening) cancelClose() {
	if o.closePending {
		o.closePending = false
		o.updateVisible()
		o.conn.drops.Add(drops.Closed, o.missed)
		o.missed = 0
	}
}

// acknowledged reports whether the client has acknowledged the open.
func (o *opening) acknowledged() bool {
	o.conn.link.Lock()
	defer o.conn.link.Unlock()
	return o.conn.machine.Opened(o.channel)
}

// settled reports whether the client has all items of the lists, and no calls are queued.
func (o *opening) settled() bool {
	return o.listsInFlight == 0 && o.queuedCalls.Empty() && o.lacks&o.actor.class.lists == 0
}

// undoUpdate is called when an update was lost, or was taken back before it was sent. It records
// that the client may lack the update's contents.
//
// If no newer update has been handed over since, undoUpdate also restores the opening's urgency
// from before the update. Otherwise an opening whose update was taken back would go to the end of
// the queue, behind all openings whose updates were never handed over.
func (o *opening) undoUpdate(sent *sentUpdate) {
	if sent.list {
		first := bits.TrailingZeros64(uint64(sent.fields))
		o.lists[o.actor.class.stateOf(first).list].Add(sent.items)
	}
	o.mark(sent.fields)
	if o.since.Equal(sent.at) {
		o.since = sent.since
	}
}

// markLists records that the client may lack all items of all lists. If census is set, the client
// also gets a census of each list (the numbers of all its items), because it may still have items
// that were removed.
func (o *opening) markLists(census bool) {
	if lists := o.actor.states.backlogs(o.actor.class, census); lists != nil {
		o.lists = lists
	}
}

// backlogged returns the lists of which the client lacks items.
func (o *opening) backlogged() (lists state.Mask) {
	for r := range o.actor.states.present {
		if d := r.declaration(); d.isList() && !o.lists[d.list].Empty() {
			lists |= d.mask()
		}
	}
	return lists
}

// appendList appends an update of the first list with items that the client lacks, and records
// the update's contents in sent.
func (o *opening) appendList(b []byte, sent *sentUpdate) []byte {
	for _, r := range o.actor.states.replicas {
		list, ok := r.(itemReplica)
		if !ok || o.lacks&list.declaration().mask() == 0 {
			continue
		}
		d := list.declaration()
		lacks := &o.lists[d.list]
		sent.fields = d.mask()
		b = state.AppendMask(b, sent.fields, o.actor.class.fields)
		b, sent.items = lacks.Take(b, sent.items, list, o.conn.maxUpdateBytes())
		if lacks.Empty() {
			o.lacks &^= sent.fields
		}
		return b
	}
	return b
}

// queueOpenAcked queues the OnOpenAcked functions of the actor's objects. It is called when the
// client has acknowledged the open.
func (o *opening) queueOpenAcked() {
	for p := range o.actor.parts {
		if p.binding.onOpenAcked == nil {
			continue
		}
		o.conn.world.game.Later(o.conn, tasks.Doing{What: "OnOpenAcked of ", Of: p.binding.class}, func() {
			// A function that ran earlier may have closed the actor or the connection.
			if !o.closed && !o.conn.life.closing.Load() {
				p.binding.onOpenAcked(p.object, o.conn)
			}
		})
	}
}

// closeArrivedError returns the error for a client's call on a channel whose close has arrived but
// hasn't been fully handled. It's the error that the call would return after that. The caller holds
// the link's lock.
func (o *opening) closeArrivedError(m *method) error {
	w := o.actor.world
	cause := ErrClosed
	reason, waits := o.conn.waitingClose(o.channel)
	if !waits {
		reason = w.handling.closeReason
	}
	if o.actor.detaches(reason) {
		cause = ErrDormant
	}
	return errorf("rpc: %v on %v: server closed the actor on %v (%v): %w", m, o.actor, o.conn, reason, cause)
}

// fieldsFor returns the fields that are sent to c in updates. Fields tagged initial are never among
// them.
func (a *Actor) fieldsFor(c *Conn) (fields state.Mask) {
	for r := range a.states.present {
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

// shows reports whether a field is sent to c in updates. UE: ELifetimeCondition.
func (a *Actor) shows(f state.Field, id int, c *Conn) bool {
	switch f.Condition {
	case state.Owner:
		return a.conn == c
	case state.SkipOwner:
		return a.conn != c
	case state.Initial:
		return false
	case state.Custom:
		return a.states.conditions[condition{id, f.Custom}]
	}
	return true
}

// appendFields appends a mask and the fields in it, as they were last encoded.
func (a *Actor) appendFields(b []byte, fields state.Mask) []byte {
	return a.states.appendTo(state.AppendMask(b, fields, a.class.fields), fields)
}
