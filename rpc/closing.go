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

// A CloseReason is the reason why an actor's channel closed. The numbers are
// Unreal's (EChannelCloseReason). Any other number from a server is a violation.
type CloseReason uint8

const (
	// Destroyed: the server destroyed the actor, and the client's copy ends. UE
	// destroys it and the subobjects that it made.
	Destroyed CloseReason = 0
	// Dormancy: nothing of the actor will change for a while ([Actor.SetDormant]).
	// The client keeps its copy with its last state, which the close carries;
	// OnClose does not run. UE: the actor stays, its channel closes.
	Dormancy CloseReason = 1
	// LevelUnloaded: the client has unloaded the actor's level ([Actor.UnloadTo]), and its
	// copy ends. A copy that was placed ([Place]) stays without a channel. UE: the same.
	LevelUnloaded CloseReason = 2
	// Relevancy: the actor is no longer for this client ([Actor.CloseTo]), and the
	// client's copy ends. A copy that was placed stays without a channel. UE: it
	// spawns again when it is relevant again; actors of a level keep their channel.
	Relevancy CloseReason = 3
	// TearOff: the server no longer controls the client's copy ([Actor.TearOff]).
	// The copy gets the last state with the close, stays, and becomes its own
	// authority; OnTearOff runs, OnClose does not. UE: bTearOff, TornOff.
	TearOff CloseReason = 4
	// Disconnected: the connection ended. It is never on the wire.
	Disconnected CloseReason = 255
)

var reasonNames = map[CloseReason]string{
	Destroyed: "Destroyed", Dormancy: "Dormancy", LevelUnloaded: "LevelUnloaded", Relevancy: "Relevancy", TearOff: "TearOff",
	Disconnected: "Disconnected",
}

// String returns Unreal's name of the reason.
func (r CloseReason) String() string {
	if name, ok := reasonNames[r]; ok {
		return name
	}
	return fmt.Sprintf("CloseReason(%d)", uint8(r))
}

// keeps reports whether the client keeps its copy without its channel, whether
// or not it was placed.
func (r CloseReason) keeps() bool { return r == Dormancy || r == TearOff }

// OnClose makes fn run when an actor of the class has ended here: on the server when
// it is destroyed, on a client when its copy ends. It runs once for each object,
// after everything else. The actor is no longer alive then: calls on it fail, and Of
// and All leave it out. OnClose panics if there is a function already. UE: EndPlay.
func OnClose[T any](b *Binding[T], fn func(object T, why CloseReason)) {
	mustHook("OnClose", b.untyped.class, fn == nil, b.untyped.onClose != nil)
	b.untyped.onClose = func(object any, why CloseReason) { fn(object.(T), why) }
}

// OnTearOff makes fn run on a client when the server has torn off an actor of the class. From then
// on the copy is the client's own. OnTearOff panics if there is a function already. UE: TornOff.
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
	a.dead, a.owned = true, false
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
			w.game.During(tasks.Doing{What: "OnClose of ", Of: p.binding.class}, func() { p.binding.onClose(p.object, reason) })
		}
	}
}

// checkAuthority returns an error if by, a method that only a server may call,
// cannot be called on the actor.
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

// TearOff makes the copies of the actor independent of the server: clients get its present
// state with the last message of its channels, and keep their copies as their own. Calls
// that were made before are still delivered, except waiting ones of [ForceQueue]. From
// then on the actor is not open for any client and cannot be opened: on both sides calls
// run where they are made, except Client RPCs to its owner, which return ErrClosed on the
// server. Destroy the actor when the server no longer needs it; clients destroy their
// copies with [World.Destroy]. TearOff is for the server only. UE: TearOff.
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

// TornOff reports whether the actor was torn off. Then each side is the
// authority of its own. UE: GetTearOff.
func (a *Actor) TornOff() bool { return a.torn }

// CloseTo closes the actor for c, whose copy ends with reason Relevancy. OpenTo, or the
// first call to c, opens it there again. CloseTo does nothing on a client, or if c has
// no copy; but in OnConnect of c it prevents an [AlwaysRelevant] actor from opening.
func (a *Actor) CloseTo(c *Conn) { a.closeTo(c, Relevancy) }

// UnloadTo is CloseTo with reason LevelUnloaded. Use it when a client has told the
// game that it has unloaded the actor's level. UE: ServerUpdateLevelVisibility.
func (a *Actor) UnloadTo(c *Conn) { a.closeTo(c, LevelUnloaded) }

// closeTo closes the actor for c. If c has only a copy without a channel, of a
// dormant or placed actor, a reason that parks the copy replaces the reason of
// its last close, and any other reason dismisses the copy.
func (a *Actor) closeTo(c *Conn, reason CloseReason) {
	if !a.made() || !a.world.IsServer() || c == nil || c.world != a.world {
		return
	}
	a.world.mustBeInside("CloseTo or UnloadTo", nil)
	a.world.greeting.close(a, c)
	if o := a.openingOn(c); o != nil {
		a.closeOpening(o, reason)
	} else if c.shown.hasDetached(a) && a.parks(reason) {
		c.shown.detached[a] = reason // the client keeps its placed copy
	} else if c.shown.hasDetached(a) {
		a.dismiss(c, reason)
	}
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
		a.world.log.Warn("channel not closed", "conn", o.conn, "actor", a.class.name, "channel", o.channel, "error", err)
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

// maxClosePayload is how many bytes a close may carry: one entry, less the two
// bytes that hold the payload's length.
const maxClosePayload = bunch.EntryBytes - 2

// lastPayload returns the payload of a close: the reason and, if the client
// keeps its copy, the fields that it may lack. Fields that are too large for a
// close are sent at once, in a message before it.
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
	if err := a.send(o, stateMessage, a.appendFields(binary.AppendUvarint(nil, stateMethod), fields)); err != nil {
		a.world.log.Error("last state not sent", "conn", o.conn, "actor", a, "error", err)
	}
	return payload
}

// lastItems sends, in messages before the close, all items of lists that the
// client may lack, including those in flight.
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

// stateMessage names the message with the last state in errors.
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

// leaving holds the last channel of each actor that was closed for a client and may open again,
// at least until the client has acknowledged the close. If the actor opens again, channelOn
// makes its new channel wait for the old one. The caller of its methods holds the link's lock.
type leaving struct {
	channels map[Ref]uint64
	sweepAt  int // when channels has this many, add removes those that the client has acknowledged
}

// minLeaving is the least sweepAt after a sweep, because a sweep of a smaller
// map is not worth its time.
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

// maxDetached is how many copies, dormant, placed or torn off, a client may have
// without a channel: eight times the channels that a connection may have open.
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
		return violationf(PayloadFail, "close of %v for %v: %d copies live without a channel already", a, reason, maxDetached)
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

// lastState applies, on a client, the last state of a copy that stays without its channel.
// It uses the highest message number, because updates that arrive later are older.
func (w *World) lastState(c *Conn, a *Actor, b []byte) *CloseError {
	return w.applyUpdate(c, a, bunch.Message{Payload: b, Number: math.MaxUint64})
}

// closeActor carries out, on a client, the close of an actor's channel: the
// copy ends, stays without a channel, or is torn off.
func (w *World) closeActor(c *Conn, a *Actor, channel uint64, reason CloseReason) {
	c.setChannel(channel, nil)
	c.requests.endOf(a, reason)
	a.openings = nil
	switch {
	case reason == Dormancy || a.parks(reason):
		a.dormancy.on = true
	case reason == TearOff:
		a.torn, a.owned = true, false
		for p := range a.parts {
			if p.binding.onTearOff != nil {
				w.game.During(tasks.Doing{What: "OnTearOff of ", Of: p.binding.class}, func() { p.binding.onTearOff(p.object) })
			}
		}
	default:
		w.endCopy(c, a, reason)
	}
}

// endCopy ends a copy on a client, and calls OnRep for states that name it.
func (w *World) endCopy(c *Conn, a *Actor, reason CloseReason) {
	if c == nil { // placed, and never open
		a.end(reason)
		return
	}
	a.states.unfile(c)
	a.end(reason)
	w.game.During(tasks.Doing{}, func() { w.notifyReferrers(c, a.ref) })
}
