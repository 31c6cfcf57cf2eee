package rpc

import (
	"fmt"
	"slices"
	"time"

	"github.com/quivernet/quiver/internal/logs"
)

// dormancy is what an actor without a channel sleeps by.
type dormancy struct {
	on     bool
	asleep []*Conn // server: those that have a copy without a channel
	drowsy bool    // server: in World.drowsy
	// server: the next Flush looks at the lists of the dormant actor, as it does at its states.
	flushLists bool
}

// SetDormant says whether the actor sleeps. The next Flush closes the channels of one that does, with its state of then, or a later one
// where a client does not have all items of its lists yet, or a [Request] is open, and its clients keep their copies as they are: from
// then on it costs nothing at a tick, whatever the game changes in it. Those for whom it is relevant later get it, asleep. When it is
// awake again it opens for all who have a copy: the same object goes on there, gets the state of now, and OnRep runs for what differs.
// A copy that sleeps is not ended by relevancy: a client that went away keeps it as it was, and gathers those that it has met, until the
// actor wakes or is destroyed.
//
// A Client RPC or Multicast on a dormant actor wakes it until the next Flush for those to whom it goes, as [Actor.FlushDormancy] does
// for all. A Server RPC of its owner returns ErrDormant at the client. One that is on its way when the actor falls asleep is dropped at
// the server, counted in Drops.ActorClosed, and the client does not learn of it: let it ask by a [Request], which ends with ErrDormant, or
// wake the actor before, by a call on one that does not sleep. SetOwner and Destroy reach copies that sleep. Server only. UE:
// SetNetDormancy(DORM_DormantAll) and DORM_Awake.
func (a *Actor) SetDormant(on bool) error {
	if err := a.mayChange("SetDormant"); err != nil {
		return err
	}
	if a.dormancy.on = on; on {
		a.untilFlush()
	} else {
		a.openToSleepers(false)
	}
	return nil
}

// FlushDormancy brings the state of the next Flush to all who have a copy of the actor, which stays dormant; it may be called before or
// after the changes. When it is awake the next Flush does so anyway. Server only. UE: FlushNetDormancy.
func (a *Actor) FlushDormancy() error {
	if err := a.mayChange("FlushDormancy"); err != nil {
		return err
	}
	a.openToSleepers(false)
	return nil
}

// Dormant reports, on the server, whether the actor shall sleep, on a client, whether its copy does. UE: NetDormancy.
func (a *Actor) Dormant() bool { return a.dormancy.on && !a.dead }

// untilFlush wakes a dormant actor until the next Flush, which brings what the game has changed by then to its clients.
func (a *Actor) untilFlush() {
	a.dormancy.flushLists = true
	a.drowse()
}

// drowse has the next Flush close the channels of a dormant actor.
func (a *Actor) drowse() {
	if !a.dormancy.drowsy {
		a.dormancy.drowsy = true
		a.world.drowsy = append(a.world.drowsy, a)
	}
}

// lull closes the channels of actors that are dormant.
func (w *World) lull() {
	drowsy := w.drowsy
	w.drowsy = nil
	for _, a := range drowsy {
		if a.dormancy.drowsy = false; a.dormancy.on && !a.dead {
			a.fallAsleep()
		}
	}
}

// fallAsleep closes the channels of those who have its lists as they are, and no open requests; the other states come with the close.
func (a *Actor) fallAsleep() {
	a.compareAll()
	a.dormancy.flushLists = false
	for i := len(a.openings) - 1; i >= 0; i-- {
		if c := a.openings[i].conn; a.openings[i].settled() && !c.requests.holds(a) || !c.usable() {
			c.world.logs.Actor(logs.Dormancy, "falls asleep", c, a)
			a.shut(a.openings[i], Dormancy)
		}
	}
	if len(a.openings) > 0 {
		a.drowse()
	}
}

// sleepAt notes that c has a copy without a channel, and why; wakeAt notes that it no longer has.
func (a *Actor) sleepAt(c *Conn, why CloseReason) {
	a.dormancy.asleep = append(a.dormancy.asleep, c)
	c.shown.asleep[a] = why
}

func (a *Actor) wakeAt(c *Conn) {
	if c.shown.sleeps(a) {
		delete(c.shown.asleep, a)
		a.dormancy.asleep = slices.DeleteFunc(a.dormancy.asleep, func(other *Conn) bool { return other == c })
	}
}

// restsAt reports whether the client has a copy that shall sleep on.
func (a *Actor) restsAt(c *Conn) bool {
	return a.dormancy.on && c.shown.sleeps(a) && c.shown.asleep[a] == Dormancy
}

// openToSleepers opens the actor for those who have a dormant copy, or for all who have one without a channel.
func (a *Actor) openToSleepers(all bool) {
	for _, c := range slices.Clone(a.dormancy.asleep) {
		if !c.usable() || !all && c.shown.asleep[a] != Dormancy {
			continue
		}
		c.world.logs.Actor(logs.Dormancy, "wakes", c, a)
		if err := a.open(c); err != nil {
			a.notOpened(c, err)
		}
	}
}

// notOpened tells that an actor could not be opened, once a second at most: a peer without a channel left would fill the log.
func (a *Actor) notOpened(c *Conn, err error) {
	if hidden, ok := c.shown.openWarn.Pass(time.Now()); ok {
		a.world.log.Error("actor not opened", "conn", c, "actor", a.class.name, "error", err, "more", hidden)
	}
}

// dismissal is a copy without a channel that is to end at the client.
type dismissal struct {
	actor  *Actor
	reason CloseReason
}

// dismiss ends the copy that c has without a channel: it opens one, by which the client finds the copy, and closes it. While c has no
// channel left it waits for one.
func (a *Actor) dismiss(c *Conn, reason CloseReason) {
	a.wakeAt(c)
	if !c.usable() {
		return
	}
	if err := a.openAndClose(c, reason); err != nil {
		c.shown.dismissals = append(c.shown.dismissals, dismissal{a, reason})
		a.notOpened(c, fmt.Errorf("its copy there is to end, which waits for a channel: %w", err))
	}
}

func (a *Actor) openAndClose(c *Conn, reason CloseReason) error {
	c.link.Lock()
	defer c.link.Unlock()
	a.world.frame.cork(c)
	if reason == Destroyed { // which one message says
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
	return a.closeOn(c, channel, []byte{byte(reason)})
}

// dismissAll ends all copies without a channel.
func (a *Actor) dismissAll(reason CloseReason) {
	for len(a.dormancy.asleep) > 0 {
		a.dismiss(a.dormancy.asleep[0], reason)
	}
}

// dismissOverdue ends the copies that wait for a channel, but for those that are open again.
func (c *Conn) dismissOverdue() {
	for c.usable() && len(c.shown.dismissals) > 0 {
		d := c.shown.dismissals[0]
		if d.actor.openingOn(c) == nil && !c.shown.sleeps(d.actor) && d.actor.openAndClose(c, d.reason) != nil {
			return
		}
		c.shown.dismissals = c.shown.dismissals[1:]
	}
}
