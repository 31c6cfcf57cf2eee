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

// An opening is an actor's channel on one connection. A client has openings too, but only uses
// their first group of fields. Only the server uses the fields for states and relevancy.
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
	everSent    state.Mask // fields sent in an update, arrived or not; closePayload repeats them
	lateInitial state.Mask // initial fields missing from an open that the constructor caused

	// Lists and calls, which are sent along with the states.
	lists         []keyed.Backlog // by list of the class; nil if it has no lists, or no replica yet
	listsInFlight int             // list updates whose fate isn't known yet
	queuedCalls   outbox.Calls    // of ForceQueue methods, until the states have been sent

	// Competition for room in a Flush.
	enqueued bool      // the opening is in stateOutbox.dirty
	since    time.Time // when the last update was handed over, or else when the actor opened
	claim    float64   // result of urgency, while stateOutbox.sort runs

	// closePending is set once the actor has passed from this client to another owner. Nothing is
	// sent from then on, and the opening closes as soon as the client has acknowledged the open,
	// unless cancelClose is called first. See Actor.closeToPrevious.
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
	// Activate the connection even if the opening is already in the queue, because the path may
	// take more now than it did in the last Flush.
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

// queueCall holds back a call of a ForceQueue method until the states have been sent. If too many
// bytes of calls are already waiting, it drops the call.
func (o *opening) queueCall(m *method, call []byte) error {
	if limit := o.conn.maxUpdate() - binary.MaxVarintLen16; len(call) > limit {
		return errorf("rpc: %v: %d bytes with ForceQueue to %v, at most %d travel with states: %w",
			m, len(call), o.conn, limit, bunch.ErrBunchTooLarge)
	}
	if !o.queuedCalls.Add(call) {
		o.conn.drop(drops.Saturated, o.actor, m)
		return nil
	}
	o.enqueue()
	return nil
}

// claimCallSlot reports whether queued calls may be sent, and if so, claims the actor's slot for
// them. They may be sent once this Flush has compared the states and the client lacks none of them.
// This way, a call finds states at the client that are at least as new as the call.
func (o *opening) claimCallSlot(now time.Time) bool {
	a := o.actor
	ready := o.conn.world.replicator.compared && !o.queuedCalls.Empty() && !o.closed && o.lacks == 0
	return ready && a.states.claimSlot(now, a.class.updatePeriod, a.ref)
}

// requeue is called for calls that the machine had accepted but has given back unsent. It puts
// them at the front of the queue, or counts them as dropped if the channel has closed by now.
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

// noteRelevant is called when the actor is found relevant to the client, at distance far. If the
// opening was about to close because the client had lost the actor, it stays open.
func (o *opening) noteRelevant(far float32) {
	o.relevantAt = o.conn.world.relevance.elapsed
	o.far = far
	o.cancelClose()
}

// cancelClose cancels a pending close, so that states are sent again. Multicasts that the client
// has missed meanwhile are lost.
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

// closeArrivedError returns the error for a client's call on a channel that the server has
// closed, while the close has arrived but hasn't been fully handled. The call would return the
// same error afterwards. The caller holds the link's lock.
func (o *opening) closeArrivedError(m *method) error {
	w := o.actor.world
	cause := ErrClosed
	reason, waits := o.conn.waitingClose(o.channel)
	if !waits {
		reason = w.handling.closeReason
	}
	if reason == Dormancy || o.actor.keepsPlaced(reason) {
		cause = ErrDormant
	}
	return errorf("rpc: %v on %v, whose close for %v has arrived on %v: %w", m, o.actor, reason, o.conn, cause)
}

// settled reports whether the client has all items of the lists and no calls are queued.
func (o *opening) settled() bool {
	return o.listsInFlight == 0 && o.queuedCalls.Empty() && o.lacks&o.actor.class.lists == 0
}

// undoUpdate is called when an update was lost, or was taken back before it was sent. It records
// that the client may lack the update's contents.
//
// If no newer update has been sent since, it also restores the opening's urgency from before the
// update. Otherwise an opening whose update was taken back would go to the end of the queue,
// behind all openings whose updates were never handed over.
func (o *opening) undoUpdate(sent *sentState) {
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
// also gets a census of each list, since it may still have items that were removed.
func (o *opening) markLists(census bool) {
	if o.actor.class.lists == 0 || o.actor.states.replicas == nil {
		return
	}
	o.lists = make([]keyed.Backlog, bits.OnesCount64(uint64(o.actor.class.lists)))
	for _, r := range o.actor.states.replicas {
		if list, ok := r.(itemReplica); ok {
			o.lists[list.declaration().list].AddAll(list, census)
		}
	}
}

// appendList appends an update of the first list with items that the client lacks, and records
// the update's contents in sent.
func (o *opening) appendList(b []byte, sent *sentState) []byte {
	for _, r := range o.actor.states.replicas {
		list, ok := r.(itemReplica)
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

// Flags of an open message. An owner message also has a flags byte, in which only flagOwned may
// be set. All other bits must be zero.
const (
	flagOwned  = 1 << iota // the receiver owns the actor
	flagState              // states follow
	flagPlaced             // the actor's name follows its number
)

// OpenTo opens the actor for c, unless it is open there already. The client gets the actor's
// current states, and all calls from now on. Only the server may call OpenTo.
//
// If c may still have an earlier copy, because CloseTo was called within the last round trip, the
// open waits until we know that c has ended that copy. The copy of a dormant actor falls asleep
// again at the next Flush. If c has begun to close and does not have the actor, OpenTo returns
// [ErrClosed], even before OnDisconnect has run.
//
// If the class has [At] or [Relevant], the actor closes once it has not been relevant to c
// for 5 s, and calling OpenTo again does not prolong this. For a spectator who must see
// everything, let Relevant return true.
//
// If the actor is [OnlyRelevantToOwner], OpenTo returns an error for all but its owner.
func (a *Actor) OpenTo(c *Conn) error {
	if err := a.checkAuthority("OpenTo"); err != nil {
		return err
	}
	if c == nil || c.world != a.world {
		return errorf("rpc: OpenTo of %v for %v, which is none of its world's connections: %w", a, c, ErrWrongRole)
	}
	if a.relevancy.onlyOwner && a.conn != c {
		return errorf("rpc: OpenTo of %v for %v: it is OnlyRelevantToOwner, and its owner is %s: %w", a, c, a.ownerName(), ErrNotOwner)
	}
	err := a.ensureOpen(c)
	if err == nil {
		a.relevancy.openedByGame = true
		if !a.relevancy.onlyOwner {
			c.shown.opened[a] = true
		}
	}
	return err
}

// open opens the actor for c. It must not be open there yet.
func (a *Actor) open(c *Conn) error {
	if !c.usable() {
		return errorf("rpc: OpenTo of %v for %v: %w", a, c, ErrClosed)
	}
	message, err := a.openMessage(c, c.terms.maxBunch)
	if err != nil {
		return err
	}
	c.link.Lock()
	a.world.frame.cork(c)
	channel, err := a.openOn(c, message)
	c.link.Unlock()
	if err != nil {
		c.logClosed(err)
		return errorf("rpc: OpenTo of %v for %v: %w", a, c, err)
	}

	hadCopy := c.shown.hasDetached(a) // if so, the copy may still have removed list items
	a.forgetDetached(c)
	o := &opening{
		actor:      a,
		conn:       c,
		channel:    channel,
		reliable:   1,
		visible:    a.fieldsFor(c),
		since:      a.world.frame.now,
		relevantAt: a.world.relevance.elapsed,
	}

	a.openings = append(a.openings, o)
	c.shown.openings[a] = o
	if a.awaitsAcks() {
		c.shown.unacked = append(c.shown.unacked, o)
	}
	c.shown.view.add(o)
	c.channels.set(channel, a)
	a.world.watch(a)
	c.world.logs.Opened(c, a, channel)

	// Lists aren't part of the open. They follow in updates.
	o.markLists(hadCopy)
	o.mark(a.class.lists)
	if a.dormancy.on {
		a.dormantAtFlush()
	}
	return nil
}

// openOn opens a channel and sends the open on it. If that fails, it closes the channel again.
// The caller holds the link's lock.
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

// OnOpenAcked makes fn run on the server, in Dispatch, when a client has acknowledged the open of
// an actor of the class. It panics if there is a function already. UE: OpenAcked of the actor's
// channel.
//
// Calls and states that are sent to the client from then on cannot arrive before the actor. The
// client makes its copy in its next Dispatch at the latest. The acknowledgment doesn't mean that
// the game on the client has finished its own work for the copy, such as loading a level. The
// game must report this with a call.
//
// fn runs once for each open. If the actor was closed for c or dormant there and opens again, fn
// runs again. fn does not run if the actor closes before its open is acknowledged, or because it
// is acknowledged (see SetOwner). Nor does it run after this side has closed c.
func OnOpenAcked[T any](b *Binding[T], fn func(object T, c *Conn)) {
	mustHook("OnOpenAcked", b.untyped.class, fn == nil, b.untyped.onOpenAcked != nil)
	b.untyped.onOpenAcked = func(object any, c *Conn) { fn(object.(T), c) }
}

// queueOpenAcked is called when the client has acknowledged the open. It queues the OnOpenAcked
// functions of the actor's objects.
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

// channelOn opens a channel for the actor. If an earlier channel of the same actor was closed,
// nothing is sent on the new channel until the client has acknowledged that close.
//
// If the connection has used up all channel numbers, channelOn ends it. The client gets a new
// set of numbers when it connects again. The caller holds the link's lock.
func (a *Actor) channelOn(c *Conn) (channel uint64, err error) {
	if channel, err = c.machine.Open(a.class.extended.Priority); err != nil {
		if c.machine.UsedUp() {
			c.abort(&CloseError{
				Code:   ServerFull,
				Reason: "all channel numbers of the connection are used; a new one has others",
				cause:  err,
			})
		}
		return 0, c.openFailed(a.class, err)
	}
	if earlier, ok := c.shown.closedChannels.take(a.ref); ok {
		if err = c.machine.After(channel, earlier); err != nil {
			return 0, errors.Join(err, c.machine.Close(channel, nil))
		}
	}
	return channel, nil
}

// openMessage returns the first message on an actor's channel for c, which consists of a head
// and the states. It fails if the message is larger than limit bytes.
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

// openHead returns the head of an open message: the class id, the flags, the actor's number
// and, if the actor was placed, its name.
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

// ownerFlags returns flagOwned if c owns the actor, and 0 otherwise. c may be nil.
func (a *Actor) ownerFlags(c *Conn) byte {
	if c != nil && a.conn == c {
		return flagOwned
	}
	return 0
}

// tellOwner tells a client that has the actor whether it's the owner.
func (a *Actor) tellOwner(c *Conn) error {
	o := a.openingOn(c)
	switch {
	case !c.usable():
		return nil
	case o != nil:
		return a.send(o, ownerMessage, append(binary.AppendUvarint(nil, ownerMethod), a.ownerFlags(c)))
	case c.shown.detached[a] == Dormancy:
		// There's no channel for an owner message, but the open that wakes the copy contains the
		// owner as well.
		return a.open(c)
	}
	return nil
}

// A parsedOpen is an open message parsed by a client.
type parsedOpen struct {
	class  *Class
	flags  byte
	ref    Ref
	name   string // of a placed actor
	states []byte
}

// parseOpen is called on a client to parse and check an open message.
func (w *World) parseOpen(message bunch.Message) (o parsedOpen, violation *CloseError) {
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

// openActor is called on a client when the server opens an actor. It makes a copy of the actor.
// If there is already a dormant or placed copy without a channel, that copy gets the channel
// instead.
func (w *World) openActor(c *Conn, message bunch.Message) *CloseError {
	o, violation := w.parseOpen(message)
	if violation != nil {
		return violation
	}
	// If the client knows the actor's number, OnRep has already run for the states that refer to
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
		// The server has destroyed the actor already, so its copy ends when we return,
		// even if the constructor panics.
		defer w.closeCopy(c, a, message.Channel, Destroyed)
	}

	// Make its objects, read their first states, then run the calls that were waiting for the
	// actor.
	if isNew {
		w.introduce(a)
	}
	if violation := w.applyFirstState(c, a, o); violation != nil {
		return violation
	}
	a.setOwned(o.flags&flagOwned != 0)
	if !known {
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

// applyFirstState is called on a client to apply the states in an open message.
func (w *World) applyFirstState(c *Conn, a *Actor, o parsedOpen) *CloseError {
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

// handleOwner is called on a client for an owner message, which says whether the client owns the
// actor.
func (a *Actor) handleOwner(payload []byte) *CloseError {
	if len(payload) != 1 || payload[0]&^flagOwned != 0 {
		return violationf(PayloadFail, "owner message of %d bytes for a %q", len(payload), a.class.name)
	}
	a.setOwned(payload[0] == flagOwned)
	return nil
}

// ownerMessage names the owner message in errors. It isn't a real method and can't be called.
var ownerMessage = &method{name: "Actor.SetOwner", delivery: bunch.Reliable}
