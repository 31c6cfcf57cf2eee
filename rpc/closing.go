package rpc

import "fmt"

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

// OnClose makes fn run when an actor of the class has ended here, once for each object and as the last that it hears: on the server
// when it is destroyed, on a client when its copy ends. The actor is no longer alive by then, and Call and the bindings do not know it
// any more. It panics when there is a function already. UE: EndPlay.
func OnClose[T any](b *Binding[T], fn func(object T, why CloseReason)) {
	switch {
	case fn == nil:
		panic(fmt.Sprintf("rpc: OnClose(%v): no function", b.untyped.class))
	case b.untyped.onClose != nil:
		panic(fmt.Sprintf("rpc: OnClose(%v): it has a function already", b.untyped.class))
	}
	b.untyped.onClose = func(object any, why CloseReason) { fn(object.(T), why) }
}

// end marks the actor dead here and tells its object.
func (a *Actor) end(reason CloseReason) {
	if a.dead {
		return
	}
	w := a.world
	a.dead, a.owned = true, false
	w.actors.Add(-1)
	w.unname(a)
	w.roster.remove(a)
	if a.binding == nil {
		return
	}
	a.binding.actors.remove(a)
	if a.object != nil && a.binding.onClose != nil {
		w.during(activity{what: "OnClose of ", class: a.class}, func() { a.binding.onClose(a.object, reason) })
	}
}
