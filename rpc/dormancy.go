package rpc

import (
	"fmt"
	"slices"
	"time"

	"github.com/quivernet/quiver/internal/logs"
)

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

// noteDetached records that the channel on c was closed, but that the client keeps its copy.
func (a *Actor) noteDetached(c *Conn, reason CloseReason) {
	a.dormancy.detachedAt = append(a.dormancy.detachedAt, c)
	c.shown.detached[a] = reason
}

// forgetDetached undoes noteDetached when the copy has a channel again, or when the copy or its
// connection has ended.
func (a *Actor) forgetDetached(c *Conn) {
	if c.shown.hasDetached(a) {
		delete(c.shown.detached, a)
		a.dormancy.detachedAt = slices.DeleteFunc(a.dormancy.detachedAt, func(other *Conn) bool {
			return other == c
		})
	}
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

// reopen opens the actor for all clients whose copy lost its channel for one of the reasons.
func (a *Actor) reopen(reasons ...CloseReason) {
	for _, c := range slices.Clone(a.dormancy.detachedAt) {
		if !c.usable() || !slices.Contains(reasons, c.shown.detached[a]) {
			continue
		}
		c.world.logs.Actor(logs.Dormancy, "wakes", c, a)
		if err := a.open(c); err != nil {
			a.logNotOpened(c, err)
		}
	}
}

// logNotOpened logs that an actor couldn't be opened. It logs at most once a second per
// connection, since every Flush fails again for a client without a free channel.
func (a *Actor) logNotOpened(c *Conn, err error) {
	if hidden, ok := c.shown.openWarn.Pass(time.Now()); ok {
		a.world.log.Error("actor not opened", "conn", c, "actor", a.class.name, "error", err, "more", hidden)
	}
}

// A dismissal is the pending end of a client's copy whose channel has closed.
type dismissal struct {
	actor  *Actor
	reason CloseReason
}

// dismiss ends the copy that the client of c has kept although its channel has closed.
func (a *Actor) dismiss(c *Conn, reason CloseReason) {
	a.forgetDetached(c)
	delete(c.shown.opened, a)
	if !c.usable() {
		return
	}
	if err := a.openAndClose(c, reason); err != nil {
		// There's no free channel. The next Flush tries again.
		c.shown.dismissals = append(c.shown.dismissals, dismissal{a, reason})
		a.logNotOpened(c, fmt.Errorf("its copy there must end, and waits for a channel: %w", err))
	}
}

// openAndClose opens a channel just to close it again with a reason. The client then applies the
// reason to its copy of the actor.
func (a *Actor) openAndClose(c *Conn, reason CloseReason) error {
	c.link.Lock()
	defer c.link.Unlock()
	a.world.frame.cork(c)
	if reason == Destroyed {
		// A single message opens and closes the channel.
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

// retryDismissals is called in Flush to end the copies that were waiting for a free channel.
func (c *Conn) retryDismissals() {
	for c.usable() && len(c.shown.dismissals) > 0 {
		d := c.shown.dismissals[0]
		// Since dismiss was called, the actor may have been opened for the client again, and
		// perhaps closed once more.
		replaced := d.actor.openingOn(c) != nil || c.shown.hasDetached(d.actor)
		if !replaced && d.actor.openAndClose(c, d.reason) != nil {
			return
		}
		c.shown.dismissals = c.shown.dismissals[1:]
	}
}
