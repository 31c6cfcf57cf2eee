package rpc

import (
	"fmt"
	"slices"
	"time"

	"github.com/quivernet/quiver/internal/logs"
)

// dormancy says whether an actor is dormant, and who has a copy of it without a channel.
type dormancy struct {
	on     bool    // server: SetDormant said so; client: the copy has no channel
	asleep []*Conn // server: connections whose client has a copy without a channel
	drowsy bool    // server: in World.drowsy

	// server: the next Flush compares the lists of the dormant actor, as it does its other states.
	flushLists bool
}

// SetDormant says whether the actor is dormant. The next Flush sends the state of a dormant actor with the close of its channels, and
// clients keep their copies as they are; for a client that does not have all items of its lists yet, or while a [Request] is open, a later
// Flush does. From then on the actor costs nothing at a tick, whatever the game changes in it. Clients for which it becomes relevant later
// get a dormant copy. When it wakes it opens for all clients that have a copy: the same object goes on there, gets the present state, and
// OnRep runs for what differs. Relevancy does not end a dormant copy: a client that goes away keeps the copies of all dormant actors
// that it has met, until they wake or are destroyed.
//
// A Client RPC or Multicast on a dormant actor wakes it until the next Flush for the clients that the call goes to, as
// [Actor.FlushDormancy] does for all. A Server RPC of its owner returns ErrDormant at the client. One that is on its way when the actor
// falls asleep is dropped at the server and counted in Drops.ActorClosed, and the client is not told: use a [Request], which ends with
// ErrDormant, or wake the actor first, by a call on an actor that is not dormant. SetOwner and Destroy reach dormant copies. Server only.
// UE: SetNetDormancy(DORM_DormantAll) and DORM_Awake.
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

// FlushDormancy makes the next Flush send the state of a dormant actor to all clients that have a copy. The actor stays dormant; call it
// before or after the changes. For an actor that is awake each Flush does so anyway. Server only. UE: FlushNetDormancy.
func (a *Actor) FlushDormancy() error {
	if err := a.mayChange("FlushDormancy"); err != nil {
		return err
	}
	a.openToSleepers(false)
	return nil
}

// Dormant reports, on the server, whether SetDormant made the actor dormant; on a client, whether its copy is. UE: NetDormancy.
func (a *Actor) Dormant() bool { return a.dormancy.on && !a.dead }

// untilFlush makes the next Flush send what the game has changed in a dormant actor, and close its channels again.
func (a *Actor) untilFlush() {
	a.dormancy.flushLists = true
	a.drowse()
}

// drowse makes the next Flush close the channels of a dormant actor.
func (a *Actor) drowse() {
	if !a.dormancy.drowsy {
		a.dormancy.drowsy = true
		a.world.drowsy = append(a.world.drowsy, a)
	}
}

// lull closes, in Flush, the channels of dormant actors that are still open.
func (w *World) lull() {
	drowsy := w.drowsy
	w.drowsy = nil
	for _, a := range drowsy {
		if a.dormancy.drowsy = false; a.dormancy.on && !a.dead {
			a.fallAsleep()
		}
	}
}

// fallAsleep closes the actor for those clients that have all of its lists, and no open request. The other states come with the close.
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

// sleepAt notes that the client of c has a copy without a channel, and why; wakeAt notes that it no longer has.
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

// restsAt reports whether the client has a dormant copy of an actor that is still dormant.
func (a *Actor) restsAt(c *Conn) bool {
	return a.dormancy.on && c.shown.sleeps(a) && c.shown.asleep[a] == Dormancy
}

// openToSleepers opens the actor for all clients that have a dormant copy; with all also for those whose placed copy has no channel.
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

// notOpened logs, at most once a second, that an actor could not be opened: a client without a channel left would fill the log.
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

// dismiss ends the copy that the client of c has without a channel: it opens a channel that names the copy, and closes it. While c has no
// channel left, the dismissal waits.
func (a *Actor) dismiss(c *Conn, reason CloseReason) {
	a.wakeAt(c)
	if !c.usable() {
		return
	}
	if err := a.openAndClose(c, reason); err != nil {
		c.shown.dismissals = append(c.shown.dismissals, dismissal{a, reason})
		a.notOpened(c, fmt.Errorf("its copy there must end, and waits for a channel: %w", err))
	}
}

// openAndClose opens a channel for the copy and closes it for that reason.
// openAndClose opens a channel for the copy and closes it for that reason.
func (a *Actor) openAndClose(c *Conn, reason CloseReason) error {
	c.link.Lock()
	defer c.link.Unlock()
	a.world.frame.cork(c)
	if reason == Destroyed { // one message that opens and closes says it
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

// dismissAll ends all copies that have no channel, because the actor is destroyed.
func (a *Actor) dismissAll() {
	for len(a.dormancy.asleep) > 0 {
		a.dismiss(a.dormancy.asleep[0], Destroyed)
	}
}

// dismissOverdue ends the copies that wait for a channel, except those that have one again.
func (c *Conn) dismissOverdue() {
	for c.usable() && len(c.shown.dismissals) > 0 {
		d := c.shown.dismissals[0]
		if d.actor.openingOn(c) == nil && !c.shown.sleeps(d.actor) && d.actor.openAndClose(c, d.reason) != nil {
			return
		}
		c.shown.dismissals = c.shown.dismissals[1:]
	}
}
