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
	maxNameBytes = 128     // of a class, method or list; shapes and close reasons contain names
	maxMethods   = 1 << 14 // of a class, so that an id takes at most two bytes on the wire
)

// A Class is the protocol of one kind of actor: its calls, with their directions and
// delivery, and its states.
//
// It is declared once, in a package that client and server share, and each side binds its own
// behavior to it with [Bind]. Declare a class and its methods in package variables, since
// nothing can be added once a world uses the class.
type Class struct {
	// Written by declarations, all on one goroutine. Read-only once a world uses the class.
	name    string
	methods []*method
	states  []*declaredState
	fields  int        // of all states; a list counts as one
	lists   state.Mask // the fields that are lists
	errors  []error    // declared by Errors
	// The priority of the class's channels and, unless the game declared the class, the package
	// that declared it. See extend.DeclaredBy.
	extended extend.Class

	updatePeriod   time.Duration // set by UpdateRate; 0 for every Flush
	updatePriority float64       // set by UpdatePriority
	cullDistance   float32       // set by CullDistance

	// For a component, the actor's class, whose methods and states include the component's. nil
	// for an actor's class.
	actor      *Class
	slot       int      // for a component, its index in actor.components
	components []*Class // in the order of declaration

	used atomic.Bool // a world uses the class; safe for concurrent use
}

// A ClassOption is an option of [NewClass].
type ClassOption func(*Class)

// UpdateRate limits how many times per second, on average, Flush compares the states of an actor.
// By default, every Flush compares them. The tick rate need not be a multiple of the rate.
// UpdateRate panics unless perSecond is above 0. UE: NetUpdateFrequency.
func UpdateRate(perSecond float64) ClassOption {
	mustBePositive("UpdateRate", perSecond)
	return func(c *Class) { c.updatePeriod = time.Duration(min(float64(time.Second)/perSecond, 1<<62)) }
}

// UpdatePriority sets how fast an actor's urgency grows while its states are waiting because the
// path or the rate can't take everything at once. The default is 1. UpdatePriority panics unless p
// is above 0.
//
// If a client sees actors by distance (see [At]), the priority falls from p at the client's
// view to a fifth of p at the cull distance and beyond. UE: NetPriority, which is 3 for
// pawns, and GetNetPriority.
func UpdatePriority(p float64) ClassOption {
	mustBePositive("UpdatePriority", p)
	return func(c *Class) { c.updatePriority = p }
}

// defaultCullDistance is Unreal's NetCullDistanceSquared of 225,000,000 cm², converted to a
// distance in meters.
const defaultCullDistance = 150

// CullDistance sets the distance within which actors of the class can be seen, in the unit of
// [At]. It is a property of the visible actor rather than of the viewer, so it may differ widely
// between classes. The default is 150, which is Unreal's 15,000 cm in meters. CullDistance panics
// unless d is above 0. UE: NetCullDistanceSquared.
func CullDistance(d float32) ClassOption {
	mustBePositive("CullDistance", d)
	return func(c *Class) { c.cullDistance = d }
}

// NewClass declares a class. Both ends must declare the same classes, because the handshake
// compares them. A name has 1 to 128 bytes, without spaces, colons and control characters. NewClass
// panics if the name is not valid or an option is nil.
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

// NewComponent declares a component that every actor of class has. It returns the *Class to use
// for the component's handles, states and [Bind]. UE: a default subobject that is a replicated
// UActorComponent. Unreal's subobjects that are added at run time have no counterpart here.
//
// The component's calls and states share the actor's channel and arrive in order with the actor's
// own. A call names the actor, so Buy.Call(actor, offer) runs on the object that the component's
// constructor made for that actor, and Of and All of the component's binding find that object.
// OnClose, OnOwner and OnTearOff run for the component after they have run for the actor.
//
// Either end may leave the component, or the actor's own class, unbound. An actor's components
// are made after its own object, in the order of their declaration, and end with the actor.
//
// The component's full name is the name of class, a dot and name. It must be unique in class.
// NewComponent panics if class is a component itself, or if a world already uses class.
func NewComponent(class *Class, name string) *Class {
	mustName("component", name)
	mustDeclare("NewComponent", class)
	if class.actor != nil {
		panic(fmt.Sprintf("rpc: NewComponent(%s, %q): a component cannot have components", class.name, name))
	}
	c := &Class{name: class.name + "." + name, actor: class, slot: len(class.components)}
	class.mustBeUnused(c)
	if slices.ContainsFunc(class.components, func(other *Class) bool { return other.name == c.name }) {
		panic(fmt.Sprintf("rpc: class %s declares component %s twice: give one of them another name", class.name, name))
	}
	class.components = append(class.components, c)
	return c
}

// Name returns the declared name of the class.
func (c *Class) Name() string { return c.name }

// String returns the name of the class.
func (c *Class) String() string { return c.name }

// Errors declares errors that the class's request handlers may return, and returns the class. If
// errors.Is matches a handler's error to a declared error, the asker's error also matches the
// declared error and has the handler's text. For any other error, only the text is sent.
//
//	var Shop = rpc.NewClass("Shop").Errors(ErrSoldOut, ErrPoor)
//
// Both ends must declare the same errors in the same order, because the Code of a [RequestError]
// is the error's position, from 1. The handshake doesn't check the order, since it could only
// compare the errors' texts, which may differ between systems and releases.
//
// Append new errors at the end. An end that doesn't know an error yet just gets its text. If a
// handler's error matches several declared errors, the first counts. Call Errors only once, in
// the class's package variable: a second call panics.
func (c *Class) Errors(kinds ...error) *Class {
	if c.errors != nil {
		panic(fmt.Sprintf("rpc: Errors of class %s called twice: declare all errors in one call", c.name))
	}
	c.errors = kinds
	return c
}

// codeOf returns the Code of a handler's error, or 0 if none of the declared errors matches.
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

// ofExtension reports whether the class was declared by an extension, such as package stream,
// and not by the game.
func (c *Class) ofExtension() bool { return c.extended.Declarer != "" }

// root returns the actor's class if c is a component, and c itself otherwise. The root also lists
// the methods and states of its components.
func (c *Class) root() *Class {
	if c.actor != nil {
		return c.actor
	}
	return c
}

// addMethod adds a method. Its id on the wire is its position among the methods of the
// actor's class, in the order of declaration.
func (c *Class) addMethod(m *method) {
	root := c.root()
	m.class = c
	m.id = len(root.methods)
	c.mustBeUnused(m)
	same := func(other *method) bool { return other.class == c && other.name == m.name }
	if slices.ContainsFunc(root.methods, same) {
		panic(fmt.Sprintf("rpc: class %s declares %v twice: give one of them another name", c.name, m))
	}
	if len(root.methods) == maxMethods {
		panic(fmt.Sprintf("rpc: class %s has more than %d methods", root.name, maxMethods))
	}
	root.methods = append(root.methods, m)
}

// addState adds a state. On the wire, its fields follow the fields of all states declared before
// it.
func (c *Class) addState(d *declaredState) {
	root := c.root()
	d.id = len(root.states)
	d.first = root.fields
	c.mustBeUnused(d)
	for _, other := range root.states {
		if other.path() == d.path() {
			panic(fmt.Sprintf("rpc: class %s declares both %v and %v: the names of its state types and lists must be unique",
				c.name, other, d))
		}
	}
	root.fields += d.count
	if root.fields > state.MaxFields {
		panic(fmt.Sprintf("rpc: class %s has %d replicated fields with those of %v; the limit is %d",
			root.name, root.fields, d, state.MaxFields))
	}
	root.states = append(root.states, d)
}

// stateOf returns the state that a field belongs to, or nil if there is no such field.
func (c *Class) stateOf(field int) *declaredState {
	for _, d := range c.states {
		if field < d.first+d.count {
			return d
		}
	}
	return nil
}

// markUsed is called when a world begins to use the class.
func (c *Class) markUsed() { c.root().used.Store(true) }

// mustBeUnused panics if a world already uses the class, because it is then too late to add a
// declaration. what is the declaration, for the error text.
func (c *Class) mustBeUnused(what fmt.Stringer) {
	if c.root().used.Load() {
		panic(fmt.Sprintf("rpc: %v declared after a world started to use class %s: declare it in a package variable",
			what, c.name))
	}
}

// mustName panics unless name can be used in a shape, where a name ends at a space, a colon or a
// line break. what says what is being named.
func mustName(what, name string) {
	if len(name) > maxNameBytes {
		panic(fmt.Sprintf("rpc: %s name %.20q… has %d bytes; the limit is %d", what, name, len(name), maxNameBytes))
	}
	bad := func(r rune) bool { return r == ':' || unicode.IsSpace(r) || !unicode.IsPrint(r) }
	if name == "" || strings.ContainsFunc(name, bad) {
		panic(fmt.Sprintf("rpc: %s name %q must have 1 to %d bytes, without spaces, colons or control characters",
			what, name, maxNameBytes))
	}
}

// mustBePositive panics unless the value is above 0. It also panics for NaN.
func mustBePositive[N float32 | float64](option string, value N) {
	if !(value > 0) {
		panic(fmt.Sprintf("rpc: %s(%v) must be positive", option, value))
	}
}

// mustDeclare panics if class is nil. by is the function that declares something for the class.
func mustDeclare(by string, class *Class) {
	if class == nil {
		panic(fmt.Sprintf("rpc: %s of a nil *Class: use the result of NewClass", by))
	}
}

// A classTable lists the classes that a world knows.
//
// The first connection freezes the table. From then on the classes are sorted by name, and a
// class's index is its id on the wire, so the order in which they were added doesn't matter. mu
// guards all fields below it until the table is frozen. Afterwards they don't change.
type classTable struct {
	maxBunch int // the world's Config.Bunch.MaxBunch

	mu      sync.Mutex
	classes []*Class
	frozen  bool
	shape   shape.Shape // of all classes, compared by the handshake; set by freeze
	hash    [32]byte    // of shape
}

// add adds a class. It's a no-op if the class is in the table already.
func (t *classTable) add(class *Class) error {
	if class == nil {
		return errors.New("rpc: Config.Classes has a nil *Class: use the result of NewClass")
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
		return fmt.Errorf("rpc: class %q added after the first connection: Bind it earlier or list it in Config.Classes",
			class.name)
	}
	if class.actor != nil {
		return fmt.Errorf("rpc: Config.Classes contains component %q: use its class %q", class.name, class.actor.name)
	}
	class.markUsed()
	for _, m := range class.methods {
		if limit := m.maxBytes(t.maxBunch); m.least > limit {
			return fmt.Errorf("rpc: %v: call has at least %d bytes with its argument %v; the limit is %d (Config.Bunch.MaxBunch)",
				m, m.least, m.arg, limit)
		}
	}
	t.classes = append(t.classes, class)
	return nil
}

// freeze gives the classes their ids. All calls but the first are no-ops.
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

// shapeOf returns the shape of the classes, which describes all that must be the same at both
// ends.
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

// all returns the classes, by id once the table is frozen.
func (t *classTable) all() []*Class {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.classes
}

// id returns the id of a class on the wire. If the table isn't frozen yet, it returns the largest
// id that the class can get, which is good enough for callers that only need the size of the id.
func (t *classTable) id(class *Class) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.frozen {
		return slices.Index(t.classes, class)
	}
	return len(t.classes)
}

// A part is one of an actor's objects: the actor's own object or a component's.
type part struct {
	binding *binding // nil if its class isn't bound here
	object  any      // nil until the constructor has returned
}

// bound reports whether the part has an object.
func (p part) bound() bool { return p.binding != nil && p.object != nil }
