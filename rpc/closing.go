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

// A CloseReason says why an actor's channel closed. The numbers are those of Unreal's
// EChannelCloseReason, and any other number from a server is a violation.
type CloseReason uint8

const (
	// Destroyed means that the server destroyed the actor, so the client's copy ends too.
	// UE: the client destroys the actor and the subobjects that the actor made.
	Destroyed CloseReason = 0

	// Dormancy means that nothing about the actor will change for a while (see
	// [Actor.SetDormant]). The client keeps its copy, with the last state, which arrives with the
	// close. OnClose doesn't run. UE: the actor stays, and its channel closes.
	Dormancy CloseReason = 1

	// LevelUnloaded means that the client has unloaded the actor's level (see
	// [Actor.UnloadTo]). The client's copy ends, but if it was placed (see [Place]), it stays
	// without a channel. UE: the same.
	LevelUnloaded CloseReason = 2

	// Relevancy means that the actor is no longer relevant to the client (see [Actor.CloseTo]).
	// The client's copy ends, but if it was placed, it stays without a channel. UE: the actor
	// spawns again when it is relevant again; actors that belong to a level keep their channel.
	Relevancy CloseReason = 3

	// TearOff means that the server has given up control of the client's copy (see
	// [Actor.TearOff]). The copy gets the last state with the close and is its own authority from
	// then on. OnTearOff runs instead of OnClose. UE: bTearOff, TornOff.
	TearOff CloseReason = 4

	// Disconnected means that the connection ended. It is never sent on the wire.
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

// keepsCopy reports whether the client keeps its copy of any actor that closes for this reason.
// For other reasons, it may still keep the copy of a placed actor: see keepsPlaced.
func (r CloseReason) keepsCopy() bool { return r == Dormancy || r == TearOff }

// OnClose registers fn to run after an actor of the class has ended on this side: on the
// server when it is destroyed, on a client when the client's copy ends. fn runs once for each
// object, after everything else. UE: EndPlay.
//
// By then the actor is no longer alive, so calls on it fail, and Of and All don't list it.
// OnClose panics if the class already has such a function.
func OnClose[T any](b *Binding[T], fn func(object T, why CloseReason)) {
	mustHook("OnClose", b.untyped.class, fn == nil, b.untyped.onClose != nil)
	b.untyped.onClose = func(object any, why CloseReason) { fn(object.(T), why) }
}

// OnTearOff registers fn to run on a client when the server has torn off an actor of the
// class. From then on the copy is the client's own. OnTearOff panics if the class already has
// such a function. UE: TornOff.
func OnTearOff[T any](b *Binding[T], fn func(object T)) {
	mustHook("OnTearOff", b.untyped.class, fn == nil, b.untyped.onTearOff != nil)
	b.untyped.onTearOff = func(object any) { fn(object.(T)) }
}

// TearOff ends replication of the actor. Every client that has a copy keeps it as its own, and
// the server's actor carries on independently. Only the server may call it. UE: TearOff.
//
// Clients get the actor's current state with the last message on its channel. Calls made
// before TearOff are still delivered, except for [ForceQueue] calls that haven't been sent yet.
//
// Afterwards the actor isn't open for any client and can't be opened again. Calls run on the
// side that makes them, except that a Client RPC to the owner returns ErrClosed on the server.
// What the actor owns keeps its owner, and so its connection, until the actor is destroyed.
//
// Destroy the actor when the server no longer needs it. Clients destroy their copies with
// [World.Destroy].
func (a *Actor) TearOff() error {
	if a.valid() && a.tornOff && !a.dead {
		return nil
	}
	if err := a.checkAuthority("TearOff"); err != nil {
		return err
	}

	// Send the delayed closes to previous owners now. Then open the actor for all copies without
	// a channel, because they need the last state too.
	a.dormancy.on = false
	a.closePendingNow()
	a.reopen(Dormancy, LevelUnloaded, Relevancy)

	// If the actor was placed, it no longer exists for any other client, including clients that
	// join later.
	a.endPlacedCopies()

	a.tornOff = true
	a.world.actors.always.Remove(&a.seats.always)
	a.closeAll(TearOff)
	a.world.relevance.leave(a)
	return nil
}

// TornOff reports whether the actor was torn off. If so, each side is the authority over its own
// actor. UE: GetTearOff.
func (a *Actor) TornOff() bool { return a.tornOff }

// checkAuthority returns an error unless this is the server and the actor is still under its
// control. caller is the server-only method to name in the error.
func (a *Actor) checkAuthority(caller string) error {
	switch {
	case !a.valid():
		return fmt.Errorf("rpc: %s of %s", caller, noActor)
	case !a.world.IsServer():
		return errOnClient(fmt.Sprintf("%s of %v", caller, a))
	}
	a.world.mustBeInside(caller, nil)
	switch {
	case a.dead:
		return errorf("rpc: %s of %v: %w", caller, a, ErrClosed)
	case a.tornOff:
		return errorf("rpc: %s of %v: it is torn off: %w", caller, a, ErrClosed)
	}
	return nil
}

// CloseTo closes the actor for c, so that the client's copy ends with reason Relevancy. To open
// the actor there again, call OpenTo, or just make a call to c.
//
// An [AlwaysRelevant] actor doesn't open for c again by itself. If c's OnConnect calls CloseTo,
// the actor doesn't open in the first place. In all other cases CloseTo does nothing if c has no
// copy. On a client it never does anything.
//
// If the actor was placed, the copy stays at the client without a channel. [Conn.Actor] still
// returns it, but it gets no more updates or Multicasts.
func (a *Actor) CloseTo(c *Conn) { a.closeTo(c, Relevancy) }

// UnloadTo is CloseTo with reason LevelUnloaded. Use it when a client has told the game that it
// has unloaded the actor's level. UE: ServerUpdateLevelVisibility.
func (a *Actor) UnloadTo(c *Conn) { a.closeTo(c, LevelUnloaded) }

// closeTo closes the actor for c, whether or not the client's copy has a channel.
func (a *Actor) closeTo(c *Conn, reason CloseReason) {
	if !a.valid() || !a.world.IsServer() || c == nil || c.world != a.world {
		return
	}
	a.world.mustBeInside("CloseTo or UnloadTo", nil)

	// During OnConnect of c, this prevents an AlwaysRelevant actor from opening for c afterwards.
	a.world.admission.greeting.close(a, c)

	if o := a.openingOn(c); o != nil {
		a.closeOpening(o, reason)
		return
	}
	if !c.shown.hasDetached(a) {
		return
	}

	// The copy is dormant or placed, and its channel has already closed. If the client keeps the
	// copy for the new reason as well, there's nothing to send, and we just record the reason.
	delete(c.shown.opened, a)
	if a.keepsPlaced(reason) {
		c.shown.detached[a] = reason
		return
	}
	a.dismiss(c, reason)
}

// closeAll closes the actor for all clients.
func (a *Actor) closeAll(reason CloseReason) {
	if reason.keepsCopy() {
		// Pick up the changes since the last Flush, so that the copies we leave behind are up to
		// date.
		a.compareAll()
	}
	for len(a.openings) > 0 {
		a.closeOpening(a.openings[len(a.openings)-1], reason)
	}
}

// closeOpening closes the actor on one connection.
func (a *Actor) closeOpening(o *opening, reason CloseReason) {
	if o.closePending && reason.keepsCopy() {
		// This client is a previous owner and is about to lose the actor, so it must not keep its
		// copy.
		reason = Relevancy
	}

	// Build the payload first, because it needs the opening. Building it also sends ahead
	// whatever doesn't fit into the close.
	payload := a.closePayload(o, reason)
	a.forget(o)
	if reason != Dormancy {
		delete(o.conn.shown.opened, a)
	}
	o.conn.channels.set(o.channel, nil)
	o.conn.requests.endOf(a, reason)
	if !o.conn.usable() {
		return
	}
	if reason == Dormancy || a.keepsPlaced(reason) {
		a.noteDetached(o.conn, reason)
	}

	o.conn.link.Lock()
	a.world.frame.cork(o.conn)
	err := a.sendClose(o.conn, o.channel, reason, payload)
	o.conn.link.Unlock()
	if err != nil {
		a.world.log.Warn("channel not closed",
			"conn", o.conn, "actor", a.class.name, "channel", o.channel, "error", err)
		return
	}
	o.conn.world.logs.Closed(o.conn, a, o.channel, reason)
}

// sendClose sends the close of a channel. Unless the actor is gone for good, it also remembers
// the channel, because the actor's next channel must wait for this close. The caller holds the
// link's lock.
func (a *Actor) sendClose(c *Conn, channel uint64, reason CloseReason, payload []byte) error {
	err := c.machine.Close(channel, payload)
	if err == nil && reason != Destroyed && reason != TearOff {
		c.shown.closedChannels.add(a.ref, channel, c.machine)
	}
	return err
}

// maxClosePayload is the largest payload of a close. It must fit into one entry along with the
// two bytes for its own length.
const maxClosePayload = bunch.EntryBytes - 2

// closePayload returns the payload of a close: the reason and, if the client keeps its copy, the
// fields that may be out of date there. If the fields are too large for a close, closePayload
// sends them right away, in a message ahead of the close.
func (a *Actor) closePayload(o *opening, reason CloseReason) []byte {
	payload := []byte{byte(reason)}
	if reason == TearOff && o.conn.usable() {
		a.sendMissingItems(o)
	}

	// Repeat all fields that were ever sent in an update, since the latest one may still get
	// lost. Lists don't travel with the close.
	fields := (o.lacks | o.everSent) & o.visible &^ a.class.lists
	if !reason.keepsCopy() || fields == 0 || !o.conn.usable() {
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

// sendMissingItems sends all list items that the client may not have yet, in messages ahead of
// the close.
func (a *Actor) sendMissingItems(o *opening) {
	// Items in flight may still be lost, and after the close nothing resends them. So count them
	// as missing.
	records := o.conn.shown.state.sent.records
	for i := range records {
		if records[i].to == o {
			o.undoUpdate(&records[i])
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

// stateMessage names the message with the last state in errors. It isn't a real method and can't
// be called.
var stateMessage = &method{name: "Actor.State", delivery: bunch.Reliable}

// forget removes an opening from its actor and its connection.
func (a *Actor) forget(o *opening) {
	o.closed = true
	o.conn.drops.Add(drops.Closed, o.queuedCalls.Close())
	delete(o.conn.shown.openings, a)
	o.conn.shown.view.remove(o)
	i := slices.Index(a.openings, o)
	a.openings = slices.Delete(a.openings, i, i+1)
	if len(a.openings) == 0 {
		a.world.replicator.unwatchDue = true // the next Flush stops comparing its states
	}
}

// closedChannels remembers, for each actor that was closed for a client and may open again, the
// actor's last channel.
//
// If the actor does open again before the client has acknowledged the close, its new channel has
// to wait for the old one (see channelOn). An entry is therefore kept at least until the close is
// acknowledged. Acknowledged entries are swept out together, some time later.
//
// The link's lock guards all fields.
type closedChannels struct {
	byRef   map[Ref]uint64
	sweepAt int // size of byRef at which the next add sweeps
}

// minSweep is the smallest map size worth sweeping.
const minSweep = 64

// add records the channel of an actor that was just closed.
func (l *closedChannels) add(ref Ref, channel uint64, machine *bunch.Conn) {
	if len(l.byRef) >= l.sweepAt {
		maps.DeleteFunc(l.byRef, func(_ Ref, channel uint64) bool {
			unacked, _ := machine.Reliable(channel)
			return unacked == 0
		})
		// Don't sweep again until the map has doubled, so that sweeping costs little per close.
		l.sweepAt = max(minSweep, 2*len(l.byRef))
	}
	l.byRef[ref] = channel
}

// take returns the last channel of an actor that opens again, and removes its entry.
func (l *closedChannels) take(ref Ref) (channel uint64, ok bool) {
	channel, ok = l.byRef[ref]
	delete(l.byRef, ref)
	return channel, ok
}

// maxDetached limits the copies without a channel (dormant, placed or torn off) that a client may
// have. It's eight times the number of channels that a connection may have open.
const maxDetached = 1 << 18

// handleClose is called on a client when the server closes an actor's channel.
func (w *World) handleClose(c *Conn, a *Actor, message bunch.Message) *CloseError {
	reason, last := parseClose(message.Payload)
	keeps := reason.keepsCopy() || a.keepsPlaced(reason)
	detached := len(c.copies.byRef) - len(c.channels.byNumber)
	switch {
	case reason > TearOff:
		return violationf(PayloadFail, "close of %v for reason %d, which does not exist", a, reason)
	case len(last) > 0 && !reason.keepsCopy():
		return violationf(PayloadFail, "close of %v for %v: %d bytes left over", a, reason, len(last))
	case keeps && detached >= maxDetached:
		return violationf(PayloadFail, "close of %v for %v: %d copies live without a channel already",
			a, reason, maxDetached)
	}

	// The copy gets its last state, and OnRep runs for it, while it still has its channel.
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

// closeCopy is called on a client when a copy has lost its channel. Depending on the reason,
// the copy stays as it is, is torn off, or ends.
func (w *World) closeCopy(c *Conn, a *Actor, channel uint64, reason CloseReason) {
	c.channels.set(channel, nil)
	c.requests.endOf(a, reason)
	a.openings = nil
	switch {
	case reason == Dormancy || a.keepsPlaced(reason):
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

// endCopy ends a client's copy, then runs OnRep for the states that refer to it. c is nil if
// the copy was placed and the server never opened it.
func (w *World) endCopy(c *Conn, a *Actor, reason CloseReason) {
	if c == nil {
		a.end(reason)
		return
	}
	a.states.removeReferences(c)
	a.end(reason)
	w.game.During(tasks.Doing{}, func() { w.notifyReferrers(c, a.ref) })
}

// end ends the actor on this side, server or client, and runs OnClose. It's a no-op if the actor
// has already ended.
func (a *Actor) end(reason CloseReason) {
	if a.dead {
		return
	}
	w := a.world
	a.dead = true
	a.owned = false
	w.actors.remove(a)
	if a.conn != nil {
		a.conn.copies.remove(a)
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
