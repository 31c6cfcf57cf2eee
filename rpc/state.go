package rpc

import (
	"bytes"
	"fmt"
	"reflect"
	"time"
	"unsafe"

	"github.com/quivernet/quiver/internal/refs"
	"github.com/quivernet/quiver/internal/shape"
	"github.com/quivernet/quiver/internal/state"
	"github.com/quivernet/quiver/internal/tasks"
)

// State is a struct of the game's own that the server replicates to every client that has the actor: what a client has is the
// newest that reached it, values between may be skipped, and nothing of it waits in a reliable buffer. UE: the replicated
// properties of a class (DOREPLIFETIME).
//
// The game changes the struct in place. At each Flush the server compares it with what it last encoded, field by field as
// encoded: a NaN, or a change below the quantum, sends nothing. What has changed goes to each client behind calls and before
// bulk; when a packet is lost, the newest value of what it carried goes again. The open carries all fields, so a client's
// object has them before any call. Calls and state are not ordered with each other, but for that.
//
// Each field travels by itself, as properties do in Unreal: after a loss the struct may hold fields of different Flushes, which the
// server never had together. What belongs together, as a position and the tick that it is of, is a nested struct: that is one field.
//
// Allowed are, also under names of your own, bools, numbers, strings and slices with a bound, arrays, structs of these, and [Ref]; each field at most 1,000
// bytes encoded. Tags, separated by commas:
//
//	quiver:"owner"        only to the owner's client (UE: COND_OwnerOnly)
//	quiver:"skipowner"    to all others (UE: COND_SkipOwner)
//	quiver:"initial"      with the open only (UE: COND_InitialOnly)
//	quiver:"if=name"      while Actor.SetCondition says so (UE: COND_Custom)
//	quiver:"max=16"       bytes of a string, elements of a slice
//	quiver:"quant=0.01"   floats travel as multiples of it, those beyond the largest as that (UE: FVector_NetQuantize100)
//	quiver:"range=0:100"  numbers beyond are clamped
//	quiver:"unit"         three floats, a direction (UE: FVector_NetQuantizeNormal)
type State[S any] struct{ declared *declaredState }

// declaredState is a State without its type.
type declaredState struct {
	class *Class
	id    int         // among the class's states
	first int         // its first field, among those of all the class's states
	count int         // of its fields
	plan  *state.Plan // of a list: of its items

	// Of a list, which is one field.
	name   string
	list   int  // among the class's lists
	refers bool // its items may name actors
}

// String returns the class's name and the struct's.
func (d *declaredState) String() string {
	if d.isList() {
		return d.class.name + "." + d.name
	}
	return d.class.name + "." + d.plan.Type().Name()
}

func (d *declaredState) isList() bool { return d.name != "" }

// outline adds its lines to the shape of its class.
func (d *declaredState) outline(s *shape.Shape) {
	kind := "a struct"
	if d.isList() {
		kind = "a list"
	}
	s.Add(d.String(), fmt.Sprintf("state of %d fields, %s", d.count, kind))
	for _, field := range d.plan.Lines() {
		s.Lines = append(s.Lines, d.String()+"."+field)
	}
}

// mask returns all of its fields.
func (d *declaredState) mask() state.Mask { return (1<<d.count - 1) << d.first }

// initial returns those of its fields that go with the open only.
func (d *declaredState) initial() (fields state.Mask) {
	for i := range d.count {
		if d.plan.Field(i).Condition == state.Initial {
			fields |= 1 << (d.first + i)
		}
	}
	return fields
}

// own returns which of its own fields are among those of the class.
func (d *declaredState) own(fields state.Mask) state.Mask { return fields & d.mask() >> d.first }

// NewState declares that actors of class have an S; several of different types are allowed, together at most 64 fields. Like
// methods, states belong into package variables, and the handshake compares them. It panics when S can not be replicated, or
// class has one.
func NewState[S any](class *Class) *State[S] {
	plan, err := state.Compile(reflect.TypeFor[S](), reflect.TypeFor[Ref]())
	if err != nil {
		panic(fmt.Sprintf("rpc: NewState for class %s: %v", class.name, err))
	}
	d := &declaredState{class: class, id: len(class.root().states), first: class.root().fields, count: plan.Fields(), plan: plan}
	class.addState(d)
	return &State[S]{d}
}

// SetCondition says whether the fields of a that are tagged if=name travel (UE: COND_Custom, SetActiveOverride); they begin not to.
// Server only.
func (s *State[S]) SetCondition(a *Actor, name string, on bool) error {
	switch d := s.declared; {
	case !a.made():
		return fmt.Errorf("rpc: SetCondition of %s", noActor)
	case !a.world.IsServer():
		return fmt.Errorf("rpc: SetCondition of a %q on a client: %w", a.class.name, ErrWrongRole)
	case d.class.root() != a.class:
		return fmt.Errorf("rpc: SetCondition of %v: the actor is a %q", d, a.class.name)
	case !d.knows(name):
		return fmt.Errorf("rpc: SetCondition of %v: no field is tagged if=%s", d, name)
	default:
		a.setCondition(condition{d.id, name}, on)
	}
	return nil
}

// condition is a named condition of a state.
type condition struct {
	state int
	name  string
}

func (a *Actor) setCondition(c condition, on bool) {
	if a.states.conditions == nil {
		a.states.conditions = make(map[condition]bool)
	}
	a.states.conditions[c] = on
	for _, o := range a.openings {
		o.look()
	}
}

// knows reports whether a field has the named condition.
func (d *declaredState) knows(name string) bool {
	for i := range d.count {
		if f := d.plan.Field(i); f.Condition == state.Custom && f.Custom == name {
			return true
		}
	}
	return false
}

// Replicate says where objects of b keep s. where is asked once an object, right after its constructor, and the pointer stays
// valid as long as the actor. It panics when s is of another class, or b replicates it already.
func Replicate[T, S any](b *Binding[T], s *State[S], where func(object T) *S) {
	d := s.declared
	mustBind(b.untyped, d, where == nil, "Replicate")
	if b.untyped.states[d.id] != nil {
		panic(fmt.Sprintf("rpc: Replicate(%v): it is replicated already", d))
	}
	b.untyped.states[d.id] = &boundState[T, S]{declared: d, where: where}
}

// OnRep makes fn run at clients when fields of s have changed, with what s was before (UE: OnRep_X, REPNOTIFY_OnChanged): after
// all of a packet is applied, if need be in the next Dispatch (see Config.DispatchTime), and after the constructor of an object when the open brought other values than it left there. It
// also runs when an actor that a [Ref] in s names opens or closes here. The order among several is not promised. It never runs on
// the server. It panics unless Replicate came before, and when s has one.
func OnRep[T, S any](b *Binding[T], s *State[S], fn func(object T, old S)) {
	d := s.declared
	mustBind(b.untyped, d, fn == nil, "OnRep")
	bound, ok := b.untyped.states[d.id].(*boundState[T, S])
	switch {
	case !ok:
		panic(fmt.Sprintf("rpc: OnRep(%v): call Replicate before", d))
	case bound.onRep != nil:
		panic(fmt.Sprintf("rpc: OnRep(%v): it has a function already", d))
	}
	bound.onRep = fn
}

// mustBind panics when d can not be bound to b.
func mustBind(b *binding, d *declaredState, missing bool, by string) {
	switch {
	case missing:
		panic(fmt.Sprintf("rpc: %s(%v): no function", by, d))
	case d.class != b.class:
		panic(fmt.Sprintf("rpc: %s(%v): the binding is of class %s", by, d, b.class.name))
	}
}

// boundState is where the objects of a binding keep a state.
type boundState[T, S any] struct {
	declared *declaredState
	where    func(T) *S
	onRep    func(T, S)
}

// stateKeeper is a *boundState without its types.
type stateKeeper interface {
	// of makes the replica of an actor's object.
	of(object any) replica
}

func (b *boundState[T, S]) of(object any) replica {
	r := &replicaOf[T, S]{bound: b, object: object.(T)}
	if r.live = b.where(r.object); r.live == nil {
		panic(fmt.Sprintf("rpc: Replicate(%v): where returned nil", b.declared))
	}
	r.value = reflect.ValueOf(r.live).Elem()
	return r
}

// actorStates are the states of an actor, once its objects are there.
type actorStates struct {
	replicas   []replica          // by state id; nil = not kept here
	conditions map[condition]bool // server: those that hold
	watched    bool               // server: in the world's replicator
	compared   time.Time          // server: when they were last looked at
	newest     []uint64           // client, by field: the packet that brought what it has
}

// kept goes through the replicas that there are.
func (s *actorStates) kept(yield func(replica) bool) {
	for _, r := range s.replicas {
		if r != nil && !yield(r) {
			return
		}
	}
}

// of returns the replica of a declared state, nil when nothing keeps it here.
func (s *actorStates) of(d *declaredState) replica {
	if s.replicas == nil {
		return nil
	}
	return s.replicas[d.id]
}

// due reports whether they may be looked at: they were not within the period of their class, or were at this very Flush.
func (s *actorStates) due(now time.Time, period time.Duration) bool {
	if since := now.Sub(s.compared); since > 0 && since < period { // a game's clock may go back
		return false
	}
	s.compared = now
	return true
}

// initial returns the fields that go with the open only.
func (s *actorStates) initial() (fields state.Mask) {
	for r := range s.kept {
		fields |= r.declaration().initial()
	}
	return fields
}

// size returns how many bytes fields take as encoded last.
func (s *actorStates) size(fields state.Mask) (size int) {
	for r := range s.kept {
		size += r.size(r.declaration().own(fields))
	}
	return size
}

// appendTo appends fields as encoded last.
func (s *actorStates) appendTo(b []byte, fields state.Mask) []byte {
	for r := range s.kept {
		b = r.appendTo(b, r.declaration().own(fields))
	}
	return b
}

// fitting returns as many of the fields as one message takes, which is one at least.
func (s *actorStates) fitting(fields state.Mask, most int) (fit state.Mask) {
	if s.size(fields) <= most {
		return fields
	}
	size := 0
	for i := 0; fields>>i != 0; i++ {
		one := fields & (1 << i)
		if size += s.size(one); size > most && fit != 0 {
			break
		}
		fit |= one
	}
	return fit
}

// unfile forgets what they name, on a client where their actor has ended.
func (s *actorStates) unfile(c *Conn) {
	for r := range s.kept {
		r.file(c.copies.referrers, false)
	}
}

// replica is one state of one actor. It belongs to the world's goroutine.
type replica interface {
	declaration() *declaredState

	// changed reports, on the server, whether the struct may differ from what was encoded last: one with slices always may.
	changed() bool
	// differs reports, on the server, whether it does. It encodes, and keeps nothing.
	differs() bool
	// encode finds out, on the server, which fields differ as encoded, and keeps them.
	encode() (state.Mask, error)
	// size returns how many bytes fields take as encoded last.
	size(fields state.Mask) int
	// appendTo appends fields as encoded last.
	appendTo(b []byte, fields state.Mask) []byte

	// remember keeps, on a client, what the struct is before something is read into it.
	remember()
	// read fills in a field.
	read(b []byte, field int) (rest []byte, err error)
	// tell runs OnRep when there is one, and the struct is no longer what was remembered; or names an actor that has come or gone,
	// unless it is 0.
	tell(w *World, moved Ref)
	// file enters the replica, on a client, under the actors that it names now, or under none any more.
	file(under refs.Index[Ref, replica], any bool)
}

// replicaOf is a replica with its types.
type replicaOf[T, S any] struct {
	bound  *boundState[T, S]
	object T
	live   *S            // in the game's object
	value  reflect.Value // *live
	last   S             // server: as encoded last; client: as remembered
	shadow state.Shadow  // server
	filed  []Ref         // client: under which it is filed
	named  []Ref         // scratch
}

func (r *replicaOf[T, S]) declaration() *declaredState { return r.bound.declared }

func (r *replicaOf[T, S]) changed() bool {
	return !r.bound.declared.plan.Comparable() || !r.same()
}

// same compares memory: it takes a few ns where a comparison field by field takes ten times that, and most states do not change
// at most ticks. Bytes between fields may differ without meaning, which encode finds out.
func (r *replicaOf[T, S]) same() bool {
	size := unsafe.Sizeof(r.last)
	return bytes.Equal(unsafe.Slice((*byte)(unsafe.Pointer(r.live)), size), unsafe.Slice((*byte)(unsafe.Pointer(&r.last)), size))
}

func (r *replicaOf[T, S]) differs() bool { return r.shadow.Differs(r.bound.declared.plan, r.value) }

func (r *replicaOf[T, S]) encode() (state.Mask, error) {
	changed, err := r.shadow.Update(r.bound.declared.plan, r.value)
	// An assignment leaves out the bytes between fields, which same would find different again at each Flush.
	reflect.ValueOf(&r.last).Elem().Set(r.value)
	return changed, err
}

func (r *replicaOf[T, S]) size(fields state.Mask) int { return r.shadow.Size(fields) }

func (r *replicaOf[T, S]) appendTo(b []byte, fields state.Mask) []byte {
	return r.shadow.Append(b, fields)
}

func (r *replicaOf[T, S]) remember() { r.last = *r.live }

func (r *replicaOf[T, S]) read(b []byte, field int) ([]byte, error) {
	return r.bound.declared.plan.Read(b, r.value, field)
}

func (r *replicaOf[T, S]) tell(w *World, moved Ref) {
	if r.bound.onRep == nil || moved == 0 && r.unchanged() {
		return
	}
	old := r.last
	var none S
	r.last = none // what it refers to may go
	w.game.Doing = tasks.Doing{What: "OnRep of ", Of: r.bound.declared.class}
	r.bound.onRep(r.object, old)
}

// unchanged compares, on a client, by value.
func (r *replicaOf[T, S]) unchanged() bool {
	if r.bound.declared.plan.Comparable() && r.same() {
		return true
	}
	return reflect.DeepEqual(*r.live, r.last)
}

func (r *replicaOf[T, S]) file(under refs.Index[Ref, replica], any bool) {
	r.named = r.named[:0]
	if any {
		r.bound.declared.plan.References(r.value, func(_ int, id uint64) { r.named = append(r.named, Ref(id)) })
	}
	r.filed = under.Refile(r, r.filed, r.named)
}
