package rpc

import (
	"fmt"
	"slices"
	"time"

	"github.com/quivernet/quiver/internal/logs"
)

// dormancy is the part of an actor that decides when its channels come and go. It belongs to the world's goroutine.
type dormancy struct {
	on bool // on a server: set by SetDormant; on a client: the copy has no channel

	// On a server.
	detachedAt []*Conn // clients that have a copy without a channel: those whose shown.detached has the actor
	listed     bool    // the actor is in World.toClose
	flushLists bool    // the next Flush compares the lists of the dormant actor too, as it does its other states
}

// SetDormant says whether the actor is dormant. The next Flush sends the state of a dormant actor with the close of its channels, and
// clients keep their copies as they are; for a client that does not have all items of its lists yet, or while a [Request] is open, a later
// Flush does. From then on the actor costs nothing at a tick, whatever the game changes in it. Clients for which it becomes relevant later
// get a dormant copy. SetDormant(true) of what sleeps already brings nothing to its copies: FlushDormancy does. When it wakes it opens for
// all clients that have a copy: the same object goes on there, gets the present state, and OnRep runs for what differs. Relevancy does not
// end a dormant copy: a client that goes away keeps the copies of all dormant actors that it has met, until they wake or are destroyed.
//
// A Client RPC or Multicast on a dormant actor wakes it until the next Flush for the clients that the call goes to, as
// [Actor.FlushDormancy] does for all. A Server RPC of its owner returns ErrDormant at the client, as soon as the close has arrived:
// in the constructor of a copy that comes dormant, and in the last OnRep. One that is on its way when the actor falls asleep is dropped
// at the server and counted in Drops.ActorClosed, and the client is not told: use a [Request], which ends with ErrDormant, or wake the actor
// first, by a call on an actor that is not dormant. SetOwner and Destroy reach dormant copies. Server only. UE:
// SetNetDormancy(DORM_DormantAll) and DORM_Awake.
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

// FlushDormancy makes the next Flush send the states and lists of a dormant actor to all clients that have a copy, also to those to whom it is
// not relevant any more, unless CloseTo has ended theirs. The actor stays dormant; call it before or after the changes. For an actor that is
// awake each Flush does so anyway. Server only. UE: FlushNetDormancy, which reaches those to whom the actor is relevant.
func (a *Actor) FlushDormancy() error {
	if err := a.checkAuthority("FlushDormancy"); err != nil {
		return err
	}
	a.wake()
	return nil
}

// Dormant reports on the server whether SetDormant has made the actor dormant, on a client whether its copy has no channel: of a dormant actor, or
// of a placed one that is far or not open yet. A copy that comes dormant is so once its constructor and its first OnRep have run. UE: NetDormancy.
func (a *Actor) Dormant() bool { return a.dormancy.on && !a.dead }

// dormantAtFlush makes the next Flush send what the game has changed in a dormant actor, lists included, and close its channels.
func (a *Actor) dormantAtFlush() {
	a.dormancy.flushLists = true
	a.closeAtFlush()
}

// closeAtFlush makes the next Flush close the channels of a dormant actor, or its parted openings.
func (a *Actor) closeAtFlush() {
	if !a.dormancy.listed {
		a.dormancy.listed = true
		a.world.toClose = append(a.world.toClose, a)
	}
}

// closeChannels closes, in Flush, parted openings, and the channels of dormant actors that are still open.
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

// fallAsleep closes the actor for the clients that have all items of its lists and no open request; its other states travel with the
// close. The next Flush tries the other clients again.
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

// noteDetached records that the client of c now has a copy without a channel, and the reason of the close.
func (a *Actor) noteDetached(c *Conn, reason CloseReason) {
	a.dormancy.detachedAt = append(a.dormancy.detachedAt, c)
	c.shown.detached[a] = reason
}

// forgetDetached undoes noteDetached: the copy has a channel again, has ended, or its connection has.
func (a *Actor) forgetDetached(c *Conn) {
	if c.shown.hasDetached(a) {
		delete(c.shown.detached, a)
		a.dormancy.detachedAt = slices.DeleteFunc(a.dormancy.detachedAt, func(other *Conn) bool { return other == c })
	}
}

// wake opens the actor for all clients that have a dormant copy. Others, whose copy has yet to fall asleep, get what has changed as well.
func (a *Actor) wake() {
	a.reopen(Dormancy)
	if a.dormancy.on && len(a.openings) > 0 {
		a.dormantAtFlush()
	}
}

// reopen opens the actor for all clients whose copy lost its channel for one of the reasons.
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

// notOpened logs at most once a second that an actor could not be opened: for a client that has no channel left, every Flush would log.
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

// dismiss ends the copy that the client of c has without a channel: it opens a channel that names the copy, and closes it. When c has no
// channel left, the next Flush tries again.
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

// openAndClose opens a channel for the client's copy and closes it at once, so that the client applies the reason to the copy.
func (a *Actor) openAndClose(c *Conn, reason CloseReason) error {
	c.link.Lock()
	defer c.link.Unlock()
	a.world.frame.cork(c)
	if reason == Destroyed { // a single message opens and closes
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

// dismissOverdue ends the copies that wait for a channel, except those that have one again.
func (c *Conn) dismissOverdue() {
	for c.usable() && len(c.shown.dismissals) > 0 {
		d := c.shown.dismissals[0]
		if d.actor.openingOn(c) == nil && !c.shown.hasDetached(d.actor) && d.actor.openAndClose(c, d.reason) != nil {
			return
		}
		c.shown.dismissals = c.shown.dismissals[1:]
	}
}
