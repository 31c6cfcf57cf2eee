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

// replicator compares, on a server, the states of actors at each Flush. It ignores actors
// that are open for no connection. It is used only by the world's goroutine.
type replicator struct {
	states []comparison
	looked bool      // the current or last Flush compared states: see fewStates
	left   bool      // some actors in states are no longer open for any connection: see unwatch
	fields []byte    // scratch: an update
	warn   logs.Gate // limits warnings that a state cannot be sent to one a second

	// Run sleeps until something happens. These fields determine
	// whether it must wake for states alone.
	news   time.Time // time of the last event that may have changed states; zero = the game calls Flush itself
	behind bool      // the last Flush skipped states that may have changed, because of UpdateRate
}

// A comparison is one state of one actor, with the fields that the loop over all states needs.
type comparison struct {
	replica replica
	actor   *Actor
}

// replicate is called in Flush. It compares the states, and sends changes to the clients.
func (w *World) replicate(now time.Time) {
	if w.replicator.left {
		w.replicator.unwatch()
	}
	w.replicator.looked = w.frame.allConns || len(w.replicator.states) <= fewStates
	if w.replicator.looked {
		w.replicator.compare(now)
	}
	for _, c := range w.frame.attended(w.announced) {
		if c.server {
			c.dismissOverdue()
			c.sendState(now)
			c.world.logs.Updates(c, c.shown.state.room.given, len(c.shown.state.dirty), c.shown.state.heldBack)
		}
	}
}

// fewStates is the maximum number of states that every step of Run
// compares. An unchanged state costs some 10 ns.
//
// If there are more, Run compares them only in steps that look at all connections: in
// ticks, and once in settleTime. Otherwise the cost of each message would grow with
// the number of actors. Tests set fewStates.
var fewStates = 256

// compare compares all states that are due.
func (r *replicator) compare(now time.Time) {
	r.behind = false
	for i := range r.states {
		c := &r.states[i]
		switch {
		case !c.replica.changed():
		case c.actor.states.due(now, c.actor.class.updatePeriod, c.actor.ref):
			c.actor.compare(c.replica)
		case r.news.IsZero(): // the game calls Flush itself, so another Flush follows anyway
		case c.actor.states.compared.Before(r.news) || c.replica.differs():
			// The state is not due. It may have changed, because something has happened since
			// it was compared. If nothing has happened, an OnTick hook may still have changed
			// it, and only a comparison shows that.
			r.behind = true
		}
	}
}

// ForceUpdate makes the next Flush compare the actor's states, even if [UpdateRate] does not
// allow that yet. UE: ForceNetUpdate.
func (a *Actor) ForceUpdate() { a.states.compared = time.Time{} }

// compare encodes one state again, and marks its changes for all clients that have the actor.
func (a *Actor) compare(r replica) {
	if list, ok := r.(keeper); ok {
		// Without this condition, the actor would never fall asleep
		// while the game changes its lists.
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

// compareList encodes the items of a list that were set or deleted, and marks changed ones
// for all clients that have the actor.
func (a *Actor) compareList(r keeper) {
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

// encodeFirst encodes the states of a new object. It returns an error that
// names fields and items that cannot be encoded.
//
// Some clients may have the actor already, because its constructor made a call, which opened
// the actor without these states. For those clients the states follow in updates.
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
	a.states.watched = false // watch ran when there were no replicas, and added none
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

// watch is called when an actor opens for a connection. It makes each
// Flush compare the actor's states.
func (w *World) watch(a *Actor) {
	if a.states.watched {
		return
	}
	a.states.watched = true
	for r := range a.states.present {
		w.replicator.states = append(w.replicator.states, comparison{replica: r, actor: a})
		if list, ok := r.(keeper); ok {
			list.Watch(true)
			// Items may have been set while no connection had the actor.
			if err := list.EncodeAll(); err != nil {
				w.stateFailed(a, r.declaration(), err)
			}
		}
	}
}

// unwatch removes the states of actors that are no longer open for any
// connection. It does so in one pass over the list.
func (r *replicator) unwatch() {
	r.left = false
	r.states = slices.DeleteFunc(r.states, func(c comparison) bool {
		if len(c.actor.openings) > 0 {
			return false
		}
		c.actor.states.watched = false
		if list, ok := c.replica.(keeper); ok {
			list.Watch(false)
		}
		return true
	})
}

// fieldsFor returns the fields that are sent to c, without those tagged initial.
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

// shows reports whether a field is sent to c. UE: ELifetimeCondition.
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

// pending holds, on a client, the replicas that the newest packet changed
// and whose OnRep has not run. OnRep functions run after all states in a
// packet are applied, so each sees all of them.
type pending struct {
	replicas []replica // in the order in which the packet changed them
	next     int       // index of the first replica whose OnRep has not run
	packet   uint64    // number of the newest packet
}

// applyUpdate applies an update from the server to an actor's states. If the update contains
// ForceQueue calls instead, it runs them.
func (w *World) applyUpdate(c *Conn, a *Actor, message bunch.Message) *CloseError {
	// An update without fields contains calls.
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

// runQueued runs calls of ForceQueue methods. Before that it runs
// OnRep for the states that arrived earlier.
func (w *World) runQueued(c *Conn, a *Actor, calls []byte) *CloseError {
	w.callRepNotifies(c)
	for r := (wire.Reader{Left: calls}); len(r.Left) > 0 && !c.closing.Load(); {
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

// readFields decodes fields into the objects. Packets may overtake each other, so it skips a
// field if a newer packet has already set it.
func (w *World) readFields(c *Conn, a *Actor, fields state.Mask, b []byte, packet uint64) (rest []byte, err error) {
	for i := 0; fields>>i != 0; i++ {
		if fields&(1<<i) == 0 {
			continue
		}
		d := a.class.stateOf(i)
		r := a.states.of(d)
		if d.isList() && fields != 1<<i {
			return nil, fmt.Errorf("the list %s beside other fields", d.name)
		}
		if d.isList() { // a list takes the rest of the update
			return nil, c.readList(r, b, packet)
		}
		if r == nil || packet < a.states.newest[i] {
			b, err = d.plan.Skip(b, i-d.first)
		} else {
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
	return r.(keeper).readItems(b, packet)
}

// rememberOnce remembers a state before a packet first changes it.
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
		p.next++ // before the call, so a call that panics is not repeated
		r.file(c.copies.referrers, true)
		r.repNotify(w, 0)
	}
	clear(p.replicas)
	p.replicas = p.replicas[:0]
	p.next = 0
}

// notifyReferrers calls OnRep for the states that name an actor that just opened or ended here.
func (w *World) notifyReferrers(c *Conn, ref Ref) {
	for _, r := range c.copies.referrers.Of(ref) {
		if slices.Contains(c.copies.reps.replicas, r) { // OnRep is about to run for a packet
			continue
		}
		r.remember()
		r.repNotify(w, ref)
	}
}
