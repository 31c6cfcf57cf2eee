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

// A State is a struct of the game's own that the server replicates to every client
// that has the actor. A client has the newest values that it received. UE: the
// replicated properties of a class (DOREPLIFETIME).
//
// The game changes the struct in place. At each Flush the server encodes the
// struct and compares each field with its last encoding. A change below the
// quantum, or from NaN to NaN, therefore sends nothing.
//
// Changed fields are sent to each client after calls and before bulk. Values in
// between may be skipped, and none waits in a reliable buffer. If a packet is lost,
// the newest values of its fields are sent again.
//
// The open carries all fields, so a client's object has them before any call. The exception
// is an actor whose constructor or set made a call on the server: see [Spawn]. Otherwise
// calls and states are not ordered relative to each other.
//
// A client may write to its own copy, for instance to predict. Nobody is told, and what the
// client wrote stays until the server changes that field.
//
// Each field is sent by itself, as properties are in Unreal. After a loss the struct may hold
// fields of different Flushes, a combination that the server never had. Put values that
// belong together, such as a position and its tick, in a nested struct, which is one field.
//
// An array or a slice is also one field: if one element changes, all of it is sent. Elements
// that change one at a time belong in a [List].
//
// Fields may be bools, numbers, strings and slices with a bound, arrays, structs of these,
// [Ref], and types derived from them. A field may take at most 1,000 bytes encoded. If a
// value exceeds its bound in [Spawn], Spawn fails. Later such a value is not sent: clients
// keep the value of the field that they have, and the log says so. Tags, separated by commas:
//
//	quiver:"owner"        only to the owner's client (UE: COND_OwnerOnly)
//	quiver:"skipowner"    to all others (UE: COND_SkipOwner)
//	quiver:"initial"      with the open only (UE: COND_InitialOnly)
//	quiver:"if=name"      while [State.SetCondition] says so (UE: COND_Custom)
//	quiver:"max=16"       bytes of a string, elements of a slice
//	quiver:"quant=0.01"   floats are sent as multiples of it, clamped to the largest; the server's own stays exact (UE: FVector_NetQuantize100)
//	quiver:"range=0:100"  numbers are clamped to it
//	quiver:"unit"         three floats, a direction (UE: FVector_NetQuantizeNormal)
type State[S any] struct{ declared *declaredState }

// declaredState is a State or ListState without its type parameters.
type declaredState struct {
	class *Class
	id    int         // index among the class's states
	first int         // index of its first field among the fields of all states of the class
	count int         // number of fields
	plan  *state.Plan // of the struct, or of a list's items

	// Set for a list only, which has one field.
	name   string
	list   int  // index among the class's lists
	refers bool // its items may contain a Ref
}

// String returns the names of the class and of the struct or list. If the struct type has no
// name, it returns the class and the type itself.
func (d *declaredState) String() string {
	if d.isList() || d.plan.Type().Name() != "" {
		return d.path()
	}
	return shape.Clip(d.path() + d.plan.Type().String())
}

// path returns String as the handshake compares it. It omits the type of a struct that has no
// name, because its text may differ between two programs that agree.
func (d *declaredState) path() string {
	if d.isList() {
		return d.class.name + "." + d.name
	}
	return d.class.name + "." + d.plan.Type().Name()
}

func (d *declaredState) isList() bool { return d.name != "" }

// outline adds the lines of the state to the shape of its class.
func (d *declaredState) outline(s *shape.Shape) {
	kind := "a struct"
	if d.isList() {
		kind = "a list"
	}
	s.Add(d.path(), fmt.Sprintf("state of %d fields, %s", d.count, kind))
	for _, field := range d.plan.Lines() {
		s.Lines = append(s.Lines, d.path()+"."+field)
	}
}

// mask returns the fields of the state, as a mask of the class's fields.
func (d *declaredState) mask() state.Mask { return (1<<d.count - 1) << d.first }

// initial returns the fields of the state that are tagged initial, as
// a mask of the class's fields.
func (d *declaredState) initial() (fields state.Mask) {
	for i := range d.count {
		if d.plan.Field(i).Condition == state.Initial {
			fields |= 1 << (d.first + i)
		}
	}
	return fields
}

// own converts a mask of the class's fields into one of the state's own fields.
func (d *declaredState) own(fields state.Mask) state.Mask { return fields & d.mask() >> d.first }

// NewState declares that actors of class have an S. A class may have several states of
// different types, with at most 64 fields in total. NewState panics if S cannot be
// replicated, or if the class has an S already.
//
// Like methods, states belong in package variables, and the handshake compares them.
func NewState[S any](class *Class) *State[S] {
	mustDeclare("NewState", class)
	plan, err := state.Compile(reflect.TypeFor[S](), reflect.TypeFor[Ref]())
	if err != nil {
		panic(fmt.Sprintf("rpc: NewState for class %s: %v", class.name, err))
	}
	d := &declaredState{class: class, count: plan.Fields(), plan: plan}
	class.addState(d)
	return &State[S]{d}
}

// SetCondition switches the fields of a that are tagged if=name on or off for all clients.
// They are off at first. SetCondition is for the server only, and must be called on the
// world's goroutine. UE: COND_Custom, SetActiveOverride.
func (s *State[S]) SetCondition(a *Actor, name string, on bool) error {
	d := s.declared
	switch {
	case !a.valid():
		return fmt.Errorf("rpc: SetCondition of %s", noActor)
	case !a.world.IsServer():
		return onClient(fmt.Sprintf("SetCondition of %v", a))
	case d.class.root() != a.class:
		return fmt.Errorf("rpc: SetCondition of %v: %v is of another class", d, a)
	case !d.knows(name):
		return fmt.Errorf("rpc: SetCondition of %v: no field is tagged if=%s", d, name)
	default:
		a.setCondition(condition{d.id, name}, on)
	}
	return nil
}

// A condition is a named condition of a state. It is the key of actorStates.conditions.
type condition struct {
	state int // its id
	name  string
}

// setCondition switches a condition. The next Flush then sends what
// each connection may now have.
func (a *Actor) setCondition(c condition, on bool) {
	if a.states.conditions == nil {
		a.states.conditions = make(map[condition]bool)
	}
	a.states.conditions[c] = on
	for _, o := range a.openings {
		o.updateVisible()
	}
}

// knows reports whether a field is tagged if=name.
func (d *declaredState) knows(name string) bool {
	for i := range d.count {
		if f := d.plan.Field(i); f.Condition == state.Custom && f.Custom == name {
			return true
		}
	}
	return false
}

// Replicate makes b replicate s from the struct that where returns. It panics if s is of
// another class, or if b replicates s already.
//
// The world calls where once for each object, right after its constructor. The constructor
// must not return a nil pointer. The struct must stay valid for as long as the actor lives.
//
// Each end calls Replicate for the states that its objects have. A server does not send other
// states, a client skips their updates, and both log a warning once.
func Replicate[T, S any](b *Binding[T], s *State[S], where func(object T) *S) {
	d := s.declared
	mustBind(b.untyped, d, "Replicate")
	mustHook("Replicate", d, where == nil, b.untyped.states[d.id] != nil)
	b.untyped.states[d.id] = &boundState[T, S]{declared: d, where: where}
}

// OnRep makes fn run on clients when fields of s change. old is the previous value
// of s. OnRep panics if Replicate was not called first, or if s has a function
// already. UE: OnRep_X, REPNOTIFY_OnChanged.
//
// fn runs after all updates in a packet are applied. If this Dispatch has
// no time left (see Config.DispatchTime), fn runs in the next one.
// Several OnRep functions run in no defined order.
//
// fn also runs after an object's constructor if the open has other values than
// the constructor left. And it runs when an actor that a [Ref] in s names opens
// or closes here. It never runs on the server.
func OnRep[T, S any](b *Binding[T], s *State[S], fn func(object T, old S)) {
	bound := mustHave[*boundState[T, S]](b.untyped, s.declared, "OnRep", "Replicate")
	mustHook("OnRep", s.declared, fn == nil, bound.onRep != nil)
	bound.onRep = fn
}

// mustBind panics if d is of another class than b.
func mustBind(b *binding, d *declaredState, by string) {
	if d.class != b.class {
		panic(fmt.Sprintf("rpc: %s(%v): the binding is of class %s", by, d, b.class.name))
	}
}

// mustHave returns the keeper of d in b. It panics if d is of another class, or if the
// function named before was not called yet.
func mustHave[K stateKeeper](b *binding, d *declaredState, by, before string) K {
	mustBind(b, d, by)
	keeper, ok := b.states[d.id].(K)
	if !ok {
		panic(fmt.Sprintf("rpc: %s(%v): call %s before", by, d, before))
	}
	return keeper
}

// boundState records a call of Replicate. It finds the struct of a
// declared state in the objects of a binding.
type boundState[T, S any] struct {
	declared *declaredState
	where    func(T) *S
	onRep    func(T, S) // nil = none
}

// stateKeeper is a *boundState or *boundList without its type parameters.
type stateKeeper interface {
	// of makes the replica of an actor's object.
	of(object any) replica
}

// mustKeep panics if a constructor returned a nil pointer. by, which is Replicate or
// ReplicateList, cannot find a state in it.
func mustKeep(object any, by string, d *declaredState) {
	if v := reflect.ValueOf(object); v.Kind() == reflect.Pointer && v.IsNil() {
		panic(fmt.Sprintf("rpc: %s(%v): the constructor of class %s has returned a nil %T, which keeps no state",
			by, d, d.class.name, object))
	}
}

func (b *boundState[T, S]) of(object any) replica {
	mustKeep(object, "Replicate", b.declared)
	r := &replicaOf[T, S]{bound: b, object: object.(T)}
	r.live = b.where(r.object)
	if r.live == nil {
		panic(fmt.Sprintf("rpc: Replicate(%v): where returned nil", b.declared))
	}
	r.value = reflect.ValueOf(r.live).Elem()
	return r
}

// actorStates holds the states of an actor once its objects are made.
// It is used only by the world's goroutine.
type actorStates struct {
	replicas   []replica          // by state id; nil = no object here has the state
	conditions map[condition]bool // server: set by SetCondition; missing = off
	watched    bool               // server: they are in replicator.states
	compared   time.Time          // server: time when a Flush last compared them
	late       time.Duration      // server: delay of that comparison; less than the period
	newest     []uint64           // client: by field, number of the packet that brought its value
}

// present yields the replicas that are not nil.
func (s *actorStates) present(yield func(replica) bool) {
	for _, r := range s.replicas {
		if r != nil && !yield(r) {
			return
		}
	}
}

// of returns the replica of a declared state, or nil if no object here has the state.
func (s *actorStates) of(d *declaredState) replica {
	if s.replicas == nil {
		return nil
	}
	return s.replicas[d.id]
}

// due reports whether a Flush at now may compare the states of actor of, given the minimum
// mean period of their class. If so, it records that the Flush compares them.
//
// If a comparison is late because there was no Flush at the time, the next one may be
// earlier by the same amount. Otherwise a class whose rate is the tick rate would miss
// each tick that a jittering clock makes early.
//
// After a pause, the next comparison is earlier by a part of the period
// that differs between actors. Actors that were spawned or opened together
// are therefore not all sent in the same tick.
func (s *actorStates) due(now time.Time, period time.Duration, of Ref) bool {
	since := now.Sub(s.compared)
	switch {
	case since == 0 && !s.compared.IsZero(): // by this Flush
		return true
	case since < 0 || since >= 3*period:
		// This is the first comparison after a pause, or the game's clock went back. If a
		// tick is early, up to two periods pass without a pause.
		share := float64(uint32(of)*0x9E3779B1) / (1 << 32) // multiples of the golden ratio
		s.late = time.Duration(float64(period) * share)
	case since+s.late < period:
		return false
	default:
		s.late = min(since+s.late-period, period-1)
	}
	s.compared = now
	return true
}

// initial returns the fields that are tagged initial.
func (s *actorStates) initial() (fields state.Mask) {
	for r := range s.present {
		fields |= r.declaration().initial()
	}
	return fields
}

// size returns the number of bytes that fields take in their last encoding.
func (s *actorStates) size(fields state.Mask) (size int) {
	for r := range s.present {
		size += r.size(r.declaration().own(fields))
	}
	return size
}

// appendTo appends the last encoding of fields.
func (s *actorStates) appendTo(b []byte, fields state.Mask) []byte {
	for r := range s.present {
		b = r.appendTo(b, r.declaration().own(fields))
	}
	return b
}

// fitting returns the first of fields that together fit into a
// message of limit bytes, but at least one field.
func (s *actorStates) fitting(fields state.Mask, limit int) (fit state.Mask) {
	if s.size(fields) <= limit {
		return fields
	}
	size := 0
	for i := 0; fields>>i != 0; i++ {
		one := fields & (1 << i)
		size += s.size(one)
		if size > limit && fit != 0 {
			break
		}
		fit |= one
	}
	return fit
}

// unfile is called on a client when the actor ends. It removes the states from copies.referrers.
func (s *actorStates) unfile(c *Conn) {
	for r := range s.present {
		r.file(c.copies.referrers, false)
	}
}

// A replica is one state of one actor. It is used only by the world's goroutine.
type replica interface {
	declaration() *declaredState

	// changed is called on the server. It reports whether the struct may differ from its last
	// encoding. For a struct with slices it is always true.
	changed() bool

	// differs is called on the server. It encodes the struct and reports whether that differs
	// from the last encoding. It does not store the new encoding.
	differs() bool

	// encode is called on the server. It encodes the struct, stores the
	// encoding, and returns the fields that changed.
	encode() (state.Mask, error)

	// size returns the number of bytes that fields take in their last encoding.
	size(fields state.Mask) int

	// appendTo appends the last encoding of fields.
	appendTo(b []byte, fields state.Mask) []byte

	// remember is called on a client before an update is read. It copies the struct for OnRep.
	remember()

	// read decodes a field into the struct.
	read(b []byte, field int) (rest []byte, err error)

	// repNotify calls OnRep's function, if there is one and the struct differs from what was
	// remembered. If moved is not 0, it calls the function in any case: the struct names the
	// actor moved, which has just opened or ended.
	repNotify(w *World, moved Ref)

	// file is called on a client. If on is true, it files the replica under the actors that
	// the replica names now, otherwise under none.
	file(under refs.Index[Ref, replica], on bool)
}

// replicaOf implements replica for a struct of type S.
type replicaOf[T, S any] struct {
	bound  *boundState[T, S]
	object T
	live   *S            // the struct in the game's object
	value  reflect.Value // *live
	last   S             // server: the struct as last encoded; client: the struct as remembered
	shadow state.Shadow  // server: the last encoding
	filed  []Ref         // client: the actors under which it is filed
	named  []Ref         // scratch
}

func (r *replicaOf[T, S]) declaration() *declaredState { return r.bound.declared }

func (r *replicaOf[T, S]) changed() bool {
	return !r.bound.declared.plan.Comparable() || !r.same()
}

// same reports whether live and last have the same memory. This takes a few ns, a tenth of a
// comparison field by field, and most states do not change in most ticks.
//
// Padding between fields may also differ. In that case encode finds that nothing changed.
func (r *replicaOf[T, S]) same() bool {
	size := unsafe.Sizeof(r.last)
	live := unsafe.Slice((*byte)(unsafe.Pointer(r.live)), size)
	last := unsafe.Slice((*byte)(unsafe.Pointer(&r.last)), size)
	return bytes.Equal(live, last)
}

func (r *replicaOf[T, S]) differs() bool { return r.shadow.Differs(r.bound.declared.plan, r.value) }

func (r *replicaOf[T, S]) encode() (state.Mask, error) {
	changed, err := r.shadow.Update(r.bound.declared.plan, r.value)
	// An assignment would not copy the padding between fields, so
	// same would find a difference at each Flush.
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

func (r *replicaOf[T, S]) repNotify(w *World, moved Ref) {
	if r.bound.onRep == nil || moved == 0 && r.unchanged() {
		return
	}
	old := r.last
	var none S
	r.last = none // for the garbage collector
	w.game.Doing = tasks.Doing{What: "OnRep of ", Of: r.bound.declared.class}
	r.bound.onRep(r.object, old)
}

// unchanged reports, on a client, whether live and last have equal values. Only a struct with
// slices needs DeepEqual, which allocates.
func (r *replicaOf[T, S]) unchanged() bool {
	if r.bound.declared.plan.Comparable() {
		return r.same() || r.value.Equal(reflect.ValueOf(&r.last).Elem())
	}
	return reflect.DeepEqual(*r.live, r.last)
}

func (r *replicaOf[T, S]) file(under refs.Index[Ref, replica], on bool) {
	r.named = r.named[:0]
	if on {
		r.bound.declared.plan.References(r.value, func(id uint64) { r.named = append(r.named, Ref(id)) })
	}
	r.filed = under.Refile(r, r.filed, r.named)
}
