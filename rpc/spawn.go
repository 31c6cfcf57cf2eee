package rpc

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/quivernet/quiver/internal/bell"
	"github.com/quivernet/quiver/internal/shape"
	"github.com/quivernet/quiver/internal/tasks"
)

// A SpawnOption is an option of [Spawn], [World.Spawn] or [Place].
type SpawnOption func(*Actor)

// AlwaysRelevant opens the actor for every connection, present and future.
//
// The actor can't open for a connection that has no free channel, whose MaxBunch is too small, or
// that has reached Config.SendLimit. Spawn logs this but doesn't fail, because the peer is to
// blame.
func AlwaysRelevant() SpawnOption { return func(a *Actor) { a.relevancy.always = true } }

// OnlyRelevantToOwner opens the actor for its owner only. No other client sees it, however near,
// unless the game makes it the client's view (see [Conn.SetView]). Its class needs neither At nor
// Relevant. SetOwner closes the previous owner's copy. Spawn returns an error if AlwaysRelevant is
// also set.
//
// UE (Unreal Engine's counterpart): bOnlyRelevantToOwner. In Unreal, the previous owner's copy
// closes only after RelevantTimeout, and receives nothing until then.
func OnlyRelevantToOwner() SpawnOption { return func(a *Actor) { a.relevancy.onlyOwner = true } }

// RelevantAsOwner makes an actor relevant to the same connections as its owner. A weapon, for
// instance, is relevant to everyone who sees the pawn that carries it.
//
// The actor follows another actor, whose position and cull distance it uses. If an actor owns it,
// it follows that actor, or the one that its owner follows. If a connection owns it, it follows the
// connection's view actor (see [Conn.SetView]). If the followed actor is AlwaysRelevant, all
// connections that have a view see both. Any copy, even a previous owner's, closes 5 s after its
// client last saw the followed actor.
//
// If there is no actor to follow, or if the followed actor is OnlyRelevantToOwner or its class has
// [Relevant], only the owner has a copy, and SetOwner closes the previous owner's.
//
// While the server itself owns the actor, its position comes from the [At] of its own class. If
// the class has no At, no connection has the actor.
//
// UE: bNetUseOwnerRelevancy, RelevantTimeout.
func RelevantAsOwner() SpawnOption { return func(a *Actor) { a.relevancy.asOwner = true } }

// applyOptions applies the options of Spawn and checks that they are compatible.
func (a *Actor) applyOptions(options []SpawnOption) error {
	for i, option := range options {
		if option == nil {
			return fmt.Errorf("rpc: Spawn of a %q: option %d is nil", a.class.name, i+1)
		}
		option(a)
	}
	if a.relevancy.always && a.relevancy.onlyOwner {
		return fmt.Errorf("rpc: Spawn of a %q: AlwaysRelevant and OnlyRelevantToOwner cannot be combined", a.class.name)
	}
	return nil
}

// Spawn makes an actor of b's class and returns it with its object. If owner is nil, the server
// itself owns the actor. UE: SpawnActorDeferred.
//
// Spawn first calls b's constructor and passes the new object to set, unless set is nil. Only
// then does it open the actor for the connection that owns it, so the open already carries the
// states as set leaves them. If a state exceeds a bound, Spawn destroys the actor and returns an
// error that names the field.
//
// Don't call clients before Spawn returns. If the constructor or set calls a client or OpenTo, the
// actor opens early and without its states, which then arrive before or after calls in no
// particular order.
//
// If the owner's connection is closing, Spawn makes nothing and returns [ErrClosed]. Since the
// connection's actors still exist until OnDisconnect has run, a game that spawns further actors for
// them in a tick, such as a pawn for a controller, must expect this error whenever a player leaves.
//
// Spawn also returns ErrClosed if the world is closed, or if the constructor or set has destroyed
// the actor.
//
// After OnDisconnect, the actors that the connection owns are destroyed, along with everything
// that they own in turn. To keep an actor, give it to another owner in OnDisconnect by calling
// [World.SetOwner]. Unreal destroys only the controller and its pawn.
func Spawn[T any](b *Binding[T], owner Owner, set func(object T), options ...SpawnOption) (*Actor, T, error) {
	var object T
	a, err := b.world.spawn(b.untyped.class, owner, options, storeThen(&object, set))
	return a, object, err
}

// storeThen returns a set function for spawn that stores the new object in *object and then
// passes it to set. set may be nil.
func storeThen[T any](object *T, set func(T)) func(any) {
	return func(made any) {
		*object = made.(T)
		if set != nil {
			set(*object)
		}
	}
}

// Spawn is like the function [Spawn], for callers that don't need the object, or that have bound no
// constructor.
func (w *World) Spawn(class *Class, owner Owner, options ...SpawnOption) (*Actor, error) {
	return w.spawn(class, owner, options, nil)
}

// spawn implements both Spawns. If set isn't nil, it is called with the object that the
// constructor returned, before the actor opens for any connection.
func (w *World) spawn(class *Class, to Owner, options []SpawnOption, set func(object any)) (*Actor, error) {
	w.mustBeInside("Spawn", nil)
	owner, conn := chainEndsOf(to)
	switch {
	case class == nil:
		return nil, errors.New("rpc: Spawn of a nil *Class: use the one that NewClass returned")
	case !w.IsServer():
		return nil, errOnClient(fmt.Sprintf("Spawn of a %q", class.name))
	case bell.Closed(w.lobby.shut):
		return nil, errorf("rpc: Spawn of a %q in a closed world: %w", class.name, ErrClosed)
	case !slices.Contains(w.table.all(), class):
		return nil, fmt.Errorf("rpc: Spawn of a %q: class is neither bound nor in Config.Classes", class.name)
	}
	if err := w.checkOwner(nil, owner, conn); err != nil {
		return nil, errorf("rpc: Spawn of a %q: %w", class.name, err)
	}
	a := &Actor{world: w, class: class, own: part{binding: w.bindings[class]}, conn: conn}
	if err := a.applyOptions(options); err != nil {
		return nil, err
	}

	// From here on, the actor is alive. Its constructor may make calls on it, open it, tear it off,
	// and even destroy it.
	w.actors.assignRef(a)
	a.joinOwner(owner, conn)
	w.actors.add(a)
	w.relevance.add(a)
	err := w.construct(a, set)
	switch {
	case a.dead:
		return nil, errorf("rpc: Spawn of a %q: its constructor, or the function given to Spawn, destroyed it: %w",
			class.name, ErrClosed)
	case a.tornOff && err == nil:
		return a, nil
	}

	// Open the actor for its owner and, if it's AlwaysRelevant, for everybody.
	if err == nil && a.relevancy.always {
		// First make sure that its states fit into an open message.
		_, err = a.openMessage(nil, w.config.Bunch.MaxBunch, nil)
	}
	if err == nil && a.conn != nil && !a.conn.life.mayJoin() {
		err = a.ensureOpen(a.conn) // a no-op if the constructor has opened it
	}
	if err != nil {
		_ = w.Destroy(a)
		return nil, err
	}
	if a.relevancy.always {
		w.actors.addAlways(a)
		w.openToAll(a)
	}
	a.relevancy.fresh = true
	return a, nil
}

// construct makes the objects of an actor that was spawned here. It returns an error if one
// of their states can't be encoded.
func (w *World) construct(a *Actor, set func(object any)) error {
	constructed := false
	defer func() {
		if !constructed {
			// A constructor has panicked, so Spawn won't return and nobody else could destroy the
			// actor.
			_ = w.Destroy(a)
		}
	}()
	a.makeObjects()
	if set != nil {
		doing := tasks.Doing{What: "the function given to Spawn for ", Of: a.class}
		w.game.During(doing, func() { set(a.own.object) })
	}
	a.makeReplicas()
	err := a.encodeFirst()
	if a.relevancy.rule == byGrid {
		w.game.During(tasks.Doing{}, a.locate)
	}
	constructed = true
	return err
}

// openToAll opens an AlwaysRelevant actor for all connections.
func (w *World) openToAll(a *Actor) {
	for _, c := range w.announced {
		if c.usable() {
			_ = a.tryOpen(c)
		}
	}
}

// Place makes an actor of b's class that is part of a level, where both ends know it by name. The
// name has 1 to 128 printable bytes and is unique in the world. UE: an actor placed in a level.
//
// On the server, Place works like [Spawn], and the server itself owns the actor. Once an actor
// has been destroyed or torn off, Place returns ErrClosed for its name, which can't be used again.
// Since every client that joins later has to be told all of these names, a world can place at most
// 262,144 actors in its lifetime, after which Place returns an error. Spawn has no such limit.
//
// On a client, after Connect, Place makes the client's copy of the actor ahead of the server's
// open message. Until that message arrives, the copy has neither a channel nor a [Ref], and
// Server RPCs on it return ErrDormant. If the open message has already arrived, Place returns the
// copy that the message has made, and doesn't call set.
//
// If the server has destroyed the actor, Place returns ErrClosed on the client. A copy that the
// client has placed ends when the server tells the client, which is immediately or when the client
// joins. To place actors before any open message arrives, place them in OnConnect.
//
// A client's copy stays when its channel closes for Relevancy or LevelUnloaded, and gets the
// channel of the next open message. While a copy has no channel, the client may destroy it, for
// instance when it unloads the level. A copy that ever had a channel ends with its connection.
func Place[T any](b *Binding[T], name string, set func(object T), options ...SpawnOption) (*Actor, T, error) {
	var object T
	if !validName(name) {
		return nil, object, fmt.Errorf("rpc: Place of a %q: name %q must have 1 to %d printable bytes",
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

// validName reports whether a placed actor may have the name.
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
		return nil, errorf("actor of that name was destroyed or torn off: use another name, or Spawn: %w", ErrClosed)
	}
	if len(w.actors.placed) >= maxDetached {
		return nil, fmt.Errorf("world has placed %d actors, which is the limit: use Spawn", maxDetached)
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
			return nil, errorf("server has destroyed the actor: %w", ErrClosed)
		}
	}

	// Without a channel, the copy is like a dormant copy.
	a = &Actor{world: w, class: b.class, own: part{binding: b}, name: name, dormancy: dormancy{on: true}}
	w.introduce(a)
	w.game.During(tasks.Doing{What: "the function given to Place for ", Of: a.class}, func() { set(a.own.object) })
	return a, nil
}

// endPlacedCopies is called on the server when an actor is destroyed or torn off. If the actor is
// placed, its name can't be used again, and all clients must be told, including those that join
// later, because they may have placed a copy that the server hasn't opened. Clients for which the
// actor is open learn it from the close instead.
func (a *Actor) endPlacedCopies() {
	w := a.world
	if a.name == "" {
		return
	}

	// Leave a stand-in in its place, because the actor itself is still alive if it was torn off.
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
