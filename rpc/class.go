package rpc

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/state"
)

// Limits of a declaration.
const (
	maxNameBytes = 128     // of a class, a method or a list: they travel in the shape and in close reasons
	maxMethods   = 1 << 14 // a class: a method's index takes at most two bytes on the wire
)

// Class is the protocol of one kind of actor: which calls it has, in which direction and how they travel. It is
// declared once, in a package that client and server share, and bound to behaviour on each side with [Bind].
// Declare a class and its methods in package variables: a class is closed once a world uses it.
type Class struct {
	name     string
	priority bunch.Priority
	methods  []*method
	states   []*declaredState
	fields   int // of all states, a list being one
	lists    int
	declarer string // the function that adds it to a world, such as "stream.Install": see guest.DeclaredBy

	updatePeriod   time.Duration // between two looks at an actor's states at least
	updatePriority float64
	cullDistance   float32

	actor      *Class   // of a component: the class that has it, which holds its methods and states
	slot       int      // of a component: among those of the class
	components []*Class // in the order of their declaration

	closed atomic.Bool // a world uses it: no more methods
}

// ClassOption adjusts a class where it is declared.
type ClassOption func(*Class)

// UpdateRate bounds how often a second the states of an actor of the class are looked at; without it they are at each Flush. UE:
// NetUpdateFrequency.
func UpdateRate(perSecond float64) ClassOption {
	if !(perSecond > 0) {
		panic(fmt.Sprintf("rpc: UpdateRate(%v) must be above 0", perSecond))
	}
	return func(c *Class) { c.updatePeriod = time.Duration(float64(time.Second) / perSecond) }
}

// UpdatePriority says how fast the claim of an actor of the class grows while its state waits, where the path or the rate does not
// take all; the default is 1. Of an actor that relevancy opens by distance, see [At], a part of it counts: all of it at the view, a fifth
// at the cull distance and beyond. UE: NetPriority, where pawns have 3, and GetNetPriority.
func UpdatePriority(p float64) ClassOption {
	if !(p > 0) {
		panic(fmt.Sprintf("rpc: UpdatePriority(%v) must be above 0", p))
	}
	return func(c *Class) { c.updatePriority = p }
}

// NewClass declares a class. Both ends use the same classes: the handshake compares them.
func NewClass(name string, opts ...ClassOption) *Class {
	mustName("class", name)
	c := &Class{name: name, priority: bunch.Normal, updatePriority: 1, cullDistance: defaultCullDistance}
	for _, opt := range opts {
		opt(c)
	}
	return c
}

// Name returns the name that the class was declared with.
func (c *Class) Name() string { return c.name }

// String returns the class's name.
func (c *Class) String() string { return c.name }

// add appends a declared method; the order of declaration is the order on the wire.
func (c *Class) add(m *method) {
	root := c.root()
	if root.closed.Load() {
		panic(fmt.Sprintf("rpc: %s.%s is declared after a world began to use class %s; declare it in a package variable",
			c.name, m.name, c.name))
	}
	for _, other := range root.methods {
		if other.class == c && other.name == m.name {
			panic(fmt.Sprintf("rpc: class %s declares %s twice", c.name, m.name))
		}
	}
	if len(root.methods) == maxMethods {
		panic(fmt.Sprintf("rpc: class %s has more than %d methods", root.name, maxMethods))
	}
	m.class, m.id = c, len(root.methods)
	root.methods = append(root.methods, m)
}

// close ends the declaration of c.
func (c *Class) close() { c.root().closed.Store(true) }

// mustName panics unless name is fit for the shape, where a space, a colon or a line break would end it.
func mustName(what, name string) {
	bad := func(r rune) bool { return r == ':' || unicode.IsSpace(r) || !unicode.IsPrint(r) }
	if name == "" || len(name) > maxNameBytes || strings.ContainsFunc(name, bad) {
		panic(fmt.Sprintf("rpc: %s name %q must have 1 to %d bytes, without spaces or colons", what, name, maxNameBytes))
	}
}

// listFields returns the fields that are lists.
func (c *Class) listFields() (fields state.Mask) {
	if c.lists == 0 {
		return 0
	}
	for _, d := range c.states {
		if d.isList() {
			fields |= d.mask()
		}
	}
	return fields
}
