package rpc

import (
	"encoding/binary"
	"errors"
	"math"
	"math/bits"
	"time"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/drops"
	"github.com/quivernet/quiver/internal/keyed"
	"github.com/quivernet/quiver/internal/outbox"
	"github.com/quivernet/quiver/internal/state"
	"github.com/quivernet/quiver/internal/tasks"
	"github.com/quivernet/quiver/internal/wire"
)

// opening is an actor's channel on one connection. It is used only by the world's goroutine.
type opening struct {
	actor    *Actor
	conn     *Conn
	channel  uint64
	reliable int // number of messages that were sent reliably, including the open

	// Server: the states.
	sees  state.Mask // fields whose conditions let the client have them; no initial ones
	lacks state.Mask // fields of sees that are not in flight and may be stale on the client
	fresh state.Mask // fields of lacks that updateEarly has not sent since they changed

	// Fields that were sent in an update since the open, whether or
	// not it arrived. closePayload sends them again.
	everSent state.Mask

	listed bool // it is in stateOutbox.dirty
	closed bool // Actor.forget has removed it from its actor and connection

	// Time when the last update was handed over or, before the first
	// update, when the actor opened. urgency uses it.
	since time.Time

	claim float64         // scratch of stateOutbox.sort: the result of urgency
	late  state.Mask      // initial fields missing from an open that the constructor caused
	lists []keyed.Lacking // by list of the class; nil if there is none or no replica yet
	items int             // number of list updates in flight
	calls outbox.Calls    // calls of ForceQueue methods, which wait until the states have been sent

	// Server: set for a previous owner. The opening closes once the client has acknowledged
	// the open, and sends nothing until then. See Actor.partFrom and stay.
	parted bool

	// Server: relevancy.
	relevant time.Duration // relevance.elapsed when the actor was last relevant to the connection
	far      float32       // squared distance from the view, in squared cull distances; at most 1
	at       int           // index in view.openings
}

// mark records that the client may lack the newest values of fields.
func (o *opening) mark(fields state.Mask) {
	o.lacks |= fields & o.sees
	o.fresh |= fields & o.sees
	if o.lacks != 0 {
		o.list()
	}
}

// list makes the next Flush look at the opening.
func (o *opening) list() {
	// Even a listed opening needs this: the path may take more now than in the last Flush.
	o.conn.world.frame.activate(o.conn)
	if !o.listed {
		o.listed = true
		o.conn.shown.state.dirty = append(o.conn.shown.state.dirty, o)
	}
}

// hears reports whether a Multicast is sent to the client.
func (o *opening) hears(m *method) bool {
	return !o.parted && !(m.skipOwner && o.conn == o.actor.conn)
}

// queue keeps a call of a ForceQueue method until the states have been sent.
func (o *opening) queue(m *method, call []byte) error {
	if most := o.conn.maxUpdate() - binary.MaxVarintLen16; len(call) > most {
		return errorf("rpc: %v: %d bytes with ForceQueue to %v, at most %d travel with states: %w",
			m, len(call), o.conn, most, bunch.ErrBunchTooLarge)
	}
	if !o.calls.Add(call) {
		o.conn.drop(drops.Saturated, o.actor, m)
		return nil
	}
	o.list()
	return nil
}

// callsDue reports whether queued calls may be sent. It requires that this Flush has compared
// the states and that the client lacks none. The calls then follow the states of the moment
// in which they were made, or newer ones.
func (o *opening) callsDue(now time.Time) bool {
	a := o.actor
	ready := o.conn.world.replicator.looked && !o.calls.Empty() && !o.closed && o.lacks == 0
	return ready && a.states.due(now, a.class.updatePeriod, a.ref)
}

// requeue puts back calls that the machine had accepted but not sent. If the channel is
// closed, it counts them as dropped instead.
func (o *opening) requeue(calls []byte) {
	if o.closed {
		o.conn.drops.Add(drops.Closed, outbox.Count(calls))
	} else if len(calls) > 0 {
		o.calls.Back(calls)
		o.list()
	}
}

// look recomputes which fields the client may have, and marks those that are new to it.
func (o *opening) look() {
	if o.lists == nil {
		o.markLists(false)
	}
	before := o.sees
	o.sees = o.actor.fieldsFor(o.conn) | o.late
	if o.parted {
		o.sees = 0
	}
	o.lacks &= o.sees
	o.mark(o.sees &^ before)
}

// farPriority is the fraction of an actor's priority that is left at its cull distance. In UE, a
// pawn's priority falls to 0.2 when it is far away and out of sight (AActor::GetNetPriority).
const farPriority = 0.2

// urgency returns the seconds since the last update times the class's priority, which falls
// with distance. UE: GetNetPriority.
func (o *opening) urgency(now time.Time) float64 {
	nearness := 1 - (1-farPriority)*math.Sqrt(float64(o.far))
	return now.Sub(o.since).Seconds() * o.actor.class.updatePriority * nearness
}

// noteRelevant is called when the actor is relevant to the client. It keeps the actor open,
// even if the opening was parted.
func (o *opening) noteRelevant(far float32) {
	o.relevant = o.conn.world.relevance.elapsed
	o.far = far
	o.stay()
}

// stay cancels the close of a parted opening.
func (o *opening) stay() {
	if o.parted {
		o.parted = false
		o.look()
	}
}

// acknowledged reports whether the client has acknowledged the open.
func (o *opening) acknowledged() bool {
	o.conn.link.Lock()
	defer o.conn.link.Unlock()
	return o.conn.machine.Opened(o.channel)
}

// closeArrived returns the error of a client's call on a channel whose close has arrived and
// waits for its turn, or is being handled. The call would return the same error after the
// close. The caller holds the link's lock.
func (o *opening) closeArrived(m *method) error {
	w := o.actor.world
	cause := ErrClosed
	reason, waits := o.conn.waitingClose(o.channel)
	if !waits {
		reason = w.handling.closes
	}
	if reason == Dormancy || o.actor.keepsPlaced(reason) {
		cause = ErrDormant
	}
	return errorf("rpc: %v on %v, whose close for %v has arrived on %v: %w", m, o.actor, reason, o.conn, cause)
}

// settled reports whether the client has all items of the lists, and no queued call waits.
func (o *opening) settled() bool {
	return o.items == 0 && o.calls.Empty() && o.lacks&o.actor.class.lists == 0
}

// giveBack records that the client may again lack what an update contained.
//
// It also restores the urgency from before the update, unless a newer update has been sent.
// Otherwise an update that was taken back would wait for all those that were never handed over.
func (o *opening) giveBack(sent *sentState) {
	if sent.list {
		first := bits.TrailingZeros64(uint64(sent.fields))
		o.lists[o.actor.class.stateOf(first).list].Add(sent.items)
	}
	o.mark(sent.fields)
	if o.since.Equal(sent.at) {
		o.since = sent.since
	}
}

// markLists records that the client may lack all items of the lists. If census is true, the
// client may also still have items that were removed.
func (o *opening) markLists(census bool) {
	if o.actor.class.lists == 0 || o.actor.states.replicas == nil {
		return
	}
	o.lists = make([]keyed.Lacking, bits.OnesCount64(uint64(o.actor.class.lists)))
	for _, r := range o.actor.states.replicas {
		if list, ok := r.(keeper); ok {
			o.lists[list.declaration().list].AddAll(list, census)
		}
	}
}

// appendList appends an update of the first list that the client does not have completely,
// and records in sent what the update contains.
func (o *opening) appendList(b []byte, sent *sentState) []byte {
	for _, r := range o.actor.states.replicas {
		list, ok := r.(keeper)
		if !ok || o.lacks&list.declaration().mask() == 0 {
			continue
		}
		d := list.declaration()
		lacks := &o.lists[d.list]
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

// Flags of an open message. An owner message may have only flagOwned.
// All other bits must be zero.
const (
	flagOwned  = 1 << iota // the receiver owns the actor
	flagState              // states follow
	flagPlaced             // the actor's name follows its number
)

// OpenTo opens the actor for c, if it is not open there. Its current states are sent to c,
// and so are all calls from now on. OpenTo is for the server only.
//
// If c may still have an earlier copy, because CloseTo was called within the last round trip,
// the open waits until c is known to have ended that copy. A dormant actor falls asleep there
// again at the next Flush. If c has begun to close and does not have the actor, OpenTo
// returns [ErrClosed], even before OnDisconnect has run.
//
// If the class has [At] or [Relevant], the actor closes once it has not been relevant to c
// for 5 s. Calling OpenTo again does not prolong this. For a spectator that must see
// everything, let Relevant return true.
func (a *Actor) OpenTo(c *Conn) error {
	if err := a.checkAuthority("OpenTo"); err != nil {
		return err
	}
	if c == nil || c.world != a.world {
		return errorf("rpc: OpenTo of %v for %v, which is none of its world's connections: %w", a, c, ErrWrongRole)
	}
	err := a.show(c)
	if err == nil {
		a.relevancy.named = true
	}
	return err
}

// open opens the actor for c. It must not be open there.
func (a *Actor) open(c *Conn) error {
	if !c.usable() {
		return errorf("rpc: OpenTo of %v for %v: %w", a, c, ErrClosed)
	}
	message, err := a.openMessage(c, c.maxBunch)
	if err != nil {
		return err
	}
	c.link.Lock()
	a.world.frame.cork(c)
	channel, err := a.openOn(c, message)
	c.link.Unlock()
	if err != nil {
		return errorf("rpc: OpenTo of %v for %v: %w", a, c, err)
	}
	hadCopy := c.shown.hasDetached(a)
	a.forgetDetached(c)
	o := &opening{
		actor:    a,
		conn:     c,
		channel:  channel,
		reliable: 1,
		sees:     a.fieldsFor(c),
		since:    a.world.frame.now,
		relevant: a.world.relevance.elapsed,
	}
	a.openings = append(a.openings, o)
	c.shown.openings[a] = o
	if a.awaitsAcks() {
		c.shown.unacked = append(c.shown.unacked, o)
	}
	c.shown.view.add(o)
	c.setChannel(channel, a)
	a.world.watch(a)
	c.world.logs.Opened(c, a, channel)
	o.markLists(hadCopy)
	o.mark(a.class.lists)
	if a.dormancy.on {
		a.dormantAtFlush()
	}
	return nil
}

// openOn opens a channel and sends its first message. If the message cannot be sent, openOn
// closes the channel again. The caller holds the link's lock.
func (a *Actor) openOn(c *Conn, message []byte) (channel uint64, err error) {
	if channel, err = a.channelOn(c); err != nil {
		return 0, err
	}
	c.trace.About("open", a.class.name, uint64(a.ref))
	if err = c.machine.Send(channel, bunch.Reliable, message); err != nil {
		err = errors.Join(err, c.machine.Close(channel, nil))
	}
	return channel, err
}

// OnOpenAcked makes fn run on the server, in Dispatch, when a client has acknowledged that an
// actor of the class was opened for it. It panics if there is a function already. UE:
// OpenAcked of the actor's channel.
//
// No call and no state that is sent to the client after that can arrive before the
// actor. The client makes its copy in its next Dispatch at the latest. The
// acknowledgement says nothing about what the game on the client does with the copy,
// such as loading a level. The game must report that by a call.
//
// fn runs once for each open. If the actor was closed for c or dormant there and opens again,
// fn runs again. It does not run for an open that closes before or as it is acknowledged (see
// SetOwner). It does not run after this side has closed c.
func OnOpenAcked[T any](b *Binding[T], fn func(object T, c *Conn)) {
	mustHook("OnOpenAcked", b.untyped.class, fn == nil, b.untyped.onOpenAcked != nil)
	b.untyped.onOpenAcked = func(object any, c *Conn) { fn(object.(T), c) }
}

// tellAcked queues the OnOpenAcked functions of an actor's objects,
// after the client has acknowledged the open.
func (o *opening) tellAcked() {
	for p := range o.actor.parts {
		if p.binding.onOpenAcked == nil {
			continue
		}
		o.conn.world.game.Later(o.conn, tasks.Doing{What: "OnOpenAcked of ", Of: p.binding.class}, func() {
			if !o.closed && !o.conn.closing.Load() { // an earlier function may have closed either
				p.binding.onOpenAcked(p.object, o.conn)
			}
		})
	}
}

// channelOn opens a channel of the machine. If an earlier channel of the actor was closed,
// nothing is sent on the new channel before the client has acknowledged that close.
//
// A connection that has used all channel numbers ends. When the client connects again, it
// gets new ones. The caller holds the link's lock.
func (a *Actor) channelOn(c *Conn) (channel uint64, err error) {
	if channel, err = c.machine.Open(a.class.extended.Priority); err != nil {
		if c.machine.UsedUp() {
			c.abort(&CloseError{
				Code:   ServerFull,
				Reason: "all channel numbers of the connection are used; a new one has others",
				cause:  err,
			})
		}
		return 0, err
	}
	if earlier, ok := c.shown.closedChannels.take(a.ref); ok {
		if err = c.machine.After(channel, earlier); err != nil {
			return 0, errors.Join(err, c.machine.Close(channel, nil))
		}
	}
	return channel, nil
}

// openMessage returns the first message on an actor's channel for c: a head and the states.
// It returns an error if the message exceeds limit bytes.
func (a *Actor) openMessage(c *Conn, limit int) ([]byte, error) {
	a.compareAll()
	fields := (a.fieldsFor(c) | a.states.initial()) &^ a.class.lists
	if fields == 0 {
		return a.openHead(c, 0), nil
	}
	message := a.appendFields(a.openHead(c, flagState), fields)
	if len(message) > limit {
		return nil, errorf("rpc: the states of a %q make an open message of %d bytes, the limit is Config.Bunch.MaxBunch, %d: %w",
			a.class.name, len(message), limit, bunch.ErrBunchTooLarge)
	}
	return message, nil
}

// openHead returns the head of an open message. It consists of the class id, the flags, the
// actor's number and, if the actor was placed, its name.
func (a *Actor) openHead(c *Conn, flags byte) []byte {
	id := a.world.table.id(a.class)
	if a.name != "" {
		flags |= flagPlaced
	}
	head := append(binary.AppendUvarint(nil, uint64(id)), flags|a.ownerFlags(c))
	head = binary.AppendUvarint(head, uint64(a.ref))
	if a.name != "" {
		head = wire.AppendBytes(head, a.name)
	}
	return head
}

// ownerFlags returns flagOwned if c owns the actor, otherwise 0. c may be nil.
func (a *Actor) ownerFlags(c *Conn) byte {
	if c != nil && a.conn == c {
		return flagOwned
	}
	return 0
}

// tellOwner tells a client that has the actor whether it owns the actor. If its copy is
// dormant, the open that wakes the copy tells it.
func (a *Actor) tellOwner(c *Conn) error {
	o := a.openingOn(c)
	switch {
	case !c.usable():
		return nil
	case o != nil:
		return a.send(o, ownerMessage, append(binary.AppendUvarint(nil, ownerMethod), a.ownerFlags(c)))
	case c.shown.detached[a] == Dormancy:
		return a.open(c)
	}
	return nil
}

// opened is an open message as a client parsed it.
type opened struct {
	class  *Class
	flags  byte
	ref    Ref
	name   string // of a placed actor
	states []byte
}

// readOpen parses an open message, on a client.
func (w *World) readOpen(message bunch.Message) (o opened, violation *CloseError) {
	classes := w.table.all()
	r := wire.Reader{Left: message.Payload}
	id := r.Uvarint(wire.Any)
	o.flags = r.Byte()
	o.ref = Ref(r.Positive(wire.Any, "its actor has no number"))
	if o.flags&flagPlaced != 0 {
		o.name = string(r.Bytes(maxNameBytes))
	}
	o.states = r.Left
	switch {
	case r.Err != nil:
		return o, violationf(PayloadFail, "open message of %d bytes on channel %d: %v",
			len(message.Payload), message.Channel, r.Err)
	case id >= uint64(len(classes)):
		return o, violationf(PayloadFail, "open message on channel %d names class %d of %d",
			message.Channel, id, len(classes))
	case o.flags&^(flagOwned|flagState|flagPlaced) != 0:
		return o, violationf(PayloadFail, "open message on channel %d has flags %#x", message.Channel, o.flags)
	case o.flags&flagPlaced != 0 && !validName(o.name):
		return o, violationf(PayloadFail, "open message on channel %d places actor %d under the name %q",
			message.Channel, o.ref, o.name)
	}
	o.class = classes[id]
	return o, nil
}

// openActor is called on a client for an open message from the server. It makes a copy of the
// actor. If a copy without a channel exists, it gives that copy the channel instead.
func (w *World) openActor(c *Conn, message bunch.Message) *CloseError {
	o, violation := w.readOpen(message)
	if violation != nil {
		return violation
	}
	// If the copy exists already, OnRep ran earlier for the states that name it.
	named := c.copies.byRef[o.ref] != nil
	a, violation := w.adopt(c, message, o)
	switch {
	case violation != nil:
		return violation
	case a == nil && message.Close && o.name != "":
		return c.copies.noteRazed(o)
	}

	// Make the copy, unless a dormant or placed one exists.
	delete(c.copies.razed, o.name)
	known := a != nil
	if !known {
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

	// Give it its channel.
	c.setPriority(message.Channel, o.class.extended.Priority)
	a.openings = []*opening{{actor: a, conn: c, channel: message.Channel}}
	a.dormancy.on = false
	a.states.newest = make([]uint64, o.class.fields)
	c.setChannel(message.Channel, a)
	c.world.logs.Opened(c, a, message.Channel)
	if message.Close {
		defer w.closeCopy(c, a, message.Channel, Destroyed) // even if the constructor panics
	}

	// Make its objects, read their first states, then run what waited for the actor.
	if !known {
		w.introduce(a)
	}
	if violation := w.firstState(c, a, o); violation != nil {
		return violation
	}
	a.setOwned(o.flags&flagOwned != 0)
	if !named {
		w.notifyReferrers(c, a.ref)
		w.runWaiting(c)
	}
	return nil
}

// introduce adds a new copy to the world and makes its objects and replicas.
func (w *World) introduce(a *Actor) {
	w.actors.add(a)
	a.makeObjects()
	a.makeReplicas()
}

// firstState applies, on a client, the states in an open message.
func (w *World) firstState(c *Conn, a *Actor, o opened) *CloseError {
	if o.flags&flagState == 0 {
		if len(o.states) > 0 {
			return violationf(PayloadFail, "open message of %v: %d bytes left over", a, len(o.states))
		}
		return nil
	}
	if fields, _, err := state.ReadMask(o.states, a.class.fields); err == nil && fields&a.class.lists != 0 {
		return violationf(PayloadFail, "open message of %v: a list, which may only come later", a)
	}
	violation := w.applyUpdate(c, a, bunch.Message{Payload: o.states})
	if violation == nil {
		w.callRepNotifies(c)
	}
	return violation
}

// takeOwner handles an owner message on a client.
func (a *Actor) takeOwner(payload []byte) *CloseError {
	if len(payload) != 1 || payload[0]&^flagOwned != 0 {
		return violationf(PayloadFail, "owner message of %d bytes for a %q", len(payload), a.class.name)
	}
	a.setOwned(payload[0] == flagOwned)
	return nil
}

// ownerMessage names the owner message in errors.
var ownerMessage = &method{name: "Actor.SetOwner", delivery: bunch.Reliable}
