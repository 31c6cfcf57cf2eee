package rpc

import (
	"fmt"
	"slices"
	"time"

	"github.com/quivernet/quiver/internal/codec"
)

// Actor is an object that both sides know: the server spawns it, clients for which it is open have a copy. Its methods
// belong to the world's goroutine.
type Actor struct {
	_ codec.Never `codec:"an actor can not be encoded; send a number of your own by which both ends know it"`

	world   *World
	class   *Class
	binding *binding // nil: nothing is bound here
	ref     Ref
	object  any // what the binding's constructor returned

	owner  *Conn      // server: the owning connection or nil; client: the server's connection
	owned  bool       // client: this side owns it
	opens  []*opening // where it is open; on a client the one channel to the server
	always bool
	dead   bool

	// Of its relevancy, on a server.
	rule      relevancyRule
	slot      int // in its slots
	onlyOwner bool
	asOwner   bool

	// Its states, once the object is there.
	replicas   []replica          // by state id; nil = not kept here
	conditions map[condition]bool // server: those that hold
	watched    bool               // server: in the world's replicator
	compared   time.Time          // server: when it was last looked at
	newest     []uint64           // client, by field: the packet that brought what it has
}

// CloseReason says why an actor's channel closed. The numbers are Unreal's (EChannelCloseReason).
type CloseReason uint8

const (
	// Destroyed: the server destroyed the actor.
	Destroyed CloseReason = 0
	// Relevancy: the actor lives on, but no longer for this client.
	Relevancy CloseReason = 3
	// Disconnected: the connection ended; never on the wire.
	Disconnected CloseReason = 255
)

func (r CloseReason) String() string {
	switch r {
	case Destroyed:
		return "Destroyed"
	case Relevancy:
		return "Relevancy"
	case Disconnected:
		return "Disconnected"
	}
	return fmt.Sprintf("CloseReason(%d)", uint8(r))
}

// SpawnOption is an option of [World.Spawn].
type SpawnOption func(*Actor)

// AlwaysRelevant opens the actor for every connection, present and future. One that can not take it, having no channel left or a
// smaller MaxBunch, goes without, and the log says so: what a peer does or asks for fails no Spawn for the others.
func AlwaysRelevant() SpawnOption { return func(a *Actor) { a.always = true } }

// Spawn makes an actor of b's class, owned by owner or by the server itself (nil), lets set, which may be nil, fill in the object that
// b's constructor returned, and opens the actor for its owner: the open carries the states as set leaves them. It returns the object
// too. When the owner's connection ends, the actors that it still owns after OnDisconnect are destroyed. UE: SpawnActorDeferred.
func Spawn[T any](b *Binding[T], owner *Conn, set func(object T), options ...SpawnOption) (*Actor, T, error) {
	var object T
	a, err := b.world.spawn(b.untyped.class, owner, options, func(made any) {
		if object = made.(T); set != nil {
			set(object)
		}
	})
	return a, object, err
}

// Spawn is [Spawn] for who needs not the object, or has bound nothing.
func (w *World) Spawn(class *Class, owner *Conn, options ...SpawnOption) (*Actor, error) {
	return w.spawn(class, owner, options, nil)
}

func (w *World) spawn(class *Class, owner *Conn, options []SpawnOption, set func(object any)) (*Actor, error) {
	switch {
	case !w.IsServer():
		return nil, fmt.Errorf("rpc: Spawn of a %q on a client: %w", class.name, ErrWrongRole)
	case !slices.Contains(w.table(), class):
		return nil, fmt.Errorf("rpc: Spawn of a %q: the class is neither bound nor in Config.Classes", class.name)
	case owner != nil && !owner.usable():
		return nil, fmt.Errorf("rpc: Spawn of a %q for %v: %w", class.name, owner, ErrClosed)
	}
	w.lastRef++
	a := &Actor{world: w, class: class, binding: w.bindings[class], ref: w.lastRef, owner: owner}
	for _, option := range options {
		option(a)
	}
	w.actorsByRef[a.ref] = a
	w.actors.Add(1)
	w.relevance.join(a)
	w.construct(a, set)
	if a.dead {
		return a, nil
	}
	if err := a.openToOwner(); err != nil {
		_ = w.Destroy(a)
		return nil, err
	}
	if a.always {
		w.always = append(w.always, a)
		w.openToAll(a)
	}
	return a, nil
}

// openToOwner opens a new actor for its owner. It refuses one for everybody whose state nobody could take.
func (a *Actor) openToOwner() error {
	if a.always {
		if _, err := a.openMessage(nil, a.world.config.maxBunch()); err != nil {
			return err
		}
	}
	owner := a.owner
	if owner == nil {
		return nil
	}
	owner.owned = append(owner.owned, a)
	err := a.OpenTo(owner)
	if err != nil {
		owner.disown(a)
	}
	return err
}

// construct makes the object of an actor that was spawned here. One whose constructor does not return ends everywhere, for
// nobody has it.
func (w *World) construct(a *Actor, set func(object any)) {
	if a.binding == nil {
		return
	}
	constructed := false
	defer func() {
		if !constructed {
			_ = w.Destroy(a)
		}
	}()
	a.object = a.binding.construct(a)
	if set != nil {
		w.during(activity{what: "the function given to Spawn for ", class: a.class}, func() { set(a.object) })
	}
	a.replicas = a.binding.replicasOf(a.object)
	a.firstLook()
	if a.rule == byGrid {
		w.during(activity{}, a.locate)
	}
	constructed = true
}

// openToAll opens an AlwaysRelevant actor for those who are here.
func (w *World) openToAll(a *Actor) {
	for _, c := range w.conns {
		if c.usable() {
			_ = w.openAlways(a, c)
		}
	}
}

// Destroy ends an actor everywhere. Calls on it return ErrClosed from now on; calls that were sent before still arrive.
func (w *World) Destroy(a *Actor) error {
	if !a.made() {
		return fmt.Errorf("rpc: Destroy of %s", noActor)
	}
	if !w.IsServer() {
		return fmt.Errorf("rpc: Destroy of a %q on a client: %w", a.class.name, ErrWrongRole)
	}
	if a.dead {
		return nil
	}
	for len(a.opens) > 0 {
		a.shut(len(a.opens)-1, Destroyed)
	}
	w.relevance.leave(a)
	if a.owner != nil {
		a.owner.disown(a)
	}
	if i := slices.Index(w.always, a); i >= 0 {
		w.always = slices.Delete(w.always, i, i+1)
	}
	a.end(Destroyed)
	return nil
}

// end marks the actor dead here and tells its object.
func (a *Actor) end(reason CloseReason) {
	if a.dead {
		return
	}
	a.dead, a.owned = true, false
	a.world.actors.Add(-1)
	a.world.unname(a)
	if object, ok := a.object.(interface{ OnClose(CloseReason) }); ok {
		a.world.during(activity{what: "OnClose of ", class: a.class}, func() { object.OnClose(reason) })
	}
}

// SetOwner gives the actor to another connection or to the server itself (nil), opens it for the new owner, and tells
// both clients.
func (w *World) SetOwner(a *Actor, owner *Conn) error {
	switch {
	case !a.made():
		return fmt.Errorf("rpc: SetOwner of %s", noActor)
	case !w.IsServer():
		return fmt.Errorf("rpc: SetOwner of a %q on a client: %w", a.class.name, ErrWrongRole)
	case a.dead:
		return fmt.Errorf("rpc: SetOwner of a %q: %w", a.class.name, ErrClosed)
	case owner != nil && !owner.usable():
		return fmt.Errorf("rpc: SetOwner of a %q to %v: %w", a.class.name, owner, ErrClosed)
	case a.owner == owner:
		return nil
	}
	previous := a.owner
	if previous != nil {
		previous.disown(a)
	}
	a.owner = owner
	for _, o := range a.opens {
		o.look()
	}
	if previous != nil {
		a.tellOwner(previous)
	}
	if owner == nil {
		return nil
	}
	owner.owned = append(owner.owned, a)
	if a.find(owner) >= 0 {
		return a.tellOwner(owner)
	}
	return a.OpenTo(owner)
}

// World returns the actor's world.
func (a *Actor) World() *World { return a.world }

// Class returns the actor's class.
func (a *Actor) Class() *Class { return a.class }

// Conn returns, on the server, the connection that owns the actor or nil; on a client the server's.
func (a *Actor) Conn() *Conn { return a.owner }

// Owned reports, on a client, whether this side owns the actor; on the server, whether any client does.
func (a *Actor) Owned() bool {
	if a.world.IsServer() {
		return a.owner != nil
	}
	return a.owned
}

// Alive reports whether the actor has neither been destroyed nor closed.
func (a *Actor) Alive() bool { return !a.dead }

// noActor is what errors call a value for which made is false.
const noActor = "a nil *Actor or an Actor{}: take the one that Spawn returned or that the constructor was given"

// made reports whether a world made the actor.
func (a *Actor) made() bool { return a != nil && a.world != nil }

// find returns the position of c among the openings, -1 when the actor is not open there.
func (a *Actor) find(c *Conn) int {
	return slices.IndexFunc(a.opens, func(o *opening) bool { return o.conn == c })
}
