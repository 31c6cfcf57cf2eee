package rpc

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/drops"
	"github.com/quivernet/quiver/internal/logs"
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

// keepsPlaced reports whether a is placed and clients keep their copies of it when its channel
// closes for that reason.
func (a *Actor) keepsPlaced(reason CloseReason) bool {
	return a.name != "" && (reason == Relevancy || reason == LevelUnloaded)
}

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

// closeToPrevious closes the actor for its previous owner.
//
// If the client hasn't acknowledged the open yet, we delay the close until it has. In the
// meantime, cancelClose can cancel the close. Otherwise an actor that changes owners several
// times per round trip would build up a backlog of opens and closes.
func (a *Actor) closeToPrevious(previous *Conn) {
	o := a.openingOn(previous)
	if o == nil || !previous.usable() || o.acknowledged() {
		a.CloseTo(previous)
		return
	}
	o.closePending = true
	o.updateVisible()
	if a.name == "" {
		// The client must know now that it no longer owns its copy. (If the actor is placed,
		// tellOwners has already told it.) An error means that the connection is closing.
		_ = a.tellOwner(previous)
	}
	a.closeAtFlush()
}

// closePendingNow closes the actor for all previous owners at once. Like closeAcknowledged, it
// leaves the copy of a placed actor without a channel.
func (a *Actor) closePendingNow() {
	for _, o := range slices.Backward(a.openings) {
		if o.closePending {
			a.closeOpening(o, Relevancy)
		}
	}
}

// closeAcknowledged is called by Flush to close the actor for previous owners that have
// acknowledged the open by now. A previous owner's copy of a placed actor stays without a channel.
func (a *Actor) closeAcknowledged() {
	for _, o := range slices.Backward(a.openings) {
		switch {
		case !o.closePending:
		case o.acknowledged():
			a.closeOpening(o, Relevancy)
		default:
			a.closeAtFlush()
		}
	}
}

// dormancy is an actor's record of its dormancy and of its copies whose channels have closed. It
// is used only by the world's goroutine.
type dormancy struct {
	on bool // server: set by SetDormant; client: the copy has no channel

	// Server only.
	detachedAt []*Conn // connections that have the actor in shown.detached
	inToClose  bool    // the actor is in World.toClose
	flushLists bool    // the next Flush also compares the lists of the dormant actor
}

// SetDormant puts the actor to sleep, or wakes it. Only the server may call it.
// UE: SetNetDormancy(DORM_DormantAll) and DORM_Awake.
//
// A dormant actor costs nothing per tick, whatever the game changes in it. The next Flush closes
// its channels, and sends its state along with the close. Clients keep their copies as they are.
// If a client doesn't have all items of the actor's lists yet, or a [Request] is open, the
// channel to that client closes in a later Flush. Clients to which the actor becomes relevant
// later get a dormant copy.
//
// SetDormant(true) on an actor that is already dormant sends nothing to its copies. Use
// [Actor.FlushDormancy] for that.
//
// When the actor wakes, it opens for all clients that have a copy. The copy's object stays the
// same and gets the current state, and OnRep runs for the fields that differ. Relevancy does not
// end a dormant copy: a client that moves away keeps its copies of all dormant actors until the
// actors wake or are destroyed. SetOwner and Destroy also affect dormant copies.
//
// A Client RPC or Multicast on a dormant actor wakes it until the next Flush, for the clients
// to which the call is sent. FlushDormancy does the same for all clients.
//
// On the owner's client, a Server RPC returns ErrDormant as soon as the close has arrived. This
// includes calls from the last OnRep, and from the constructor of a copy that opens dormant.
//
// If a Server RPC is in flight while the actor falls asleep, the server drops the call and counts
// it in Drops.ActorClosed, but doesn't tell the client. If that matters, use a [Request], which
// ends with ErrDormant, or wake the actor first by a call on an actor that is not dormant.
func (a *Actor) SetDormant(on bool) error {
	if err := a.checkAuthority("SetDormant"); err != nil {
		return err
	}
	a.dormancy.on = on
	if on {
		a.dormantAtFlush()
	} else {
		a.wake()
	}
	return nil
}

// FlushDormancy makes the next Flush send the states and lists of a dormant actor to all
// clients that have a copy. That includes clients to which the actor is no longer relevant,
// unless CloseTo has ended their copy. The actor stays dormant. It doesn't matter whether
// FlushDormancy is called before or after the changes. Only the server may call it.
// UE: FlushNetDormancy, which reaches only clients to which the actor is relevant.
//
// On an actor that is awake, FlushDormancy is a no-op, because each Flush sends its states anyway.
func (a *Actor) FlushDormancy() error {
	if err := a.checkAuthority("FlushDormancy"); err != nil {
		return err
	}
	a.wake()
	return nil
}

// Dormant reports, on the server, whether SetDormant has made the actor dormant.
//
// On a client, Dormant reports whether the copy has no channel. Either the actor is dormant, or
// it was placed and is far away or not open yet. For a copy that opens dormant, Dormant returns
// true once its constructor and its first OnRep have run. UE: NetDormancy.
func (a *Actor) Dormant() bool { return a.dormancy.on && !a.dead }

// dormantAtFlush makes the next Flush send the game's changes to a dormant actor, including its
// lists, and then close the actor's channels.
func (a *Actor) dormantAtFlush() {
	a.dormancy.flushLists = true
	a.closeAtFlush()
}

// wake opens the actor for all clients that have a dormant copy.
func (a *Actor) wake() {
	a.reopen(Dormancy)
	if a.dormancy.on && len(a.openings) > 0 {
		// The actor is still dormant. The next Flush sends the changes, including to clients
		// whose copy hasn't fallen asleep yet, and puts the actor back to sleep.
		a.dormantAtFlush()
	}
}

// closeAtFlush makes the next Flush close channels of the actor, because it is dormant or some
// of its openings are for previous owners.
func (a *Actor) closeAtFlush() {
	if !a.dormancy.inToClose {
		a.dormancy.inToClose = true
		a.world.toClose = append(a.world.toClose, a)
	}
}

// closeChannels is called in Flush to close the channels of the actors that closeAtFlush has
// listed.
func (w *World) closeChannels() {
	actors := w.toClose
	w.toClose = nil
	for _, a := range actors {
		a.dormancy.inToClose = false
		a.closeAcknowledged()
		if a.dormancy.on && !a.dead {
			a.fallAsleep()
		}
	}
}

// fallAsleep closes the channels of a dormant actor for all clients that are ready. The actor's
// states, except for lists, are sent with the close.
func (a *Actor) fallAsleep() {
	a.compareAll()
	a.dormancy.flushLists = false

	// Go backwards, because closing an opening removes it.
	for i := len(a.openings) - 1; i >= 0; i-- {
		o := a.openings[i]
		isReady := o.settled() && !o.conn.requests.hasOpen(a)
		if isReady || !o.conn.usable() {
			a.world.logs.Actor(logs.Dormancy, "falls asleep", o.conn, a)
			a.closeOpening(o, Dormancy)
		}
	}
	if len(a.openings) > 0 {
		// Some clients are still missing list items or have a request open. Try again in the next
		// Flush.
		a.closeAtFlush()
	}
}
