package rpc

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/extend"
	"github.com/quivernet/quiver/internal/shape"
	"github.com/quivernet/quiver/internal/state"
)

// Limits of a declaration.
const (
	maxNameBytes = 128     // of a class, a method or a list; names are sent in the shape and in close reasons
	maxMethods   = 1 << 14 // of a class; an id then has at most two bytes on the wire
)

// A Class is the protocol of one kind of actor: its calls, with their directions and
// delivery, and its states.
//
// A class is declared once, in a package that client and server share. Each side binds
// behaviour to it with [Bind]. Declare a class and its methods in package variables,
// because nothing can be added to a class once a world uses it.
type Class struct {
	// Written by the declarations, on one goroutine. Read-only once a world uses the class.
	name    string
	methods []*method
	states  []*declaredState
	fields  int        // of all states; a list counts as one field
	lists   state.Mask // which fields are lists
	errors  []error    // declared by Errors
	// Priority, and the package that declared the class if the game did not: see
	// extend.DeclaredBy.
	extended extend.Class

	updatePeriod   time.Duration // minimum mean time between two comparisons of an actor's states; 0 = every Flush
	updatePriority float64       // set by UpdatePriority
	cullDistance   float32       // set by CullDistance

	// Of a component: the class of the actor, which also has the component's methods
	// and states. Otherwise nil.
	actor      *Class
	slot       int      // of a component: its index in actor.components
	components []*Class // in the order of declaration

	closed atomic.Bool // a world uses the class; safe for concurrent use
}

// A ClassOption is an option of [NewClass].
type ClassOption func(*Class)

// UpdateRate limits how many times a second, on average, Flush compares the states
// of an actor. Without it every Flush compares them. The rate need not divide the
// tick rate. UE: NetUpdateFrequency.
func UpdateRate(perSecond float64) ClassOption {
	mustBePositive("UpdateRate", perSecond)
	return func(c *Class) { c.updatePeriod = time.Duration(min(float64(time.Second)/perSecond, 1<<62)) }
}

// UpdatePriority sets how fast an actor's urgency grows while its states wait because the
// path or the rate doesn't allow all to be sent. The default is 1.
//
// If distance decides whether a client sees the actor (see [At]), the priority falls with
// the distance: from p at the client's view to a fifth of p at the cull distance and
// beyond. UE: NetPriority, which is 3 for pawns, and GetNetPriority.
func UpdatePriority(p float64) ClassOption {
	mustBePositive("UpdatePriority", p)
	return func(c *Class) { c.updatePriority = p }
}

// defaultCullDistance is Unreal's NetCullDistanceSquared of 225,000,000 cm², in metres.
const defaultCullDistance = 150

// CullDistance sets the distance within which actors of the class are seen, in the unit of
// [At]. The distance belongs to the actor that is seen, not to the viewer, and may differ
// widely between classes. The default is 150, which is Unreal's 15,000 cm in metres.
// CullDistance panics unless d is above 0. UE: NetCullDistanceSquared.
func CullDistance(d float32) ClassOption {
	mustBePositive("CullDistance", d)
	return func(c *Class) { c.cullDistance = d }
}

// NewClass declares a class. The handshake compares classes, so both ends must declare the
// same ones. NewClass panics if the name is not valid or an option is nil.
func NewClass(name string, opts ...ClassOption) *Class {
	mustName("class", name)
	c := &Class{
		name:           name,
		extended:       extend.Class{Priority: bunch.Normal},
		updatePriority: 1,
		cullDistance:   defaultCullDistance,
	}
	for i, opt := range opts {
		if opt == nil {
			panic(fmt.Sprintf("rpc: NewClass(%q): option %d is nil", name, i+1))
		}
		opt(c)
	}
	return c
}

// Name returns the declared name of the class.
func (c *Class) Name() string { return c.name }

// String returns the name of the class.
func (c *Class) String() string { return c.name }

// Errors declares errors that the class's request handlers may return, and returns the class.
// If errors.Is matches a handler's error to a declared one, the asker's error also matches
// the declared error, and has the handler's text. For any other error only the text is sent.
//
//	var Shop = rpc.NewClass("Shop").Errors(ErrSoldOut, ErrPoor)
//
// Both ends must declare the same errors in the same order, because the Code of a
// [RequestError] is the error's position, from 1. The handshake doesn't compare the errors:
// it could only compare their texts, which may differ between systems and releases.
//
// Append new errors at the end. An end that doesn't know a new error gets its text
// alone. If a handler's error matches several declared errors, the first counts.
// Call Errors once, in the class's package variable.
func (c *Class) Errors(kinds ...error) *Class {
	c.errors = kinds
	return c
}

// codeOf returns the Code of a handler's error, or 0 if the error matches no declared one.
func (c *Class) codeOf(err error) uint32 {
	return uint32(1 + slices.IndexFunc(c.errors, func(kind error) bool { return errors.Is(err, kind) }))
}

// errorOf returns the declared error with the given Code, or nil if there is none.
func (c *Class) errorOf(code uint32) error {
	if code == 0 || int64(code) > int64(len(c.errors)) {
		return nil
	}
	return c.errors[code-1]
}

// ofExtension reports whether an extension, such as package stream, declared the
// class. Otherwise the game did.
func (c *Class) ofExtension() bool { return c.extended.Declarer != "" }

// add appends a declared method. Methods have ids on the wire in the order of their
// declaration.
func (c *Class) add(m *method) {
	root := c.root()
	m.class = c
	m.id = len(root.methods)
	c.mustBeOpen(m)
	same := func(other *method) bool { return other.class == c && other.name == m.name }
	if slices.ContainsFunc(root.methods, same) {
		panic(fmt.Sprintf("rpc: class %s declares %v twice", c.name, m))
	}
	if len(root.methods) == maxMethods {
		panic(fmt.Sprintf("rpc: class %s has more than %d methods", root.name, maxMethods))
	}
	root.methods = append(root.methods, m)
}

// close records that a world uses the class.
func (c *Class) close() { c.root().closed.Store(true) }

// mustBeOpen panics if a world already uses the class. what is the thing to be added.
func (c *Class) mustBeOpen(what fmt.Stringer) {
	if c.root().closed.Load() {
		panic(fmt.Sprintf("rpc: %v is declared after a world began to use class %s; declare it in a package variable",
			what, c.name))
	}
}

// mustName panics unless name is valid in the shape, where a space, a colon or a
// line break ends a name.
func mustName(what, name string) {
	bad := func(r rune) bool { return r == ':' || unicode.IsSpace(r) || !unicode.IsPrint(r) }
	if name == "" || len(name) > maxNameBytes || strings.ContainsFunc(name, bad) {
		panic(fmt.Sprintf("rpc: %s name %q must have 1 to %d bytes, without spaces or colons",
			what, name, maxNameBytes))
	}
}

// mustBePositive panics unless the value of an option is above 0. It also panics for NaN.
func mustBePositive[N float32 | float64](option string, value N) {
	if !(value > 0) {
		panic(fmt.Sprintf("rpc: %s(%v) must be above 0", option, value))
	}
}

// mustDeclare panics if class is nil. by is the function that declares something for the class.
func mustDeclare(by string, class *Class) {
	if class == nil {
		panic(fmt.Sprintf("rpc: %s of a nil *Class: take what NewClass returned", by))
	}
}

// shapeOf returns the shape of the classes, which must be the same at both ends.
func shapeOf(classes []*Class) (s shape.Shape) {
	for i, c := range classes {
		s.Class(i, c.name, c.extended.Declarer)
		for _, m := range c.methods {
			s.Add(m.String(), fmt.Sprintf("%s, %s, %s", m.shapeKind(), deliveryNames[m.delivery], m.codec.Name()))
			s.Lines = m.codec.AppendOutline(s.Lines, m.String())
		}
		for _, d := range c.states {
			d.outline(&s)
		}
	}
	return s
}

// NewComponent declares a component that every actor of class has. It returns the *Class to
// use for the component's handles, states and [Bind]. UE: a default subobject that is a
// replicated UActorComponent. Subobjects that are added at run time have no counterpart.
//
// The component's calls and states are sent on the actor's channel, in order with the actor's
// own. Calls name the actor: Buy.Call(actor, offer) runs on the object that the component's
// constructor made for that actor. Of and All of the component's binding find the object.
// OnClose, OnOwner and OnTearOff run for the component after they run for the actor.
//
// Either end may leave the component, or the actor's own class, unbound. Components are
// made with the actor, after its own object and in the order of their declaration. They end
// with the actor. A component can't be added or removed alone.
//
// The component's full name is the name of class, a dot and name. It must be unique in class.
// NewComponent panics if class is a component, or if a world already uses class.
func NewComponent(class *Class, name string) *Class {
	mustName("component", name)
	mustDeclare("NewComponent", class)
	if class.actor != nil {
		panic(fmt.Sprintf("rpc: NewComponent(%s, %q): a component has no components", class.name, name))
	}
	c := &Class{name: class.name + "." + name, actor: class, slot: len(class.components)}
	class.mustBeOpen(c)
	if slices.ContainsFunc(class.components, func(other *Class) bool { return other.name == c.name }) {
		panic(fmt.Sprintf("rpc: class %s declares component %s twice", class.name, name))
	}
	class.components = append(class.components, c)
	return c
}

// root returns the actor's class if c is a component, and otherwise c.
func (c *Class) root() *Class {
	if c.actor != nil {
		return c.actor
	}
	return c
}

// part is one object of an actor, its own or a component's.
type part struct {
	binding *binding // nil = its class is not bound
	object  any      // nil until the constructor has returned
}

// bound reports whether the part has an object.
func (p part) bound() bool { return p.binding != nil && p.object != nil }

// stateOf returns the state to which a field of the class belongs.
func (c *Class) stateOf(field int) *declaredState {
	for _, d := range c.states {
		if field < d.first+d.count {
			return d
		}
	}
	return nil
}

// addState appends a declared state. Fields are numbered on the wire in the order of
// declaration.
func (c *Class) addState(d *declaredState) {
	root := c.root()
	d.id = len(root.states)
	d.first = root.fields
	c.mustBeOpen(d)
	for _, other := range root.states {
		if other.path() == d.path() {
			panic(fmt.Sprintf("rpc: class %s declares both %v and %v: the name of its type, or of a list, is for one",
				c.name, other, d))
		}
	}
	root.fields += d.count
	if root.fields > state.MaxFields {
		panic(fmt.Sprintf("rpc: class %s has %d replicated fields with those of %v, at most %d",
			root.name, root.fields, d, state.MaxFields))
	}
	root.states = append(root.states, d)
}

// classTable lists the classes that a world knows.
//
// The first connection freezes the table. The classes are then sorted by name, so the order of
// declaration doesn't matter, and a class's index is its id on the wire. Until the table is
// frozen, mu guards all fields. Afterwards the fields don't change, and are read without mu.
type classTable struct {
	mu      sync.Mutex
	classes []*Class
	frozen  bool
	shape   shape.Shape // of all classes, set by freeze; the handshake compares it
	hash    [32]byte    // of shape
}

// add adds a class, unless the table already has it.
func (t *classTable) add(class *Class) error {
	if class == nil {
		return errors.New("rpc: Config.Classes has a nil *Class: take what NewClass returned")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if slices.Contains(t.classes, class) {
		return nil
	}
	if slices.ContainsFunc(t.classes, func(other *Class) bool { return other.name == class.name }) {
		return fmt.Errorf("rpc: two classes are named %q", class.name)
	}
	if t.frozen {
		return fmt.Errorf("rpc: class %q is added after the first connection; Bind it or name it in Config.Classes before",
			class.name)
	}
	if class.actor != nil {
		return fmt.Errorf("rpc: Config.Classes names %q, a component: name class %q", class.name, class.actor.name)
	}
	class.close()
	t.classes = append(t.classes, class)
	return nil
}

// freeze sorts the classes, which gives them their ids. Only the first call has an effect.
func (t *classTable) freeze() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.frozen {
		return
	}
	byName := func(a, b *Class) int { return strings.Compare(a.name, b.name) }
	t.classes = slices.SortedFunc(slices.Values(t.classes), byName)
	t.shape = shapeOf(t.classes)
	t.hash = t.shape.Hash()
	t.frozen = true
}

// all returns the classes. Once the table is frozen, they are in the order of their ids.
func (t *classTable) all() []*Class {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.classes
}

// id returns the id of a class on the wire. Before the table is frozen it returns the largest
// id that the class may get, for callers that need only the size of the id.
func (t *classTable) id(class *Class) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.frozen {
		return slices.Index(t.classes, class)
	}
	return len(t.classes)
}
