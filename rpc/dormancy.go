package rpc

import (
	"fmt"
	"slices"
	"time"

	"github.com/quivernet/quiver/internal/logs"
)

// dormancy is the part of an actor that concerns its dormancy and its copies without
// a channel. It is used only by the world's goroutine.
type dormancy struct {
	on bool // server: set by SetDormant; client: the copy has no channel

	// Server only.
	//
	// Connections whose client has a copy without a channel. The actor is in their
	// shown.detached.
	detachedAt []*Conn
	listed     bool // the actor is in World.toClose
	// The next Flush compares the dormant actor's lists as well as its other states.
	flushLists bool
}

// SetDormant makes the actor dormant, or wakes it. It is for the server only.
// UE: SetNetDormancy(DORM_DormantAll) and DORM_Awake.
//
// The next Flush closes the channels of a dormant actor, and sends its state with
// the close. Clients keep their copies as they are. If a client doesn't have all
// items of the actor's lists yet, or a [Request] is open, a later Flush does this.
// The actor then costs nothing at a tick, whatever the game changes in it. Clients
// to which it becomes relevant later get a dormant copy.
//
// SetDormant(true) of an actor that is already dormant sends nothing to its copies.
// Use [Actor.FlushDormancy] for that.
//
// When the actor wakes, it opens for all clients that have a copy. The copy's object stays
// the same and gets the current state, and OnRep runs for what differs. Relevancy does not
// end a dormant copy: a client that moves away keeps the copies of all dormant actors that it
// has had, until the actors wake or are destroyed. SetOwner and Destroy reach dormant copies.
//
// A Client RPC or Multicast on a dormant actor wakes it until the next Flush, for the clients
// to which the call is sent. FlushDormancy does the same for all clients.
//
// A Server RPC of the owner returns ErrDormant on the client as soon as the close has
// arrived. This includes the last OnRep, and the constructor of a copy that opens dormant.
//
// A Server RPC may be in flight when the actor falls asleep. The server then drops
// the call, counts it in Drops.ActorClosed, and does not tell the client. To avoid
// this, use a [Request], which ends with ErrDormant. Alternatively wake the actor
// first, by a call on an actor that is not dormant.
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
// clients that have a copy. These include clients to which the actor is no longer
// relevant, unless CloseTo has ended their copy. The actor stays dormant. FlushDormancy
// may be called before or after the changes. It is for the server only.
// UE: FlushNetDormancy, which reaches only clients to which the actor is relevant.
//
// For an actor that is awake, FlushDormancy changes nothing, because each Flush
// sends its states.
func (a *Actor) FlushDormancy() error {
	if err := a.checkAuthority("FlushDormancy"); err != nil {
		return err
	}
	a.wake()
	return nil
}

// Dormant reports, on the server, whether SetDormant has made the actor dormant.
//
// On a client it reports whether the copy has no channel. The actor is then dormant, or it
// was placed and is far away or not open yet. A copy that opens dormant becomes so once
// its constructor and its first OnRep have run. UE: NetDormancy.
func (a *Actor) Dormant() bool { return a.dormancy.on && !a.dead }

// dormantAtFlush makes the next Flush send what the game has changed in a dormant
// actor, including its lists, and close its channels.
func (a *Actor) dormantAtFlush() {
	a.dormancy.flushLists = true
	a.closeAtFlush()
}

// closeAtFlush makes the next Flush close a dormant actor's channels, or an actor's
// parted openings.
func (a *Actor) closeAtFlush() {
	if !a.dormancy.listed {
		a.dormancy.listed = true
		a.world.toClose = append(a.world.toClose, a)
	}
}

// closeChannels closes actors for previous owners, and the channels of dormant actors that are
// still open. Flush calls it.
func (w *World) closeChannels() {
	actors := w.toClose
	w.toClose = nil
	for _, a := range actors {
		a.dormancy.listed = false
		a.closePending(false)
		if a.dormancy.on && !a.dead {
			a.fallAsleep()
		}
	}
}

// fallAsleep closes the actor for the clients that have all items of its lists and
// no open request. Its other states are sent with the close. The next Flush tries
// the other clients again.
func (a *Actor) fallAsleep() {
	a.compareAll()
	a.dormancy.flushLists = false
	for i := len(a.openings) - 1; i >= 0; i-- {
		o := a.openings[i]
		if o.settled() && !o.conn.requests.hasOpen(a) || !o.conn.usable() {
			a.world.logs.Actor(logs.Dormancy, "falls asleep", o.conn, a)
			a.closeOpening(o, Dormancy)
		}
	}
	if len(a.openings) > 0 {
		a.closeAtFlush()
	}
}

// noteDetached records that the client of c now has a copy without a channel, and
// the reason of the close.
func (a *Actor) noteDetached(c *Conn, reason CloseReason) {
	a.dormancy.detachedAt = append(a.dormancy.detachedAt, c)
	c.shown.detached[a] = reason
}

// forgetDetached undoes noteDetached. The copy has a channel again, or the copy or
// its connection has ended.
func (a *Actor) forgetDetached(c *Conn) {
	if c.shown.hasDetached(a) {
		delete(c.shown.detached, a)
		a.dormancy.detachedAt = slices.DeleteFunc(a.dormancy.detachedAt, func(other *Conn) bool {
			return other == c
		})
	}
}

// wake opens the actor for all clients that have a dormant copy. Clients whose copy
// has yet to fall asleep also get what has changed.
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

// notOpened logs that an actor could not be opened. For a client without a free channel this
// happens in every Flush, so notOpened logs at most once a second for each connection.
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

// dismiss ends the copy that the client of c has without a channel. It opens a channel that
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

// openAndClose opens a channel for the client's copy and closes it at once. The
// client then applies the reason to the copy.
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
	return a.sendClose(c, channel, reason, []byte{byte(reason)})
}

// dismissOverdue ends the copies that wait for a free channel. It skips copies that
// have a channel again, or that are detached anew.
func (c *Conn) dismissOverdue() {
	for c.usable() && len(c.shown.dismissals) > 0 {
		d := c.shown.dismissals[0]
		replaced := d.actor.openingOn(c) != nil || c.shown.hasDetached(d.actor)
		if !replaced && d.actor.openAndClose(c, d.reason) != nil {
			return
		}
		c.shown.dismissals = c.shown.dismissals[1:]
	}
}
