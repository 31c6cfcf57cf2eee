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
	// UE (Unreal Engine's counterpart): the client destroys the actor and the subobjects that the
	// actor made.
	Destroyed CloseReason = 0

	// Dormancy means that nothing about the actor will change for a while (see
	// [Actor.SetDormant]). The client keeps its copy, with the last state, which arrives with the
	// close. OnClose doesn't run. UE: the same.
	Dormancy CloseReason = 1

	// LevelUnloaded means that the client has unloaded the actor's level (see
	// [Actor.UnloadTo]). The client's copy ends, but if it was placed (see [Place]), it stays
	// without a channel. UE: the same.
	LevelUnloaded CloseReason = 2

	// Relevancy means that the actor is no longer relevant to the client (see [Actor.CloseTo]).
	// The client's copy ends, but if it was placed, it stays without a channel. UE: the actor
	// spawns again once it is relevant again, and actors that belong to a level keep their channel.
	Relevancy CloseReason = 3

	// TearOff means that the server has given up control of the client's copy (see
	// [Actor.TearOff]). The copy gets the last state with the close, and from then on the client
	// is its authority. OnTearOff runs instead of OnClose. UE: bTearOff, TornOff.
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

// carriesState reports whether a close for this reason brings the copy the actor's last state. It
// does if the client keeps the copy of any actor, placed or not.
func (r CloseReason) carriesState() bool { return r == Dormancy || r == TearOff }

// detaches reports whether a close for this reason detaches a client's copy of the actor, that is,
// whether the copy stays under the server's control but without a channel.
func (a *Actor) detaches(reason CloseReason) bool {
	isPlaced := a.name != ""
	return reason == Dormancy || isPlaced && (reason == Relevancy || reason == LevelUnloaded)
}

// OnClose registers fn to run after an actor of the class has ended on this side: on the
// server when it is destroyed, on a client when the client's copy ends. fn runs once for each
// object, after everything else. UE: EndPlay.
//
// Since the actor is no longer alive when fn runs, calls on it fail, and Of and All don't list it.
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
// the server's actor carries on independently. Only the server may call TearOff. UE: TearOff.
//
// Clients get the actor's current state with the last message on its channel. Calls made
// before TearOff are still delivered, except for [ForceQueue] calls that haven't been sent yet.
//
// Afterwards the actor isn't open for any client and can't be opened again. Calls run on the
// side that makes them, except that a Client RPC to the owner returns ErrClosed on the server.
// The actors that this one owns keep their owner, and therefore their connection, until this one
// is destroyed.
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

	// First send the delayed closes, because previous owners must not keep their copies. Then open
	// the actor for all copies without a channel, because they need the last state too.
	a.dormancy.on = false
	a.closePendingNow()
	a.reopen(Dormancy, LevelUnloaded, Relevancy)

	// If the actor was placed, it no longer exists for any other client, including clients that
	// join later.
	a.endPlacedCopies()

	a.tornOff = true
	a.world.actors.removeAlways(a)
	a.closeAll(TearOff)
	a.world.relevance.remove(a)
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
		return errorf("rpc: %s of %v: actor was destroyed: %w", caller, a, ErrClosed)
	case a.tornOff:
		return errorf("rpc: %s of %v: actor is torn off: %w", caller, a, ErrClosed)
	}
	return nil
}

// CloseTo closes the actor for c, so that the client's copy ends with reason Relevancy. To open
// the actor there again, call OpenTo, or just make a call to c.
//
// An [AlwaysRelevant] actor doesn't reopen for c automatically, and if c's OnConnect calls CloseTo,
// it doesn't open for c in the first place. Otherwise CloseTo does nothing if c has no copy. On a
// client it never does anything.
//
// If the actor was placed, the copy stays at the client without a channel. [Conn.Actor] still
// returns it, but it gets no more updates or Multicasts.
func (a *Actor) CloseTo(c *Conn) { a.closeTo(c, Relevancy, "CloseTo") }

// UnloadTo is CloseTo with reason LevelUnloaded. Use it when a client has told the game that it
// has unloaded the actor's level. UE: ServerUpdateLevelVisibility.
func (a *Actor) UnloadTo(c *Conn) { a.closeTo(c, LevelUnloaded, "UnloadTo") }

// closeTo closes the actor for c, whether or not the client's copy has a channel. caller is the
// method that the game called.
func (a *Actor) closeTo(c *Conn, reason CloseReason, caller string) {
	if !a.valid() || !a.world.IsServer() || c == nil || c.world != a.world {
		return
	}
	a.world.mustBeInside(caller, nil)

	// During OnConnect of c, this prevents an AlwaysRelevant actor from opening for c afterwards.
	a.world.admission.exclude(a, c)

	if o := a.openingOn(c); o != nil {
		a.closeOpening(o, reason)
		return
	}
	if !c.shown.hasDetached(a) {
		return
	}

	// The copy is dormant or placed, and its channel has already closed. If the client keeps the
	// copy for the new reason as well, there's nothing to send, so just record the reason.
	delete(c.shown.opened, a)
	if a.detaches(reason) {
		c.shown.detached[a] = reason
		return
	}
	a.dismiss(c, reason)
}

// closeAll closes the actor for all clients.
func (a *Actor) closeAll(reason CloseReason) {
	if reason.carriesState() {
		// Include the changes since the last Flush, because no later update will bring them.
		a.compareAll()
	}
	for len(a.openings) > 0 {
		a.closeOpening(a.openings[len(a.openings)-1], reason)
	}
}

// closeOpening closes the actor on one connection.
func (a *Actor) closeOpening(o *opening, reason CloseReason) {
	c := o.conn
	if o.closePending && reason.carriesState() {
		// This client is a previous owner and is about to lose the actor, so it must not keep its
		// copy.
		reason = Relevancy
	}

	// Handle the last state while there's still an opening, which knows what the client lacks.
	payload := []byte{byte(reason)}
	if reason.carriesState() && c.usable() {
		payload = append(payload, a.sendLastState(o, reason)...)
	}
	a.forget(o)
	if reason != Dormancy {
		delete(c.shown.opened, a)
	}
	c.channels.set(o.channel, nil)
	c.requests.endOf(a, reason)
	if !c.usable() {
		return
	}
	if a.detaches(reason) {
		a.noteDetached(c, reason)
	}

	c.link.Lock()
	a.world.frame.cork(c)
	err := a.sendClose(c, o.channel, reason, payload)
	c.link.Unlock()
	if err != nil {
		a.world.log.Warn("channel not closed",
			"conn", c, "actor", a.class.name, "channel", o.channel, "error", err)
		return
	}
	a.world.logs.Closed(c, a, o.channel, reason)
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

// maxLastState is the maximum number of bytes of fields in a close. They must fit into one entry
// along with the reason, which takes a byte, and the payload's length, which takes two.
const maxLastState = bunch.EntryBytes - 3

// sendLastState makes sure that the client gets the actor's last state. It returns the fields that
// may be out of date there, which the close must carry. If they're too large for a close, it sends
// them in a message ahead of the close and returns nothing. The items of a list are always sent
// ahead, and only for a TearOff, because a dormant actor keeps its channel until the client has
// them.
func (a *Actor) sendLastState(o *opening, reason CloseReason) (forClose []byte) {
	if reason == TearOff {
		a.sendMissingItems(o)
	}

	// Repeat all fields that were ever sent in an update, since the latest one may still get lost.
	fields := (o.lacks | o.everSent) & o.visible &^ a.class.lists
	if fields == 0 {
		return nil
	}
	if last := a.appendFields(nil, fields); len(last) <= maxLastState {
		return last
	}
	message := a.appendFields(binary.AppendUvarint(nil, stateMethod), fields)
	if err := a.send(o, stateMessage, message); err != nil {
		a.world.log.Error("last state not sent", "conn", o.conn, "actor", a, "error", err)
	}
	return nil
}

// sendMissingItems sends all list items that the client may not have yet.
func (a *Actor) sendMissingItems(o *opening) {
	// Items in flight may still be lost, and nothing resends them after the close, so count them
	// as missing.
	o.conn.shown.state.undoInFlight(o)
	for o.lacks&a.class.lists != 0 {
		var sent sentUpdate
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
	o.conn.shown.remove(o)
	i := slices.Index(a.openings, o)
	a.openings = slices.Delete(a.openings, i, i+1)
	a.world.replicator.noteClosed(a)
}

// closeToPrevious closes the actor for its previous owner.
//
// If the client hasn't acknowledged the open yet, the close is delayed until it has, and
// cancelClose can cancel it until then. Otherwise an actor that changes owners several times per
// round trip would build up a backlog of opens and closes.
func (a *Actor) closeToPrevious(previous *Conn) {
	o := a.openingOn(previous)
	if o == nil || !previous.usable() || o.acknowledged() {
		a.CloseTo(previous)
		return
	}
	o.closePending = true
	o.updateVisible()
	if a.name == "" {
		// Tell the client now that it no longer owns its copy. (If the actor is placed, tellOwners
		// has already done so.) An error means that the connection is closing.
		_ = a.tellOwner(previous)
	}
	a.closeAtFlush()
}

// closePendingNow closes the actor for all previous owners without waiting for their
// acknowledgments. Like closeAcknowledged, it leaves the copy of a placed actor without a channel.
func (a *Actor) closePendingNow() {
	for _, o := range slices.Backward(a.openings) {
		if o.closePending {
			a.closeOpening(o, Relevancy)
		}
	}
}

// closeAcknowledged is called in Flush to close the actor for previous owners that have
// acknowledged the open. A previous owner's copy of a placed actor stays without a channel.
func (a *Actor) closeAcknowledged() {
	for _, o := range slices.Backward(a.openings) {
		if !o.closePending {
			continue
		}
		if o.acknowledged() {
			a.closeOpening(o, Relevancy)
		} else {
			a.closeAtFlush() // try again in the next Flush
		}
	}
}

// dormancy is an actor's record of its dormancy and of its detached copies, whose channels have
// closed. It is used only by the world's goroutine.
type dormancy struct {
	on bool // server: set by SetDormant; client: the copy is detached

	// Server only.
	detachedAt []*Conn // connections that have the actor in shown.detached
	inToClose  bool    // the actor is listed in World.toClose
	flushLists bool    // the next Flush compares the dormant actor's lists as well
}

// SetDormant puts the actor to sleep, or wakes it. Only the server may call it.
// UE: SetNetDormancy(DORM_DormantAll) and DORM_Awake.
//
// A dormant actor costs nothing per tick, whatever the game changes in it. The next Flush sends the
// actor's last state to its clients and closes its channels, but the clients keep their copies.
// If a client doesn't have all items of the actor's lists yet, or if a [Request] is open, the
// channel to that client closes in a later Flush. Clients to which the actor becomes relevant
// later get a dormant copy.
//
// SetDormant(true) on an actor that is already dormant sends no changes to the clients. Use
// [Actor.FlushDormancy] instead.
//
// When the actor wakes, it opens for all clients that have a copy. The copy's object stays the
// same and gets the current state, and OnRep runs for the fields that differ. Relevancy doesn't
// end a dormant copy: a client that moves away keeps its copies of all dormant actors until the
// actors wake or are destroyed. SetOwner and Destroy also affect dormant copies.
//
// A Client RPC or Multicast on a dormant actor wakes it until the next Flush, for the clients
// to which the call is sent. FlushDormancy does the same for all clients.
//
// On the owner's client, a Server RPC returns ErrDormant as soon as the close has arrived. This
// includes calls from the last OnRep, and from the constructor of a copy that opens dormant.
//
// If a Server RPC is in flight while the actor goes dormant, the server drops the call and counts
// it in Drops.ActorClosed, but doesn't tell the client. If that matters, use a [Request], which
// ends with ErrDormant, or wake the actor first by a call on an actor that isn't dormant.
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
// clients that have a copy, even if the actor is no longer relevant to them. The actor stays
// dormant. FlushDormancy may be called before or after the changes. Only the server may call it.
// UE: FlushNetDormancy, which reaches only clients to which the actor is relevant.
//
// On an actor that isn't dormant, FlushDormancy is a no-op, because each Flush sends its states
// anyway.
func (a *Actor) FlushDormancy() error {
	if err := a.checkAuthority("FlushDormancy"); err != nil {
		return err
	}
	a.wake()
	return nil
}

// Dormant reports, on the server, whether SetDormant has made the actor dormant.
//
// On a client, Dormant reports whether the copy has no channel, either because the actor is
// dormant, or because it was placed and is far away or not open yet. For a copy that opens dormant,
// Dormant returns true only after its constructor and its first OnRep. UE: NetDormancy.
func (a *Actor) Dormant() bool { return a.dormancy.on && !a.dead }

// dormantAtFlush makes the next Flush send the changes that the game has made to a dormant actor,
// including its lists, and then close the actor's channels.
func (a *Actor) dormantAtFlush() {
	a.dormancy.flushLists = true
	a.closeAtFlush()
}

// wake opens the actor for all clients that have a dormant copy.
func (a *Actor) wake() {
	a.reopen(Dormancy)
	if a.dormancy.on && len(a.openings) > 0 {
		// The actor is still dormant. The next Flush sends the changes to all clients, including
		// those whose channel hasn't closed yet, and then closes the channels again.
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

// closeChannels is called in Flush to close channels of the actors that closeAtFlush has listed.
func (w *World) closeChannels() {
	actors := w.toClose
	w.toClose = nil
	for _, a := range actors {
		a.dormancy.inToClose = false
		a.closeAcknowledged()
		if a.dormancy.on && !a.dead {
			a.closeDormant()
		}
	}
}

// closeDormant closes the channels of a dormant actor for all clients that are ready. The actor's
// states, except for lists, are sent with the close.
func (a *Actor) closeDormant() {
	a.compareAll()
	a.dormancy.flushLists = false

	for _, o := range slices.Backward(a.openings) { // because closing an opening removes it
		isReady := o.settled() && !o.conn.requests.hasOpen(a)
		if isReady || !o.conn.usable() {
			a.world.logs.Actor(logs.Dormancy, "goes dormant", o.conn, a)
			a.closeOpening(o, Dormancy)
		}
	}
	if len(a.openings) > 0 {
		// Some clients are still missing list items or have a request open. Try again in the next
		// Flush.
		a.closeAtFlush()
	}
}
