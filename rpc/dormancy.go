package rpc

import (
	"fmt"
	"slices"
	"time"

	"github.com/quivernet/quiver/internal/logs"
)

// dormancy is the part of an actor that concerns its dormancy and its copies
// without a channel. It is used only by the world's goroutine.
type dormancy struct {
	on bool // server: set by SetDormant; client: the copy has no channel

	// Server only.
	detachedAt []*Conn // connections whose client has a copy without a channel: the actor is in their shown.detached
	listed     bool    // the actor is in World.toClose
	flushLists bool    // the next Flush compares the lists of the dormant actor, too, as it does its other states
}

// SetDormant makes the actor dormant, or wakes it. It is for the server only.
// UE: SetNetDormancy(DORM_DormantAll) and DORM_Awake.
//
// The next Flush closes the channels of a dormant actor, and sends its state with the
// close. Clients keep their copies as they are. If a client does not have all items
// of the actor's lists yet, or a [Request] is open, a later Flush does that. From
// then on the actor costs nothing at a tick, whatever the game changes in it. Clients
// to which it becomes relevant later get a dormant copy. SetDormant(true) of an actor
// that is already dormant sends nothing to its copies; use FlushDormancy for that.
//
// When the actor wakes, it opens for all clients that have a copy. The copy's
// object stays the same, gets the present state, and OnRep runs for what differs.
// Relevancy does not end a dormant copy: a client that moves away keeps the
// copies of all dormant actors that it has had, until they wake or are destroyed.
//
// A Client RPC or Multicast on a dormant actor wakes it until the next Flush for the clients
// to which the call is sent, as [Actor.FlushDormancy] does for all. A Server RPC of its owner
// returns ErrDormant on the client as soon as the close has arrived, which includes the
// constructor of a copy that opens dormant, and the last OnRep. A Server RPC that is in flight
// when the actor falls asleep is dropped on the server and counted in Drops.ActorClosed, and
// the client is not told: use a [Request], which ends with ErrDormant, or first wake the actor
// by a call on an actor that is not dormant. SetOwner and Destroy reach dormant copies.
func (a *Actor) SetDormant(on bool) error {
	if err := a.checkAuthority("SetDormant"); err != nil {
		return err
	}
	if a.dormancy.on = on; on {
		a.dormantAtFlush()
	} else {
		a.wake()
	}
	return nil
}

// FlushDormancy makes the next Flush send the states and lists of a dormant actor to all
// clients that have a copy, including those to which it is no longer relevant, unless
// CloseTo has ended theirs. The actor stays dormant. It may be called before or after
// the changes. For an actor that is awake each Flush does so anyway. It is for the
// server only. UE: FlushNetDormancy, which reaches those to which the actor is relevant.
func (a *Actor) FlushDormancy() error {
	if err := a.checkAuthority("FlushDormancy"); err != nil {
		return err
	}
	a.wake()
	return nil
}

// Dormant reports, on the server, whether SetDormant has made the actor dormant, and
// on a client, whether its copy has no channel, because the actor is dormant, or
// because it was placed and is far away or not open yet. A copy that opens dormant
// becomes so once its constructor and its first OnRep have run. UE: NetDormancy.
func (a *Actor) Dormant() bool { return a.dormancy.on && !a.dead }

// dormantAtFlush makes the next Flush send what the game has changed in a
// dormant actor, including its lists, and close its channels.
func (a *Actor) dormantAtFlush() {
	a.dormancy.flushLists = true
	a.closeAtFlush()
}

// closeAtFlush makes the next Flush close the channels of a dormant actor, or
// the actor's parted openings.
func (a *Actor) closeAtFlush() {
	if !a.dormancy.listed {
		a.dormancy.listed = true
		a.world.toClose = append(a.world.toClose, a)
	}
}

// closeChannels is called in Flush. It closes parted openings, and the channels
// of dormant actors that are still open.
func (w *World) closeChannels() {
	actors := w.toClose
	w.toClose = nil
	for _, a := range actors {
		a.dormancy.listed = false
		if a.closeParted(false); a.dormancy.on && !a.dead {
			a.fallAsleep()
		}
	}
}

// fallAsleep closes the actor for the clients that have all items of its lists and no open
// request. Its other states are sent with the close. The next Flush tries the other clients again.
func (a *Actor) fallAsleep() {
	a.compareAll()
	a.dormancy.flushLists = false
	for i := len(a.openings) - 1; i >= 0; i-- {
		if c := a.openings[i].conn; a.openings[i].settled() && !c.requests.holds(a) || !c.usable() {
			c.world.logs.Actor(logs.Dormancy, "falls asleep", c, a)
			a.closeOpening(a.openings[i], Dormancy)
		}
	}
	if len(a.openings) > 0 {
		a.closeAtFlush()
	}
}

// noteDetached records that the client of c now has a copy without a channel,
// and the reason of the close.
func (a *Actor) noteDetached(c *Conn, reason CloseReason) {
	a.dormancy.detachedAt = append(a.dormancy.detachedAt, c)
	c.shown.detached[a] = reason
}

// forgetDetached undoes noteDetached, because the copy has a channel again, or
// it or its connection has ended.
func (a *Actor) forgetDetached(c *Conn) {
	if c.shown.hasDetached(a) {
		delete(c.shown.detached, a)
		a.dormancy.detachedAt = slices.DeleteFunc(a.dormancy.detachedAt, func(other *Conn) bool { return other == c })
	}
}

// wake opens the actor for all clients that have a dormant copy. Clients whose
// copy has yet to fall asleep get what has changed as well.
func (a *Actor) wake() {
	a.reopen(Dormancy)
	if a.dormancy.on && len(a.openings) > 0 {
		a.dormantAtFlush()
	}
}

// reopen opens the actor for all clients whose copy has lost its channel for one of the reasons.
func (a *Actor) reopen(reasons ...CloseReason) {
	for _, c := range slices.Clone(a.dormancy.detachedAt) {
		if !c.usable() || !slices.Contains(reasons, c.shown.detached[a]) {
			continue
		}
		c.world.logs.Actor(logs.Dormancy, "wakes", c, a)
		if err := a.open(c); err != nil {
			a.notOpened(c, err)
		}
	}
}

// notOpened logs, at most once a second for each connection, that an actor could not
// be opened, because for a client without a free channel it happens in every Flush.
func (a *Actor) notOpened(c *Conn, err error) {
	if hidden, ok := c.shown.openWarn.Pass(time.Now()); ok {
		a.world.log.Error("actor not opened", "conn", c, "actor", a.class.name, "error", err, "more", hidden)
	}
}

// dismissal is a copy without a channel that must end at the client.
type dismissal struct {
	actor  *Actor
	reason CloseReason
}

// dismiss ends the copy that the client of c has without a channel: it opens a channel that
// names the copy, and closes it. If c has no free channel, the next Flush tries again.
func (a *Actor) dismiss(c *Conn, reason CloseReason) {
	a.forgetDetached(c)
	if !c.usable() {
		return
	}
	if err := a.openAndClose(c, reason); err != nil {
		c.shown.dismissals = append(c.shown.dismissals, dismissal{a, reason})
		a.notOpened(c, fmt.Errorf("its copy there must end, and waits for a channel: %w", err))
	}
}

// openAndClose opens a channel for the client's copy and closes it at once, so
// that the client applies the reason to the copy.
func (a *Actor) openAndClose(c *Conn, reason CloseReason) error {
	c.link.Lock()
	defer c.link.Unlock()
	a.world.frame.cork(c)
	if reason == Destroyed { // one message opens and closes
		channel, err := a.channelOn(c)
		if err != nil {
			return err
		}
		return c.machine.Close(channel, a.openHead(c, 0))
	}
	channel, err := a.openOn(c, a.openHead(c, 0))
	if err != nil {
		return err
	}
	return a.closeOn(c, channel, reason, []byte{byte(reason)})
}

// dismissOverdue ends the copies that wait for a free channel, except those
// that have a channel again.
func (c *Conn) dismissOverdue() {
	for c.usable() && len(c.shown.dismissals) > 0 {
		d := c.shown.dismissals[0]
		if d.actor.openingOn(c) == nil && !c.shown.hasDetached(d.actor) && d.actor.openAndClose(c, d.reason) != nil {
			return
		}
		c.shown.dismissals = c.shown.dismissals[1:]
	}
}
