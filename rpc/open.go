package rpc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/quivernet/quiver/bunch"
)

// Flags of an open message. An owner message has the first only. The other bits must be zero.
const (
	flagOwned = 1 << iota // the receiver owns the actor
	flagState             // states follow
)

// minClosed actors that closed may be remembered at any time.
const minClosed = 64

// OpenTo opens the actor for c, if it is not open there: its states and the calls from now on reach c. When c may still have
// an earlier copy, because CloseTo was called only a round trip ago, all of it waits until c is known to have ended that one.
// Server only.
func (a *Actor) OpenTo(c *Conn) error {
	switch {
	case !a.world.IsServer():
		return fmt.Errorf("rpc: OpenTo of a %q on a client: %w", a.class.name, ErrWrongRole)
	case a.dead || !c.usable():
		return fmt.Errorf("rpc: OpenTo of a %q for %v: %w", a.class.name, c, ErrClosed)
	case a.find(c) >= 0:
		return nil
	}
	message, err := a.openMessage(c, c.maxBunch)
	if err != nil {
		return err
	}
	c.link.Lock()
	a.world.cork(c)
	channel, err := a.openOn(c, message)
	c.link.Unlock()
	if err != nil {
		return fmt.Errorf("rpc: OpenTo of a %q for %v: %w", a.class.name, c, err)
	}
	a.opens = append(a.opens, &opening{actor: a, conn: c, channel: channel, reliable: 1, sees: a.fieldsFor(c), since: a.world.now})
	c.setChannel(channel, a)
	a.world.watch(a)
	return nil
}

// openOn is called under the link's lock. A message that can not be sent must not leave an open channel behind.
func (a *Actor) openOn(c *Conn, message []byte) (channel uint64, err error) {
	if channel, err = c.machine.Open(a.class.priority); err != nil {
		return 0, err
	}
	if earlier, ok := c.closed[a]; ok {
		delete(c.closed, a)
		if err = c.machine.After(channel, earlier); err != nil {
			return channel, errors.Join(err, c.machine.Close(channel, nil))
		}
	}
	if err = c.machine.Send(channel, bunch.Reliable, message); err != nil {
		err = errors.Join(err, c.machine.Close(channel, nil))
	}
	return channel, err
}

// openMessage is the first message on an actor's channel for c: class id, flags, number of the actor, states; at most so many bytes.
func (a *Actor) openMessage(c *Conn, most int) ([]byte, error) {
	a.compareAll()
	id := slices.Index(a.world.table(), a.class)
	flags, fields := a.ownerFlags(c), a.fieldsFor(c)|a.initialFields()
	if fields != 0 {
		flags |= flagState
	}
	message := append(binary.AppendUvarint(nil, uint64(id)), flags)
	message = binary.AppendUvarint(message, uint64(a.ref))
	if fields != 0 {
		message = a.appendFields(message, fields)
	}
	if len(message) > most {
		return nil, fmt.Errorf("rpc: the states of a %q make an open message of %d bytes, the limit is Config.Bunch.MaxBunch, %d: %w",
			a.class.name, len(message), most, bunch.ErrBunchTooLarge)
	}
	return message, nil
}

func (a *Actor) ownerFlags(c *Conn) byte {
	if c != nil && a.owner == c {
		return flagOwned
	}
	return 0
}

// tellOwner sends a client that has the actor whether it owns it.
func (a *Actor) tellOwner(c *Conn) error {
	i := a.find(c)
	if i < 0 || !c.usable() {
		return nil
	}
	return a.send(a.opens[i], ownerMessage, append(binary.AppendUvarint(nil, ownerMethod), a.ownerFlags(c)))
}

// CloseTo closes the actor for c: there it ends with reason Relevancy; it opens again with OpenTo, or with the first
// call that is for c. Server only.
func (a *Actor) CloseTo(c *Conn) {
	if i := a.find(c); i >= 0 && a.world.IsServer() {
		a.shut(i, Relevancy)
	}
}

// shut closes one opening of the actor.
func (a *Actor) shut(i int, reason CloseReason) {
	o := a.opens[i]
	a.forget(i)
	o.conn.setChannel(o.channel, nil)
	if !o.conn.usable() {
		return
	}
	o.conn.link.Lock()
	a.world.cork(o.conn)
	err := o.conn.machine.Close(o.channel, []byte{byte(reason)})
	if err == nil && reason != Destroyed {
		o.conn.noteClosed(a, o.channel)
	}
	o.conn.link.Unlock()
	if err != nil {
		a.world.log.Warn("channel not closed", "conn", o.conn, "actor", a.class.name, "channel", o.channel, "error", err)
	}
}

// forget takes one opening off the actor's list.
func (a *Actor) forget(i int) {
	a.opens[i].closed = true
	a.opens = slices.Delete(a.opens, i, i+1)
	if len(a.opens) == 0 {
		a.world.unwatch(a)
	}
}

// noteClosed remembers the channel of an actor that may open again, until the client has ended its copy at the latest twice
// as many have closed. It is called under the link's lock.
func (c *Conn) noteClosed(a *Actor, channel uint64) {
	if len(c.closed) >= c.closedLimit {
		for other, number := range c.closed {
			if out, _ := c.machine.Reliable(number); out == 0 {
				delete(c.closed, other)
			}
		}
		c.closedLimit = max(minClosed, 2*len(c.closed))
	}
	c.closed[a] = channel
}

// openActor makes, on a client, the actor that the server opened.
func (w *World) openActor(c *Conn, m bunch.Message) *CloseError {
	classes := w.table()
	id, n := binary.Uvarint(m.Payload)
	switch {
	case n <= 0 || n == len(m.Payload):
		return violationf(PayloadFail, "open message of %d bytes on channel %d is too short", len(m.Payload), m.Channel)
	case id >= uint64(len(classes)):
		return violationf(UnknownClass, "open message on channel %d names class %d of %d", m.Channel, id, len(classes))
	}
	flags := m.Payload[n]
	ref, k := binary.Uvarint(m.Payload[n+1:])
	if k <= 0 || ref == 0 || flags&^(flagOwned|flagState) != 0 {
		return violationf(PayloadFail, "open message on channel %d has flags %#x and names actor %d", m.Channel, flags, ref)
	}
	class := classes[id]
	c.setPriority(m.Channel, class.priority)
	a := &Actor{world: w, class: class, binding: w.bindings[class], ref: Ref(ref), owner: c, owned: flags&flagOwned != 0}
	a.opens = []*opening{{actor: a, conn: c, channel: m.Channel}}
	c.setChannel(m.Channel, a)
	c.actorsByRef[a.ref] = a
	w.actors.Add(1)
	w.roster.add(a)
	if m.Close {
		defer w.closeActor(c, a, bunch.Message{Channel: m.Channel}) // also when the constructor panics
	}
	if a.binding != nil {
		a.object = a.binding.construct(a)
		a.list()
		a.replicas = a.binding.replicasOf(a.object)
	}
	a.newest = make([]uint64, class.fields)
	if violation := w.firstState(c, a, m.Payload[n+1+k:], flags&flagState != 0); violation != nil {
		return violation
	}
	w.tellReferrers(c, a.ref)
	w.runWaiting(c)
	return nil
}

// firstState takes, on a client, the states that came with an open.
func (w *World) firstState(c *Conn, a *Actor, b []byte, some bool) *CloseError {
	if !some {
		if len(b) > 0 {
			return violationf(PayloadFail, "open message of %v: %d bytes left over", a, len(b))
		}
		return nil
	}
	violation := w.applyUpdate(c, a, bunch.Message{Payload: b})
	if violation == nil {
		w.tellReps(c)
	}
	return violation
}

// closeActor ends, on a client, an actor whose channel the server closed.
func (w *World) closeActor(c *Conn, a *Actor, m bunch.Message) {
	reason := Destroyed
	if len(m.Payload) > 0 {
		reason = CloseReason(m.Payload[0])
	}
	c.setChannel(m.Channel, nil)
	a.opens = nil
	a.unfile(c)
	a.end(reason)
	w.tellReferrers(c, a.ref)
}

// takeOwner applies an owner message on a client.
func (a *Actor) takeOwner(payload []byte) *CloseError {
	if len(payload) != 1 || payload[0]&^flagOwned != 0 {
		return violationf(PayloadFail, "owner message of %d bytes for a %q", len(payload), a.class.name)
	}
	if owned := payload[0] == flagOwned; a.owned != owned {
		a.owned = owned
		a.ownerChanged()
	}
	return nil
}

// ownerMessage is how errors name the owner message.
var ownerMessage = &method{class: &Class{name: "Actor"}, name: "SetOwner", delivery: bunch.Reliable}
