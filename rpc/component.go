package rpc

import "fmt"

// NewComponent declares a component that every actor of class has: a *Class for handles, states and [Bind], whose calls and states
// travel on the actor's channel, in order with the actor's own. Its name is that of the actor's class, a dot and name, which is its own
// there. Calls name the actor: Buy.Call(actor, offer) runs on the object that the component's constructor made for that actor; Of and
// All of its binding find it, OnClose, OnOwner and OnTearOff run for it, too, after the actor's. Either end may leave the
// component, or the actor's own class, unbound. Components are made with the actor, after its own object and in the order of their
// declaration, and end with it: none comes or goes by itself. It panics when class is a component, or a world uses it already. UE: a
// default subobject that is a replicated UActorComponent; subobjects added at run time have no counterpart.
func NewComponent(class *Class, name string) *Class {
	mustName("component", name)
	switch {
	case class.actor != nil:
		panic(fmt.Sprintf("rpc: NewComponent(%s, %q): a component has no components", class.name, name))
	case class.closed.Load():
		panic(fmt.Sprintf("rpc: NewComponent(%s, %q) after a world began to use the class; declare it in a package variable", class.name, name))
	}
	c := &Class{name: class.name + "." + name, actor: class, slot: len(class.components)}
	for _, other := range class.components {
		if other.name == c.name {
			panic(fmt.Sprintf("rpc: class %s declares component %s twice", class.name, name))
		}
	}
	class.components = append(class.components, c)
	return c
}

// root returns the class of the actors: of a component the one that has it.
func (c *Class) root() *Class {
	if c.actor != nil {
		return c.actor
	}
	return c
}

// part is one object of an actor, its own or a component's.
type part struct {
	binding *binding
	object  any
}

func (p part) bound() bool { return p.binding != nil && p.object != nil }

// part returns the object of a class, the actor's or a component's.
func (a *Actor) part(c *Class) part {
	switch {
	case c == a.class:
		return part{a.binding, a.object}
	case c.actor == a.class && c.slot < len(a.components):
		return a.components[c.slot]
	}
	return part{}
}

// parts goes through the objects of the actor, its own first.
func (a *Actor) parts(yield func(part) bool) {
	if own := (part{a.binding, a.object}); own.bound() && !yield(own) {
		return
	}
	for _, p := range a.components {
		if p.bound() && !yield(p) {
			return
		}
	}
}

// furnish makes the objects of the actor.
func (a *Actor) furnish() {
	if a.binding != nil {
		a.object = a.binding.construct(a)
		a.list()
	}
	if len(a.class.components) == 0 {
		return
	}
	a.components = make([]part, len(a.class.components))
	for slot, class := range a.class.components {
		if b := a.world.bindings[class]; b != nil {
			a.components[slot] = part{b, b.construct(a)}
		}
	}
}

// mirror makes the replicas of the actor's objects.
func (a *Actor) mirror() {
	if len(a.class.states) == 0 {
		return
	}
	a.replicas = make([]replica, len(a.class.states))
	for p := range a.parts {
		p.binding.replicate(p.object, a.replicas)
	}
}
