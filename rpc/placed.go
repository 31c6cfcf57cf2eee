package rpc

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/shape"
	"github.com/quivernet/quiver/internal/tasks"
)

// Place makes an actor of b's class that is part of a level, where both ends know it by name. The
// name has 1 to 128 printable bytes and is unique in the world. UE: an actor placed in a level.
//
// On the server, Place works like [Spawn], and the server itself owns the actor. Once an actor
// has been destroyed or torn off, its name can't be used again, and Place returns ErrClosed for
// it. Every client that joins later has to be told all of these names. Therefore a world can
// place at most 262,144 actors in its lifetime. After that, Place returns an error. There is no
// such limit for Spawn.
//
// On a client, after Connect, Place makes the client's copy of the actor ahead of the server's
// open message. Until that message arrives, the copy has neither a channel nor a [Ref], and
// Server RPCs on it return ErrDormant. If the open message has already arrived, Place returns the
// copy that the message has made, and does not call set.
//
// If the server has destroyed the actor, Place returns ErrClosed on the client. A copy that was
// placed earlier ends as soon as the server tells the client, which is immediately or when the
// client joins. To place actors that exist from the beginning ahead of any open message, place
// them in OnConnect.
//
// A client's copy stays when its channel closes for Relevancy or LevelUnloaded, and is used again
// by the next open message. While a copy has no channel, the client may destroy it, for instance
// when it unloads the level. A copy that ever had a channel ends with its connection.
func Place[T any](b *Binding[T], name string, set func(object T), options ...SpawnOption) (*Actor, T, error) {
	var object T
	if !validName(name) {
		return nil, object, fmt.Errorf("rpc: Place of a %q: the name %q must have 1 to %d printable bytes",
			b.untyped.class.name, shape.Clip(name), maxNameBytes)
	}
	var a *Actor
	var err error
	if b.world.IsServer() {
		a, err = b.world.placeOnServer(b.untyped.class, name, storeThen(&object, set), options)
	} else {
		a, err = b.world.placeOnClient(b.untyped, name, storeThen(&object, set))
	}
	if err != nil {
		return nil, object, errorf("rpc: Place of a %q, %q: %w", b.untyped.class.name, name, err)
	}
	if a.own.object != nil {
		object = a.own.object.(T)
	}
	return a, object, nil
}

// validName reports whether a placed actor may have that name.
func validName(name string) bool {
	if name == "" || len(name) > maxNameBytes {
		return false
	}
	return !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
}

// placeOnServer is Place on the server.
func (w *World) placeOnServer(class *Class, name string, set func(object any), options []SpawnOption) (*Actor, error) {
	other := w.actors.placed[name]
	switch {
	case other != nil && !other.dead:
		return nil, fmt.Errorf("%v has that name", other)
	case other != nil:
		return nil, fmt.Errorf("the actor of that name was destroyed, which its clients know for good; Spawn one: %w", ErrClosed)
	}
	if len(w.actors.placed) >= maxDetached {
		return nil, fmt.Errorf("as many as %d actors were placed already, which each client must know for good; Spawn one", maxDetached)
	}
	options = append(slices.Clip(options), func(a *Actor) { a.name = name })
	return w.spawn(class, nil, options, set)
}

// placeOnClient is Place on a client.
func (w *World) placeOnClient(b *binding, name string, set func(object any)) (*Actor, error) {
	a := w.actors.placed[name]
	switch {
	case a != nil && a.class != b.class:
		return nil, fmt.Errorf("%v has that name", a)
	case a != nil:
		// The server's open message, or an earlier call of Place, has made the copy.
		return a, nil
	}
	for _, c := range w.announced {
		if c.copies.gonePlaced[name] {
			return nil, fmt.Errorf("the server has destroyed it: %w", ErrClosed)
		}
	}

	// Without a channel, the copy is like a dormant copy.
	a = &Actor{world: w, class: b.class, own: part{binding: b}, name: name, dormancy: dormancy{on: true}}
	w.introduce(a)
	w.game.During(tasks.Doing{What: "the function given to Place for ", Of: a.class}, func() { set(a.own.object) })
	return a, nil
}

// keepsPlaced reports whether a is placed and clients keep their copies of it when its channel
// closes for that reason.
func (a *Actor) keepsPlaced(reason CloseReason) bool {
	return a.name != "" && (reason == Relevancy || reason == LevelUnloaded)
}

// endPlacedCopies is called on the server when an actor is destroyed or torn off. If the actor is
// placed, its name is gone for good. All clients must be told, including clients that join later,
// because they may have or make a copy that the server hasn't opened. Clients for which the actor
// is open will learn it from the close.
func (a *Actor) endPlacedCopies() {
	w := a.world
	if a.name == "" {
		return
	}

	// The actor itself may still be alive, if it was torn off, so leave a stand-in in its place.
	gone := &Actor{world: w, class: a.class, ref: a.ref, name: a.name, dead: true}
	w.actors.gonePlaced = append(w.actors.gonePlaced, gone)
	w.actors.placed[a.name] = gone
	for _, c := range w.announced {
		if a.openingOn(c) == nil && !c.shown.hasDetached(a) {
			gone.dismiss(c, Destroyed)
		}
	}
}

// tellGonePlaced tells a client that has just joined which placed actors no longer exist.
func (w *World) tellGonePlaced(c *Conn) {
	for _, a := range w.actors.gonePlaced {
		a.dismiss(c, Destroyed)
	}
}

// adopt returns the existing copy that gets the channel of an open message. Such a copy is either
// dormant, or this client has placed it. If adopt returns nil, the message is for a new copy. An
// error means that the message contradicts the existing copy.
func (w *World) adopt(c *Conn, message bunch.Message, o parsedOpen) (*Actor, *CloseError) {
	a := c.copies.byRef[o.ref]
	placed := w.actors.placed[o.name]
	if a == nil && placed != nil && placed.conn == nil && !placed.tornOff {
		a = placed
	}
	switch {
	case a == nil:
		return nil, nil
	case !a.dormancy.on || a.class != o.class || a.name != o.name:
		return nil, violationf(PayloadFail, "open message on channel %d for a %v %q, but %v %q lives already: open %v, dormant %v, torn off %v",
			message.Channel, o.class, o.name, a, a.name, len(a.openings) > 0, a.dormancy.on, a.tornOff)
	case a.conn == nil:
		// We've placed this copy, and this is the first time that the server opens it.
		a.conn = c
		a.ref = o.ref
		c.copies.byRef[o.ref] = a
	}
	return a, nil
}
