package rpc

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/logs"
	"github.com/quivernet/quiver/internal/refs"
	"github.com/quivernet/quiver/internal/state"
	"github.com/quivernet/quiver/internal/tasks"
	"github.com/quivernet/quiver/internal/wire"
	"github.com/quivernet/quiver/internal/words"
)

// copies is a client's record of its copies of the server's actors. It is used only by the world's
// goroutine.
type copies struct {
	byRef     map[Ref]*Actor
	reps      repNotifies              // OnRep functions to call after all states of a packet are applied
	referrers refs.Index[Ref, replica] // by actor: the states that refer to it

	// The names of actors that the server destroyed before they were placed here.
	gonePlaced map[string]bool
}

func newCopies() copies {
	return copies{
		byRef:      make(map[Ref]*Actor),
		referrers:  make(refs.Index[Ref, replica]),
		gonePlaced: make(map[string]bool),
	}
}

// remove removes a copy that has ended, unless another actor now has its ref.
func (s *copies) remove(a *Actor) {
	if s.byRef[a.ref] == a {
		delete(s.byRef, a.ref)
	}
}

// noteGone records that the server destroyed a placed actor before it was placed here. It returns a
// violation if the server names too many of them.
func (s *copies) noteGone(o parsedOpen) *CloseError {
	if len(s.gonePlaced) >= maxDetached {
		return violationf(PayloadFail, "%q ended before it was placed here; the limit for such names is %d",
			o.name, maxDetached)
	}
	s.gonePlaced[o.name] = true
	return nil
}

// maxDetached limits the copies without a channel (dormant, placed or torn off) that a client may
// have. It's eight times the number of channels that a connection may have open. An honest server
// stays far below, but a hostile one must not be able to fill the client's memory.
const maxDetached = 1 << 18

// A parsedOpen is an open message parsed by a client.
type parsedOpen struct {
	class  *Class
	flags  byte
	ref    Ref
	name   string // of a placed actor
	states []byte
}

// parseOpen parses and checks an open message from the server. classes are the world's classes,
// indexed by id.
func parseOpen(message bunch.Message, classes []*Class) (o parsedOpen, violation *CloseError) {
	r := wire.Reader{Left: message.Payload}
	id := r.Uvarint(wire.Any)
	o.flags = r.Byte()
	o.ref = Ref(r.Positive(wire.Any, "actor has no number"))
	if o.flags&flagPlaced != 0 {
		o.name = string(r.Bytes(maxNameBytes))
	}
	o.states = r.Left
	switch {
	case r.Err != nil:
		return o, violationf(PayloadFail, "open message of %s on channel %d: %v",
			words.Bytes(len(message.Payload)), message.Channel, r.Err)
	case id >= uint64(len(classes)):
		return o, violationf(PayloadFail, "open message on channel %d has unknown class %d; there are %d",
			message.Channel, id, len(classes))
	case o.flags&^(flagOwned|flagState|flagPlaced) != 0:
		return o, violationf(PayloadFail, "open message on channel %d has unknown flags %#x", message.Channel, o.flags)
	case o.flags&flagPlaced != 0 && !validName(o.name):
		return o, violationf(PayloadFail, "open message on channel %d has invalid name %q for actor %d",
			message.Channel, o.name, uint64(o.ref))
	}
	o.class = classes[id]
	return o, nil
}

// openActor is called on a client when the server opens an actor. It makes a copy of the actor,
// unless there is already a dormant or placed copy that gets the channel instead.
func (w *World) openActor(c *Conn, message bunch.Message) *CloseError {
	o, violation := parseOpen(message, w.table.all())
	if violation != nil {
		return violation
	}
	// If there is already a copy with this Ref, OnRep has already run for the states that refer to
	// it.
	known := c.copies.byRef[o.ref] != nil
	a, violation := w.adopt(c, message, o)
	switch {
	case violation != nil:
		return violation
	case a == nil && message.Close && o.name != "":
		return c.copies.noteGone(o)
	}

	// Make the copy, unless there already is one.
	delete(c.copies.gonePlaced, o.name)
	isNew := a == nil
	if isNew {
		a = &Actor{
			world: w,
			class: o.class,
			own:   part{binding: w.bindings[o.class]},
			ref:   o.ref,
			name:  o.name,
			conn:  c,
			owned: o.flags&flagOwned != 0,
		}
		c.copies.byRef[a.ref] = a
	}

	// Give the copy its channel.
	c.setPriority(message.Channel, o.class.extended.Priority)
	a.openings = []*opening{{actor: a, conn: c, channel: message.Channel}}
	a.dormancy.on = false
	a.states.newest = make([]uint64, o.class.fields)
	c.channels.set(message.Channel, a)
	c.world.logs.Opened(c, a, message.Channel)
	if message.Close {
		// The server has already destroyed the actor, so its copy must end when we return, even if
		// the constructor panics.
		defer w.closeCopy(c, a, message.Channel, Destroyed)
	}

	// Make its objects before reading their first states, and run the calls that were waiting for
	// the actor last, because they may expect these states.
	if isNew {
		w.introduce(a)
	}
	if violation := w.applyFirstState(c, a, o); violation != nil {
		return violation
	}
	a.setOwned(o.flags&flagOwned != 0)
	if !known {
		c.copies.notifyReferrers(w, a.ref)
		w.runWaiting(c)
	}
	return nil
}

// adopt returns the existing copy that gets the channel from an open message. Such a copy is
// either dormant or was placed by this client. If adopt returns nil, the message is for a new copy.
// A violation means that the message contradicts the existing copy.
func (w *World) adopt(c *Conn, message bunch.Message, o parsedOpen) (*Actor, *CloseError) {
	a := c.copies.byRef[o.ref]
	placed := w.actors.placed[o.name]
	if a == nil && placed != nil && placed.conn == nil && !placed.tornOff {
		a = placed
	}
	switch {
	case a == nil:
		return nil, nil
	case !a.dormancy.on || a.class != o.class || a.name != o.name:
		return nil, violationf(PayloadFail, "open message on channel %d for a %v %q contradicts existing copy %v %q (open %v, dormant %v, torn off %v)",
			message.Channel, o.class, o.name, a, a.name, len(a.openings) > 0, a.dormancy.on, a.tornOff)
	case a.conn == nil:
		// The game placed this copy, and the server opens it for the first time.
		a.conn = c
		a.ref = o.ref
		c.copies.byRef[o.ref] = a
	}
	return a, nil
}

// introduce adds a new copy to the world and makes its objects and replicas.
func (w *World) introduce(a *Actor) {
	w.actors.add(a)
	a.makeObjects()
	a.makeReplicas()
}

// applyFirstState is called on a client to apply the states in an open message.
func (w *World) applyFirstState(c *Conn, a *Actor, o parsedOpen) *CloseError {
	if o.flags&flagState == 0 {
		if len(o.states) > 0 {
			return violationf(PayloadFail, "open message of %v has %s left over", a, words.Bytes(len(o.states)))
		}
		return nil
	}
	if err := c.copies.readOpen(a, o.states); err != nil {
		return violationf(PayloadFail, "open message of %v with %s of states: %v", a, words.Bytes(len(o.states)), err)
	}
	w.callRepNotifies(c)
	return nil
}

// readOpen decodes the states in an open message: a mask, the fields in it, and then the items of
// each list in it after their length.
func (s *copies) readOpen(a *Actor, b []byte) error {
	fields, b, err := state.ReadMask(b, a.class.fields)
	if err != nil {
		return err
	}
	if b, err = s.readFields(a, fields&^a.class.lists, b, 0); err != nil {
		return err
	}
	r := wire.Reader{Left: b}
	for i := range (fields & a.class.lists).Each {
		items := r.Bytes(wire.Any)
		if r.Err != nil {
			return r.Err
		}
		list, ok := a.states.of(a.class.stateOf(i)).(itemReplica)
		if !ok {
			continue // no object here has the list
		}
		s.rememberOnce(list)
		if err := list.readOpen(items); err != nil {
			return err
		}
	}
	return r.End()
}

// handleOwner is called on a client for an owner message, which says whether the client owns the
// actor.
func (a *Actor) handleOwner(payload []byte) *CloseError {
	if len(payload) != 1 || payload[0]&^flagOwned != 0 {
		return violationf(PayloadFail, "invalid owner message for %v: %#x", a, payload)
	}
	a.setOwned(payload[0] == flagOwned)
	return nil
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
		rest, err = c.copies.readFields(a, fields, rest, message.Number)
	}
	if err != nil {
		return violationf(PayloadFail, "state of %v in %s: %v", a, words.Bytes(len(message.Payload)), err)
	}
	if len(rest) > 0 {
		return violationf(PayloadFail, "state of %v has %d of %s left over", a, len(rest), words.Bytes(len(message.Payload)))
	}
	if log := w.logs.Debug(logs.Rep); log != nil {
		log.Debug("state applied", "conn", c, "actor", a, "bytes", len(message.Payload), "packet", message.Number)
	}
	return nil
}

// runQueued runs calls to ForceQueue methods. The server sends them after the states that they
// depend on.
func (w *World) runQueued(c *Conn, a *Actor, calls []byte) *CloseError {
	// Run OnRep first, because these calls follow the states.
	w.callRepNotifies(c)
	for r := (wire.Reader{Left: calls}); len(r.Left) > 0 && !c.life.closing.Load(); {
		call := r.Bytes(wire.Any)
		if r.Err != nil {
			return violationf(PayloadFail, "ForceQueue calls on %v in %s: %v", a, words.Bytes(len(calls)), r.Err)
		}
		if m := calledBy(a, bunch.Message{Payload: call}); m == nil || m.policy != forceQueue {
			return violationf(PayloadFail, "call sent with the state of %v is not to a ForceQueue method", a)
		}
		if violation := w.invoke(c, a, call); violation != nil {
			return violation
		}
	}
	return nil
}

// readFields decodes fields into the actor's objects and returns what follows them.
func (s *copies) readFields(a *Actor, fields state.Mask, b []byte, packet uint64) (rest []byte, err error) {
	for i := 0; fields>>i != 0; i++ {
		if fields&(1<<i) == 0 {
			continue
		}
		d := a.class.stateOf(i)
		r := a.states.of(d)
		switch {
		case d.isList() && fields != 1<<i:
			return nil, fmt.Errorf("list %s must not be combined with other fields", d.name)
		case d.isList():
			// A list takes up all of the update.
			return nil, s.readList(r, b, packet)
		case r == nil || packet < a.states.newest[i]:
			// Either no object here has the state, or a newer packet has overtaken this one and
			// already set the field.
			b, err = d.plan.Skip(b, i-d.first)
		default:
			s.rememberOnce(r)
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
func (s *copies) readList(r replica, b []byte, packet uint64) error {
	if r == nil {
		return nil
	}
	s.rememberOnce(r)
	return r.(itemReplica).readItems(b, packet)
}

// rememberOnce remembers a state for OnRep before a packet changes it for the first time.
func (s *copies) rememberOnce(r replica) {
	if !slices.Contains(s.reps.replicas, r) {
		r.remember()
		s.reps.replicas = append(s.reps.replicas, r)
	}
}

// repNotifies are a client's OnRep functions that have yet to run for the newest packet. They
// wait until all states in the packet are applied, so that each function sees all of them.
type repNotifies struct {
	replicas []replica // in the order in which the packet changed them
	next     int       // index of the first replica whose OnRep hasn't run
	packet   uint64    // number of the newest packet
}

// pending reports whether any OnRep function has yet to run.
func (p *repNotifies) pending() bool { return len(p.replicas) > 0 }

// callRepNotifies calls OnRep for all states that the newest packet changed. UE (Unreal Engine's
// counterpart): FObjectReplicator::CallRepNotifies.
func (w *World) callRepNotifies(c *Conn) {
	p := &c.copies.reps
	for p.next < len(p.replicas) {
		r := p.replicas[p.next]
		p.next++ // first, so that a call that panics isn't repeated
		r.indexReferences(c.copies.referrers)
		r.repNotify(w, 0)
	}
	clear(p.replicas)
	p.replicas = p.replicas[:0]
	p.next = 0
}

// notifyReferrers calls OnRep for the states that refer to an actor that has just opened here or
// ended.
func (s *copies) notifyReferrers(w *World, ref Ref) {
	for _, r := range s.referrers.Of(ref) {
		if slices.Contains(s.reps.replicas, r) {
			continue // callRepNotifies is about to do it for a packet
		}
		r.remember()
		r.repNotify(w, ref)
	}
}

// handleClose is called on a client when the server closes an actor's channel.
func (w *World) handleClose(c *Conn, a *Actor, message bunch.Message) *CloseError {
	reason, last := parseClose(message.Payload)
	staysHere := reason == TearOff || a.detaches(reason)
	withoutChannel := len(c.copies.byRef) - len(c.channels.byNumber)
	switch {
	case reason > TearOff:
		return violationf(PayloadFail, "close of %v has unknown reason %d", a, reason)
	case len(last) > 0 && !reason.carriesState():
		return violationf(PayloadFail, "close of %v for %v has %s left over", a, reason, words.Bytes(len(last)))
	case staysHere && withoutChannel >= maxDetached:
		return violationf(PayloadFail, "close of %v for %v: too many copies without a channel; the limit is %d",
			a, reason, maxDetached)
	}

	// Apply the last state and run OnRep for it while the copy still has its channel.
	if len(last) > 0 {
		if violation := w.applyLastState(c, a, last); violation != nil {
			return violation
		}
		w.callRepNotifies(c)
	}
	c.world.logs.Closed(c, a, message.Channel, reason)
	w.closeCopy(c, a, message.Channel, reason)
	return nil
}

// parseClose splits the payload of a close into the reason and the last state, if any.
func parseClose(payload []byte) (reason CloseReason, last []byte) {
	if len(payload) == 0 {
		return Destroyed, nil
	}
	return CloseReason(payload[0]), payload[1:]
}

// applyLastState applies the last state of a copy that is about to lose its channel. Any update
// that arrives afterwards is stale, so the last state gets the highest possible message number.
func (w *World) applyLastState(c *Conn, a *Actor, b []byte) *CloseError {
	return w.applyUpdate(c, a, bunch.Message{Payload: b, Number: math.MaxUint64})
}

// closeCopy is called on a client when a copy has lost its channel. Depending on the reason, the
// copy stays as it is, is torn off, or ends.
func (w *World) closeCopy(c *Conn, a *Actor, channel uint64, reason CloseReason) {
	c.channels.set(channel, nil)
	c.requests.endOf(a, reason)
	a.openings = nil
	switch {
	case a.detaches(reason):
		a.dormancy.on = true
	case reason == TearOff:
		w.tearOffCopy(a)
	default:
		w.endCopy(c, a, reason)
	}
}

// tearOffCopy makes a copy the client's own and runs OnTearOff.
func (w *World) tearOffCopy(a *Actor) {
	a.tornOff = true
	a.owned = false
	for p := range a.parts {
		if p.binding.onTearOff != nil {
			w.game.During(tasks.Doing{What: "OnTearOff of ", Of: p.binding.class}, func() {
				p.binding.onTearOff(p.object)
			})
		}
	}
}

// endCopy ends a client's copy, and then runs OnRep for the states that refer to it. c is nil if
// the copy was placed and the server never opened it.
func (w *World) endCopy(c *Conn, a *Actor, reason CloseReason) {
	if c == nil {
		a.end(reason)
		return
	}
	a.states.removeReferences(c)
	a.end(reason)
	w.game.During(tasks.Doing{}, func() { c.copies.notifyReferrers(w, a.ref) })
}
