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

// Place makes an actor of b's class that both ends know from a level. Its name has 1 to 128
// printable bytes and is unique in the world. UE: an actor placed in a level.
//
// On the server, Place works like [Spawn], and the server itself owns the actor. The name
// of an actor that was destroyed or torn off cannot be used again, and Place returns
// ErrClosed for it. Every client that joins later is told all those names. A world may
// therefore place at most 262,144 names in its life, and Place returns an error beyond
// that. Use Spawn for an unlimited number of actors.
//
// On a client, after Connect, Place makes the client's copy of the actor ahead of the
// server's open message. Until that message arrives, the copy has no channel and no [Ref],
// and Server RPCs on it return ErrDormant. If the open message arrived first, Place returns
// the copy that the message made, and does not call set.
//
// If the server has destroyed the actor, Place returns ErrClosed on the client. A copy that was
// placed before ends when the client learns of the destruction: at once, or when it joins. Place
// the actors that exist from the beginning in OnConnect, before any open message can arrive.
//
// A client's copy stays when its channel closes for Relevancy or LevelUnloaded, and the next
// open message uses it again. The client may destroy a copy that has no channel, for instance
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
		a, err = b.world.placeHere(b.untyped.class, name, storeThen(&object, set), options)
	} else {
		a, err = b.world.placeCopy(b.untyped, name, storeThen(&object, set))
	}
	if err != nil {
		return nil, object, errorf("rpc: Place of a %q, %q: %w", b.untyped.class.name, name, err)
	}
	if a.own.object != nil {
		object = a.own.object.(T)
	}
	return a, object, nil
}

// validName reports whether name may be the name of a placed actor.
func validName(name string) bool {
	if name == "" || len(name) > maxNameBytes {
		return false
	}
	return !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
}

// placeHere places an actor on the server.
func (w *World) placeHere(class *Class, name string, set func(object any), options []SpawnOption) (*Actor, error) {
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

// placeCopy places an actor on a client.
func (w *World) placeCopy(b *binding, name string, set func(object any)) (*Actor, error) {
	a := w.actors.placed[name]
	switch {
	case a != nil && a.class != b.class:
		return nil, fmt.Errorf("%v has that name", a)
	case a != nil:
		return a, nil
	}
	for _, c := range w.announced {
		if c.copies.gonePlaced[name] {
			return nil, fmt.Errorf("the server has destroyed it: %w", ErrClosed)
		}
	}
	a = &Actor{world: w, class: b.class, own: part{binding: b}, name: name, dormancy: dormancy{on: true}}
	w.introduce(a)
	w.game.During(tasks.Doing{What: "the function given to Place for ", Of: a.class}, func() { set(a.own.object) })
	return a, nil
}

// keepsPlaced reports whether a client keeps its copy of a when the channel closes for
// reason. This is so only for placed actors.
func (a *Actor) keepsPlaced(reason CloseReason) bool {
	return a.name != "" && (reason == Relevancy || reason == LevelUnloaded)
}

// endPlacedCopies is called on the server when a placed actor is destroyed or torn off. It ends the
// copies that clients have placed themselves, and remembers the name for clients that join
// later. Clients for which the server opened the actor learn of it from the close instead.
func (a *Actor) endPlacedCopies() {
	w := a.world
	if a.name == "" {
		return
	}
	gone := &Actor{world: w, class: a.class, ref: a.ref, name: a.name, dead: true}
	w.actors.gonePlaced = append(w.actors.gonePlaced, gone)
	w.actors.placed[a.name] = gone
	for _, c := range w.announced {
		if a.openingOn(c) == nil && !c.shown.hasDetached(a) {
			gone.dismiss(c, Destroyed)
		}
	}
}

// tellGonePlaced tells a client that has just joined which placed actors are gone.
func (w *World) tellGonePlaced(c *Conn) {
	for _, a := range w.actors.gonePlaced {
		a.dismiss(c, Destroyed)
	}
}

// adopt returns the copy to which an open message gives a channel. This is a dormant copy, or
// a copy that this client has placed. It returns nil if the open message is for a new copy,
// and an error if the message contradicts the copy that exists.
func (w *World) adopt(c *Conn, message bunch.Message, o parsedOpen) (*Actor, *CloseError) {
	a := c.copies.byRef[o.ref]
	if placed := w.actors.placed[o.name]; a == nil && placed != nil && placed.conn == nil && !placed.tornOff {
		a = placed
	}
	if a != nil && (!a.dormancy.on || a.class != o.class || a.name != o.name) {
		return nil, violationf(PayloadFail, "open message on channel %d for a %v %q, but %v %q lives already: open %v, dormant %v, torn off %v",
			message.Channel, o.class, o.name, a, a.name, len(a.openings) > 0, a.dormancy.on, a.tornOff)
	}
	if a != nil && a.conn == nil {
		a.conn = c
		a.ref = o.ref
		c.copies.byRef[o.ref] = a
	}
	return a, nil
}
