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
	maxNameBytes = 128     // of a class, a method or a list: names are sent in the shape and in close reasons
	maxMethods   = 1 << 14 // of a class: so an id has at most two bytes on the wire
)

// A Class is the protocol of one kind of actor: its calls with their directions and
// delivery, and its states. It is declared once, in a package that client and server
// share, and each side binds behaviour to it with [Bind]. Declare a class and its
// methods in package variables: once a world uses a class, nothing can be added to it.
type Class struct {
	// Written by the declarations, on one goroutine. Read-only once a world uses the class.
	name     string
	methods  []*method
	states   []*declaredState
	fields   int          // of all states; a list counts as one field
	lists    state.Mask   // which fields are lists
	errors   []error      // see Errors
	extended extend.Class // its priority, and the package that declared it, if the game did not: see extend.DeclaredBy

	updatePeriod   time.Duration // least mean time between two comparisons of an actor's states; 0 = every Flush
	updatePriority float64       // see UpdatePriority
	cullDistance   float32       // see CullDistance

	// Of a component: the class of the actor, which also has the component's
	// methods and states; else nil.
	actor      *Class
	slot       int      // of a component: its index in actor.components
	components []*Class // in the order of declaration

	closed atomic.Bool // a world uses it, so nothing can be added; safe for concurrent use
}

// A ClassOption is an option of [NewClass].
type ClassOption func(*Class)

// UpdateRate limits how often a second, in the mean, Flush compares the states
// of an actor of the class. Without it every Flush does. The rate need not
// divide the tick rate. UE: NetUpdateFrequency.
func UpdateRate(perSecond float64) ClassOption {
	mustBePositive("UpdateRate", perSecond)
	return func(c *Class) { c.updatePeriod = time.Duration(min(float64(time.Second)/perSecond, 1<<62)) }
}

// UpdatePriority sets how fast the urgency of an actor of the class grows while its states wait
// because the path or the rate does not allow all to be sent. The default is 1. If distance decides
// about the actor, see [At], the priority falls with the distance, from p at the view to a fifth of
// it at the cull distance and beyond. UE: NetPriority, which is 3 for pawns, and GetNetPriority.
func UpdatePriority(p float64) ClassOption {
	mustBePositive("UpdatePriority", p)
	return func(c *Class) { c.updatePriority = p }
}

// defaultCullDistance is Unreal's NetCullDistanceSquared of 225,000,000 cm², in metres.
const defaultCullDistance = 150

// CullDistance sets the distance within which actors of the class are seen, in
// the unit of [At]. It belongs to the actor that is seen, not to the viewer, and
// may differ widely between classes. The default is 150, which is Unreal's 15,000
// cm in metres. It panics unless d is above 0. UE: NetCullDistanceSquared.
func CullDistance(d float32) ClassOption {
	mustBePositive("CullDistance", d)
	return func(c *Class) { c.cullDistance = d }
}

// NewClass declares a class. Both ends must declare the same classes: the handshake
// compares them. NewClass panics if the name is not valid or an option is nil.
func NewClass(name string, opts ...ClassOption) *Class {
	mustName("class", name)
	c := &Class{name: name, extended: extend.Class{Priority: bunch.Normal}, updatePriority: 1, cullDistance: defaultCullDistance}
	for i, opt := range opts {
		if opt == nil {
			panic(fmt.Sprintf("rpc: NewClass(%q): option %d is nil", name, i+1))
		}
		opt(c)
	}
	return c
}

// Name returns the name with which the class was declared.
func (c *Class) Name() string { return c.name }

// String returns the class's name.
func (c *Class) String() string { return c.name }

// Errors declares the errors with which the class's handlers of requests fail, and returns the
// class. If a handler returns an error that errors.Is matches with one of them, the asker's error
// matches that one, too, and has the handler's text. Of any other error only the text is sent.
//
//	var Shop = rpc.NewClass("Shop").Errors(ErrSoldOut, ErrPoor)
//
// Both ends must declare the same errors in the same order: the Code of a
// [RequestError] is 1 for the first. The handshake does not compare them, because an
// error is only its text, which may differ between systems and releases. So append new
// ones: an end that does not know them gets their texts alone. If a handler's error
// matches several, the first counts. Call Errors once, in the class's package variable.
func (c *Class) Errors(kinds ...error) *Class {
	c.errors = kinds
	return c
}

// codeOf returns the Code of a handler's error, or 0 if the class declares no such error.
func (c *Class) codeOf(err error) uint32 {
	return uint32(1 + slices.IndexFunc(c.errors, func(kind error) bool { return errors.Is(err, kind) }))
}

// errorOf returns the error that the class declares with a Code, or nil if there is none.
func (c *Class) errorOf(code uint32) error {
	if code == 0 || int64(code) > int64(len(c.errors)) {
		return nil
	}
	return c.errors[code-1]
}

// ofExtension reports whether an extension, such as package stream, declared
// the class instead of the game.
func (c *Class) ofExtension() bool { return c.extended.Declarer != "" }

// add appends a declared method. The order of declaration is the order on the wire.
func (c *Class) add(m *method) {
	root := c.root()
	m.class, m.id = c, len(root.methods)
	c.mustBeOpen(m)
	if slices.ContainsFunc(root.methods, func(other *method) bool { return other.class == c && other.name == m.name }) {
		panic(fmt.Sprintf("rpc: class %s declares %v twice", c.name, m))
	}
	if len(root.methods) == maxMethods {
		panic(fmt.Sprintf("rpc: class %s has more than %d methods", root.name, maxMethods))
	}
	root.methods = append(root.methods, m)
}

// close records that a world uses the class.
func (c *Class) close() { c.root().closed.Store(true) }

// mustBeOpen panics if a world uses the class already. what is about to be added to it.
func (c *Class) mustBeOpen(what fmt.Stringer) {
	if c.root().closed.Load() {
		panic(fmt.Sprintf("rpc: %v is declared after a world began to use class %s; declare it in a package variable", what, c.name))
	}
}

// mustName panics unless name is valid in the shape, where a space, a colon or
// a line break would end it.
func mustName(what, name string) {
	bad := func(r rune) bool { return r == ':' || unicode.IsSpace(r) || !unicode.IsPrint(r) }
	if name == "" || len(name) > maxNameBytes || strings.ContainsFunc(name, bad) {
		panic(fmt.Sprintf("rpc: %s name %q must have 1 to %d bytes, without spaces or colons", what, name, maxNameBytes))
	}
}

// mustBePositive panics unless the value of an option is above 0. It also panics for NaN.
func mustBePositive[N float32 | float64](option string, value N) {
	if !(value > 0) {
		panic(fmt.Sprintf("rpc: %s(%v) must be above 0", option, value))
	}
}

// mustDeclare panics if by, a declaration, was passed a nil class.
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

// NewComponent declares a component that every actor of class has. Use the *Class that
// it returns for handles, states and [Bind]. Its calls and states are sent on the
// actor's channel, in order with the actor's own. The component's name is that of
// class, a dot and name, and must be unique in class. NewComponent panics if class is a
// component, or a world uses it already. UE: a default subobject that is a replicated
// UActorComponent; subobjects that are added at run time have no counterpart.
//
// Calls name the actor: Buy.Call(actor, offer) runs on the object that the component's
// constructor made for that actor. Of and All of its binding find the object. OnClose, OnOwner
// and OnTearOff run for it, too, after the actor's. Either end may leave the component, or the
// actor's own class, unbound. Components are made with the actor, after its own object and in
// the order of their declaration, and end with it: none is added or removed by itself.
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

// root returns the actor's class if c is a component, and c itself if not.
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

// addState appends a declared state. The order of declaration is the order of fields on the wire.
func (c *Class) addState(d *declaredState) {
	root := c.root()
	d.id, d.first = len(root.states), root.fields
	c.mustBeOpen(d)
	for _, other := range root.states {
		if other.path() == d.path() {
			panic(fmt.Sprintf("rpc: class %s declares both %v and %v: the name of its type, or of a list, is for one", c.name, other, d))
		}
	}
	if root.fields += d.count; root.fields > state.MaxFields {
		panic(fmt.Sprintf("rpc: class %s has %d replicated fields with those of %v, at most %d", root.name, root.fields, d, state.MaxFields))
	}
	root.states = append(root.states, d)
}

// classTable has the classes that a world knows. The first connection freezes
// it: then the classes are sorted by name, so that the order of declaration does
// not matter, and the index of a class is its id on the wire. mu guards all
// fields until then. Afterwards they do not change, and are read without mu.
type classTable struct {
	mu      sync.Mutex
	classes []*Class
	frozen  bool
	shape   shape.Shape // of all classes, set by freeze; the handshake compares it
	hash    [32]byte    // of shape
}

// add adds a class. It does nothing if the table has the class already.
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
		return fmt.Errorf("rpc: class %q is added after the first connection; Bind it or name it in Config.Classes before", class.name)
	}
	if class.actor != nil {
		return fmt.Errorf("rpc: Config.Classes names %q, a component: name class %q", class.name, class.actor.name)
	}
	class.close()
	t.classes = append(t.classes, class)
	return nil
}

// freeze sorts the classes and so gives them their ids. Only the first call has an effect.
func (t *classTable) freeze() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.frozen {
		return
	}
	t.classes = slices.SortedFunc(slices.Values(t.classes), func(a, b *Class) int { return strings.Compare(a.name, b.name) })
	t.shape = shapeOf(t.classes)
	t.hash = t.shape.Hash()
	t.frozen = true
}

// all returns the classes, by id once the table is frozen.
func (t *classTable) all() []*Class {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.classes
}

// id returns the id of a class on the wire. Before the table is frozen it returns the
// largest id that the class may get, for callers that need only the size of the id.
func (t *classTable) id(class *Class) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.frozen {
		return slices.Index(t.classes, class)
	}
	return len(t.classes)
}
