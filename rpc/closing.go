package rpc

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/drops"
	"github.com/quivernet/quiver/internal/tasks"
)

// A CloseReason is the reason why an actor's channel closed. The numbers are Unreal's
// (EChannelCloseReason). Any other number from a server is a violation.
type CloseReason uint8

const (
	// Destroyed: the server destroyed the actor, and the client's copy ends. UE: the
	// client destroys the actor and the subobjects that the actor made.
	Destroyed CloseReason = 0
	// Dormancy: nothing of the actor will change for a while ([Actor.SetDormant]).
	// The client keeps its copy with the last state, which the close carries.
	// OnClose does not run. UE: the actor stays, and its channel closes.
	Dormancy CloseReason = 1
	// LevelUnloaded: the client has unloaded the actor's level ([Actor.UnloadTo]), and its
	// copy ends. A copy that was placed ([Place]) stays without a channel. UE: the same.
	LevelUnloaded CloseReason = 2
	// Relevancy: the actor is no longer for this client ([Actor.CloseTo]), and the client's
	// copy ends. A copy that was placed stays without a channel. UE: the actor spawns again
	// when it is relevant again; actors of a level keep their channel.
	Relevancy CloseReason = 3
	// TearOff: the server no longer controls the client's copy ([Actor.TearOff]).
	// The close carries the last state. The copy stays and becomes its own
	// authority. OnTearOff runs; OnClose does not. UE: bTearOff, TornOff.
	TearOff CloseReason = 4
	// Disconnected: the connection ended. This reason is never on the wire.
	Disconnected CloseReason = 255
)

var reasonNames = map[CloseReason]string{
	Destroyed:     "Destroyed",
	Dormancy:      "Dormancy",
	LevelUnloaded: "LevelUnloaded",
	Relevancy:     "Relevancy",
	TearOff:       "TearOff",
	Disconnected:  "Disconnected",
}

// String returns Unreal's name for the reason.
func (r CloseReason) String() string {
	if name, ok := reasonNames[r]; ok {
		return name
	}
	return fmt.Sprintf("CloseReason(%d)", uint8(r))
}

// keeps reports whether the client keeps its copy, placed or not, without its channel.
func (r CloseReason) keeps() bool { return r == Dormancy || r == TearOff }

// OnClose makes fn run when an actor of the class has ended here. On the server this
// is when the actor is destroyed, on a client when its copy ends. fn runs once for
// each object, after everything else. UE: EndPlay.
//
// The actor is then no longer alive: calls on it fail, and Of and All leave it out.
// OnClose panics if the class already has such a function.
func OnClose[T any](b *Binding[T], fn func(object T, why CloseReason)) {
	mustHook("OnClose", b.untyped.class, fn == nil, b.untyped.onClose != nil)
	b.untyped.onClose = func(object any, why CloseReason) { fn(object.(T), why) }
}

// OnTearOff makes fn run on a client when the server has torn off an actor of the
// class. From then on the copy is the client's own. OnTearOff panics if the class
// already has such a function. UE: TornOff.
func OnTearOff[T any](b *Binding[T], fn func(object T)) {
	mustHook("OnTearOff", b.untyped.class, fn == nil, b.untyped.onTearOff != nil)
	b.untyped.onTearOff = func(object any) { fn(object.(T)) }
}

// end ends the actor in this world and calls OnClose's functions.
func (a *Actor) end(reason CloseReason) {
	if a.dead {
		return
	}
	w := a.world
	a.dead = true
	a.owned = false
	w.actors.remove(a)
	if a.conn != nil {
		a.conn.copies.forget(a)
	}
	w.requests.endOf(a, reason)
	if a.own.binding != nil {
		a.own.binding.actors.Remove(&a.seats.class)
	}
	for p := range a.parts {
		if p.binding.onClose != nil {
			w.game.During(tasks.Doing{What: "OnClose of ", Of: p.binding.class}, func() {
				p.binding.onClose(p.object, reason)
			})
		}
	}
}

// checkAuthority returns an error if by can't be called on the actor. by is a method
// that only a server may call.
func (a *Actor) checkAuthority(by string) error {
	switch {
	case !a.made():
		return fmt.Errorf("rpc: %s of %s", by, noActor)
	case !a.world.IsServer():
		return onClient(fmt.Sprintf("%s of %v", by, a))
	}
	a.world.mustBeInside(by, nil)
	switch {
	case a.dead:
		return errorf("rpc: %s of %v: %w", by, a, ErrClosed)
	case a.torn:
		return errorf("rpc: %s of %v: it is torn off: %w", by, a, ErrClosed)
	}
	return nil
}

// TearOff makes the copies of the actor independent of the server. It is for the
// server only. UE: TearOff.
//
// Clients get the actor's current state with the last message of its channels, and
// keep their copies as their own. Calls made before TearOff are still delivered,
// except for waiting calls of [ForceQueue].
//
// Afterwards the actor is not open for any client and can't be opened. On both
// sides, calls run where they are made. The exception is a Client RPC to the owner,
// which returns ErrClosed on the server.
//
// Destroy the actor when the server no longer needs it. Clients destroy their copies
// with [World.Destroy].
func (a *Actor) TearOff() error {
	if a.made() && a.torn && !a.dead {
		return nil
	}
	if err := a.checkAuthority("TearOff"); err != nil {
		return err
	}
	a.dormancy.on = false
	a.closeParted(true)
	a.reopen(Dormancy, LevelUnloaded, Relevancy)
	a.raze()
	a.torn = true
	a.world.actors.always.Remove(&a.seats.always)
	a.closeAll(TearOff)
	a.world.relevance.leave(a)
	return nil
}

// TornOff reports whether the actor was torn off. Each side is then the authority
// over its own actor. UE: GetTearOff.
func (a *Actor) TornOff() bool { return a.torn }

// CloseTo closes the actor for c, whose copy ends with reason Relevancy. OpenTo, or
// the first call to c, opens the actor there again.
//
// CloseTo does nothing on a client, or if c has no copy. In OnConnect of c, however,
// it prevents an [AlwaysRelevant] actor from opening.
func (a *Actor) CloseTo(c *Conn) { a.closeTo(c, Relevancy) }

// UnloadTo is CloseTo with reason LevelUnloaded. Use it when a client has told the game that
// it has unloaded the actor's level. UE: ServerUpdateLevelVisibility.
func (a *Actor) UnloadTo(c *Conn) { a.closeTo(c, LevelUnloaded) }

// closeTo closes the actor for c.
//
// If c has only a copy without a channel, of a dormant or placed actor, the reason
// decides. A reason for which the client keeps a placed copy replaces the reason of
// the copy's last close. Any other reason ends the copy.
func (a *Actor) closeTo(c *Conn, reason CloseReason) {
	if !a.made() || !a.world.IsServer() || c == nil || c.world != a.world {
		return
	}
	a.world.mustBeInside("CloseTo or UnloadTo", nil)
	a.world.greeting.close(a, c)
	if o := a.openingOn(c); o != nil {
		a.closeOpening(o, reason)
		return
	}
	if !c.shown.hasDetached(a) {
		return
	}
	if a.parks(reason) { // the client keeps its placed copy
		c.shown.detached[a] = reason
		return
	}
	a.dismiss(c, reason)
}

// closeAll closes the actor for all clients.
func (a *Actor) closeAll(reason CloseReason) {
	if reason.keeps() {
		a.compareAll()
	}
	for len(a.openings) > 0 {
		a.closeOpening(a.openings[len(a.openings)-1], reason)
	}
}

// closeOpening closes one opening of the actor.
func (a *Actor) closeOpening(o *opening, reason CloseReason) {
	if o.parted && reason.keeps() { // the actor is no longer for that client
		reason = Relevancy
	}
	payload := a.lastPayload(o, reason)
	a.forget(o)
	o.conn.setChannel(o.channel, nil)
	o.conn.requests.endOf(a, reason)
	if !o.conn.usable() {
		return
	}
	if reason == Dormancy || a.parks(reason) {
		a.noteDetached(o.conn, reason)
	}
	o.conn.link.Lock()
	a.world.frame.cork(o.conn)
	err := a.closeOn(o.conn, o.channel, reason, payload)
	o.conn.link.Unlock()
	if err != nil {
		a.world.log.Warn("channel not closed",
			"conn", o.conn, "actor", a.class.name, "channel", o.channel, "error", err)
		return
	}
	o.conn.world.logs.Closed(o.conn, a, o.channel, reason)
}

// closeOn sends the close of a channel. If the actor may open again, its next
// channel will wait for that close. The caller holds the link's lock.
func (a *Actor) closeOn(c *Conn, channel uint64, reason CloseReason, payload []byte) error {
	err := c.machine.Close(channel, payload)
	if err == nil && reason != Destroyed && reason != TearOff {
		c.shown.leaving.add(a.ref, channel, c.machine)
	}
	return err
}

// maxClosePayload is the maximum size of a close's payload: one entry, less the two
// bytes for the payload's length.
const maxClosePayload = bunch.EntryBytes - 2

// lastPayload returns the payload of a close. It is the reason and, if the client
// keeps its copy, the fields that the client may lack. Fields that are too large for
// a close are sent at once, in a message ahead of the close.
func (a *Actor) lastPayload(o *opening, reason CloseReason) []byte {
	payload := []byte{byte(reason)}
	if reason == TearOff && o.conn.usable() {
		a.lastItems(o)
	}
	fields := (o.lacks | o.told) & o.sees &^ a.class.lists
	if !reason.keeps() || fields == 0 || !o.conn.usable() {
		return payload
	}
	if whole := a.appendFields(payload, fields); len(whole) <= maxClosePayload {
		return whole
	}
	message := a.appendFields(binary.AppendUvarint(nil, stateMethod), fields)
	if err := a.send(o, stateMessage, message); err != nil {
		a.world.log.Error("last state not sent", "conn", o.conn, "actor", a, "error", err)
	}
	return payload
}

// lastItems sends all list items that the client may lack, including items in
// flight, in messages ahead of the close.
func (a *Actor) lastItems(o *opening) {
	records := o.conn.shown.state.sent.records
	for i := range records {
		if records[i].to == o {
			o.giveBack(&records[i])
		}
	}
	for o.lacks&a.class.lists != 0 {
		var sent sentState
		b := o.appendList(binary.AppendUvarint(nil, stateMethod), &sent)
		if err := a.send(o, stateMessage, b); err != nil {
			a.world.log.Error("last items not sent", "conn", o.conn, "actor", a, "error", err)
			return
		}
	}
}

// stateMessage is the method that errors name for the message with the last state.
var stateMessage = &method{name: "Actor.State", delivery: bunch.Reliable}

// forget removes an opening from the lists of its actor and its connection.
func (a *Actor) forget(o *opening) {
	o.closed = true
	o.conn.drops.Add(drops.Closed, o.calls.Close())
	delete(o.conn.shown.openings, a)
	o.conn.shown.view.remove(o)
	i := slices.Index(a.openings, o)
	a.openings = slices.Delete(a.openings, i, i+1)
	if len(a.openings) == 0 {
		a.world.replicator.left = true
	}
}

// leaving lists the last channel of each actor that was closed for a client and may open
// again. A channel stays listed at least until the client has acknowledged the close.
//
// If an actor opens again, channelOn makes its new channel wait for the old one. The
// caller of leaving's methods holds the link's lock.
type leaving struct {
	channels map[Ref]uint64
	sweepAt  int // at this size of channels, add removes those whose close the client has acknowledged
}

// minLeaving is the minimum of sweepAt after a sweep. A sweep of a smaller map isn't
// worth its time.
const minLeaving = 64

// add records the channel of an actor that was closed.
func (l *leaving) add(ref Ref, channel uint64, machine *bunch.Conn) {
	if len(l.channels) >= l.sweepAt {
		maps.DeleteFunc(l.channels, func(_ Ref, channel uint64) bool {
			out, _ := machine.Reliable(channel)
			return out == 0
		})
		l.sweepAt = max(minLeaving, 2*len(l.channels))
	}
	l.channels[ref] = channel
}

// take removes and returns the last channel of an actor that opens again.
func (l *leaving) take(ref Ref) (channel uint64, ok bool) {
	channel, ok = l.channels[ref]
	delete(l.channels, ref)
	return channel, ok
}

// maxDetached is how many copies (dormant, placed or torn off) a client may have without a
// channel. It is eight times the number of channels that a connection may have open.
const maxDetached = 1 << 18

// takeClose handles, on a client, the close of an actor's channel by the server.
func (w *World) takeClose(c *Conn, a *Actor, message bunch.Message) *CloseError {
	reason, rest := readClose(message.Payload)
	switch {
	case reason > TearOff:
		return violationf(PayloadFail, "close of %v for reason %d, which does not exist", a, reason)
	case len(rest) > 0 && !reason.keeps():
		return violationf(PayloadFail, "close of %v for %v: %d bytes left over", a, reason, len(rest))
	case (reason.keeps() || a.parks(reason)) && len(c.copies.byRef)-len(c.channels) >= maxDetached:
		return violationf(PayloadFail, "close of %v for %v: %d copies live without a channel already",
			a, reason, maxDetached)
	case len(rest) > 0:
		if violation := w.lastState(c, a, rest); violation != nil {
			return violation
		}
		w.callRepNotifies(c)
	}
	c.world.logs.Closed(c, a, message.Channel, reason)
	w.closeActor(c, a, message.Channel, reason)
	return nil
}

// readClose splits the payload of a close into its reason and the last state.
func readClose(payload []byte) (reason CloseReason, rest []byte) {
	if len(payload) == 0 {
		return Destroyed, nil
	}
	return CloseReason(payload[0]), payload[1:]
}

// lastState applies, on a client, the last state of a copy that stays without its channel. It
// uses the highest message number, because updates that arrive later are older.
func (w *World) lastState(c *Conn, a *Actor, b []byte) *CloseError {
	return w.applyUpdate(c, a, bunch.Message{Payload: b, Number: math.MaxUint64})
}

// closeActor handles, on a client, the close of an actor's channel. The copy ends,
// stays without a channel, or is torn off.
func (w *World) closeActor(c *Conn, a *Actor, channel uint64, reason CloseReason) {
	c.setChannel(channel, nil)
	c.requests.endOf(a, reason)
	a.openings = nil
	switch {
	case reason == Dormancy || a.parks(reason):
		a.dormancy.on = true
	case reason == TearOff:
		w.tearOffCopy(a)
	default:
		w.endCopy(c, a, reason)
	}
}

// tearOffCopy makes a copy the client's own, and calls OnTearOff's functions.
func (w *World) tearOffCopy(a *Actor) {
	a.torn = true
	a.owned = false
	for p := range a.parts {
		if p.binding.onTearOff != nil {
			w.game.During(tasks.Doing{What: "OnTearOff of ", Of: p.binding.class}, func() {
				p.binding.onTearOff(p.object)
			})
		}
	}
}

// endCopy ends a copy on a client, and calls OnRep for states that refer to the copy.
func (w *World) endCopy(c *Conn, a *Actor, reason CloseReason) {
	if c == nil { // the copy was placed, and never open
		a.end(reason)
		return
	}
	a.states.unfile(c)
	a.end(reason)
	w.game.During(tasks.Doing{}, func() { w.notifyReferrers(c, a.ref) })
}
