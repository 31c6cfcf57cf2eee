package rpc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/quivernet/quiver/bunch"
)

// flagOwned in an open or owner message: the receiver owns the actor. The other bits must be zero.
const flagOwned = 1

// minClosed actors that closed may be remembered at any time.
const minClosed = 64

// OpenTo opens the actor for c, if it is not open there: its state and the calls from now on reach c. When c may still have
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
	message, err := a.openMessage(a.ownerFlags(c), c.maxBunch)
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
	a.opens = append(a.opens, &opening{conn: c, channel: channel, reliable: 1})
	c.setChannel(channel, a)
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

// openMessage is the first message on an actor's channel: class id, flags, state; at most so many bytes.
func (a *Actor) openMessage(flags byte, most int) ([]byte, error) {
	id := slices.Index(a.world.table(), a.class)
	message := binary.AppendUvarint(nil, uint64(id))
	message = append(message, flags)
	if a.state == nil {
		return message, nil
	}
	message, err := AppendValue(message, a.state)
	switch {
	case err != nil:
		return nil, fmt.Errorf("rpc: state of a %q: %w", a.class.name, err)
	case len(message) > most:
		return nil, fmt.Errorf("rpc: the state of a %q makes an open message of %d bytes, the limit is Config.Bunch.MaxBunch, %d: %w",
			a.class.name, len(message), most, bunch.ErrBunchTooLarge)
	}
	return message, nil
}

func (a *Actor) ownerFlags(c *Conn) byte {
	if a.owner == c {
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
	a.opens = slices.Delete(a.opens, i, i+1)
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
	case m.Payload[n]&^flagOwned != 0:
		return violationf(PayloadFail, "open message on channel %d has flags %#x", m.Channel, m.Payload[n])
	}
	class := classes[id]
	c.setPriority(m.Channel, class.priority)
	a := &Actor{world: w, class: class, binding: w.bindings[class], owner: c, owned: m.Payload[n]&flagOwned != 0}
	a.initial = m.Payload[n+1:]
	defer func() { a.initial = nil }() // it is charged no more, and could be 64 KiB for each of 32,767 channels
	a.opens = []*opening{{conn: c, channel: m.Channel}}
	c.setChannel(m.Channel, a)
	w.actors.Add(1)
	if m.Close {
		defer w.closeActor(c, a, bunch.Message{Channel: m.Channel}) // also when the constructor panics
	}
	if a.binding != nil {
		a.object = a.binding.construct(a)
	}
	return nil
}

// closeActor ends, on a client, an actor whose channel the server closed.
func (w *World) closeActor(c *Conn, a *Actor, m bunch.Message) {
	reason := Destroyed
	if len(m.Payload) > 0 {
		reason = CloseReason(m.Payload[0])
	}
	c.setChannel(m.Channel, nil)
	a.opens = nil
	a.end(reason)
}

// takeOwner applies an owner message on a client.
func (a *Actor) takeOwner(payload []byte) *CloseError {
	if len(payload) != 1 || payload[0]&^flagOwned != 0 {
		return violationf(PayloadFail, "owner message of %d bytes for a %q", len(payload), a.class.name)
	}
	a.owned = payload[0] == flagOwned
	return nil
}

// ownerMessage is how errors name the owner message.
var ownerMessage = &method{class: &Class{name: "Actor"}, name: "SetOwner", delivery: bunch.Reliable}
