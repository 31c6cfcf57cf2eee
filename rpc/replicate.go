package rpc

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/logs"
	"github.com/quivernet/quiver/internal/state"
	"github.com/quivernet/quiver/internal/wire"
)

// The replicator is the part of a server that finds out which states have changed. At each Flush
// it compares the states of all actors that are open for at least one connection.
//
// It is used only by the world's goroutine.
type replicator struct {
	states     []comparison
	compared   bool      // the current or last Flush compared states: see fewStates
	unwatchDue bool      // some actors in states are no longer open for any connection: see unwatch
	fields     []byte    // scratch space for an update
	warn       logs.Gate // limits warnings about unsendable states to one per second

	// Run sleeps until something happens. These fields decide whether it has to wake up just for
	// the sake of states.
	lastEvent time.Time // last event that may have changed states; zero if the game calls Flush
	behind    bool      // the last Flush skipped states that may have changed, due to UpdateRate
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
			c.world.logs.Updates(c, c.shown.state.room.lastUsed, len(c.shown.state.dirty), c.shown.state.heldBack)
		}
	}
}

// fewStates is the maximum number of states for which Run compares all of them in every step.
// Comparing an unchanged state takes about 10 ns.
//
// If there are more states, Run compares them only in steps that look at all connections. These are
// the ticks, one step per settleTime and, with at most fewConns connections, all steps. Otherwise
// the cost of each message would grow with the number of actors. Tests set fewStates.
var fewStates = 256

// compare compares all states that are due.
func (r *replicator) compare(now time.Time) {
	r.behind = false
	for i := range r.states {
		c := &r.states[i]
		switch {
		case !c.replica.changed():
			// There's nothing to send.
		case c.actor.states.claimSlot(now, c.actor.class.updatePeriod, c.actor.ref):
			c.actor.compare(c.replica)
		case r.lastEvent.IsZero():
			// The state isn't due, but the game calls Flush itself and will do so again.
		case c.actor.states.compared.Before(r.lastEvent) || c.replica.differs():
			// The state isn't due, so if it has changed, Run must wake up for it later. Any event
			// since the last comparison may have changed it. Even without one, an OnTick hook may
			// have changed it, which only a comparison shows.
			r.behind = true
		}
	}
}

// ForceUpdate makes the next Flush compare the actor's states, even if [UpdateRate] does not
// allow that yet. UE: ForceNetUpdate.
func (a *Actor) ForceUpdate() { a.states.compared = time.Time{} }

// compare encodes one state again, and marks the fields that have changed for all clients that have
// the actor.
func (a *Actor) compare(r replica) {
	if list, ok := r.(itemReplica); ok {
		// If the actor is about to fall asleep, leave its lists alone. Otherwise it would stay
		// awake for as long as the game changes them.
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

// encodeFirst encodes the states of a new object. It returns an error that names the fields and
// items that cannot be encoded.
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

	// If the constructor has made a call, some clients have the actor already, but not its states.
	// There were no replicas to watch at that time, so watch the actor again. Send the states to
	// these clients in updates, including the fields that are normally sent only in the open.
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

// stateFailed logs, at most once a second, that fields cannot be sent as they are.
func (w *World) stateFailed(a *Actor, d *declaredState, err error) {
	if hidden, ok := w.replicator.warn.Pass(w.frame.now); ok {
		w.log.Error("state not replicated: its clients keep what they have",
			"actor", a, "state", d.String(), "error", err, "more", hidden)
	}
}

// mark records that clients may lack the newest values of fields.
func (a *Actor) mark(fields state.Mask) {
	for _, o := range a.openings {
		o.mark(fields)
	}
}

// watch is called when an actor opens for a connection, so that each Flush compares its states
// from then on.
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

// repNotifies are a client's OnRep functions that have yet to run for the newest packet. They
// wait until all states in the packet are applied, so that each function sees all of them.
type repNotifies struct {
	replicas []replica // in the order in which the packet changed them
	next     int       // index of the first replica whose OnRep has not run
	packet   uint64    // number of the newest packet
}

// applyUpdate applies an update from the server to an actor's states, or runs the ForceQueue
// calls that it contains instead.
func (w *World) applyUpdate(c *Conn, a *Actor, message bunch.Message) *CloseError {
	// An update with calls begins with an empty mask.
	var scratch [2]byte
	none := state.AppendMask(scratch[:0], 0, a.class.fields)
	calls, ok := bytes.CutPrefix(message.Payload, none)
	if ok && len(calls) > 0 && message.Delivery == bunch.Tracked {
		return w.runQueued(c, a, calls)
	}

	fields, rest, err := state.ReadMask(message.Payload, a.class.fields)
	if err == nil {
		rest, err = w.readFields(c, a, fields, rest, message.Number)
	}
	if err != nil {
		return violationf(PayloadFail, "state of %v, %d bytes: %v", a, len(message.Payload), err)
	}
	if len(rest) > 0 {
		return violationf(PayloadFail, "state of %v: %d bytes left over of %d", a, len(rest), len(message.Payload))
	}
	if log := w.logs.Debug(logs.Rep); log != nil {
		log.Debug("state applied", "conn", c, "actor", a, "bytes", len(message.Payload), "packet", message.Number)
	}
	return nil
}

// runQueued runs calls of ForceQueue methods. On the server, these calls have waited until the
// states before them were sent.
func (w *World) runQueued(c *Conn, a *Actor, calls []byte) *CloseError {
	// OnRep has to run before the calls, too.
	w.callRepNotifies(c)
	for r := (wire.Reader{Left: calls}); len(r.Left) > 0 && !c.life.closing.Load(); {
		call := r.Bytes(wire.Any)
		if r.Err != nil {
			return violationf(PayloadFail, "calls behind the state of %v, %d bytes: %v", a, len(calls), r.Err)
		}
		if m := calledBy(a, bunch.Message{Payload: call}); m == nil || m.policy != forceQueue {
			return violationf(PayloadFail, "a call behind the state of %v that is of no ForceQueue method", a)
		}
		if violation := w.invoke(c, a, call); violation != nil {
			return violation
		}
	}
	return nil
}

// readFields decodes fields into the actor's objects and returns what follows them.
func (w *World) readFields(c *Conn, a *Actor, fields state.Mask, b []byte, packet uint64) (rest []byte, err error) {
	for i := 0; fields>>i != 0; i++ {
		if fields&(1<<i) == 0 {
			continue
		}
		d := a.class.stateOf(i)
		r := a.states.of(d)
		switch {
		case d.isList() && fields != 1<<i:
			return nil, fmt.Errorf("the list %s beside other fields", d.name)
		case d.isList():
			// A list takes up all of the update.
			return nil, c.readList(r, b, packet)
		case r == nil || packet < a.states.newest[i]:
			// Either no object here has the state, or a newer packet has overtaken this one and has
			// already set the field.
			b, err = d.plan.Skip(b, i-d.first)
		default:
			c.rememberOnce(r)
			a.states.newest[i] = packet
			b, err = r.read(b, i-d.first)
		}
		if err != nil {
			return nil, err
		}
	}
	return b, nil
}

// readList applies an update of a list. r is nil if no object here has the list.
func (c *Conn) readList(r replica, b []byte, packet uint64) error {
	if r == nil {
		return nil
	}
	c.rememberOnce(r)
	return r.(itemReplica).readItems(b, packet)
}

// rememberOnce remembers a state for OnRep before a packet changes it for the first time.
func (c *Conn) rememberOnce(r replica) {
	if !slices.Contains(c.copies.reps.replicas, r) {
		r.remember()
		c.copies.reps.replicas = append(c.copies.reps.replicas, r)
	}
}

// callRepNotifies calls OnRep for all states that the newest packet changed. UE:
// FObjectReplicator::CallRepNotifies.
func (w *World) callRepNotifies(c *Conn) {
	p := &c.copies.reps
	for p.next < len(p.replicas) {
		r := p.replicas[p.next]
		p.next++ // don't repeat the call if it panics
		r.indexReferences(c.copies.referrers)
		r.repNotify(w, 0)
	}
	clear(p.replicas)
	p.replicas = p.replicas[:0]
	p.next = 0
}

// notifyReferrers calls OnRep for the states that refer to an actor that has just opened or ended
// here.
func (w *World) notifyReferrers(c *Conn, ref Ref) {
	for _, r := range c.copies.referrers.Of(ref) {
		if slices.Contains(c.copies.reps.replicas, r) {
			continue // callRepNotifies is about to do it for a packet
		}
		r.remember()
		r.repNotify(w, ref)
	}
}
