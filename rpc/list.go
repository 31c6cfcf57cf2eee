package rpc

import (
	"cmp"
	"fmt"
	"iter"
	"reflect"
	"slices"

	"github.com/quivernet/quiver/internal/state"
)

// List is a keyed list that the server replicates item by item: only items that changed travel, removals until the client has
// them, and the order may differ between the ends. UE: FFastArraySerializer. It is a field of the game's own object, ready to use
// as it is, and belongs to the world's goroutine. Its methods say what changes, so that nothing compares a long list at each tick.
type List[K comparable, V any] struct {
	byKey   map[K]*listItem[K, V]
	items   []*listItem[K, V] // in the order of their numbers
	last    uint32            // number of the newest item
	changed []uint32          // server: numbers of items that were set or removed since takeChanged last ran
	watched bool              // server: the actor is open for somebody, so that changes are noted in changed
}

// listItem is one item of a list. Its number is never used again.
type listItem[K comparable, V any] struct {
	number uint32
	dirty  bool // its number is in changed
	pair   pair[K, V]
	shadow state.Shadow // server
	sound  bool         // server: it could be encoded
	packet uint64       // client: that brought it; 0 = the game set it here
}

// pair is how an item travels.
type pair[K comparable, V any] struct {
	Key   K
	Value V
}

// Len returns the number of items.
func (l *List[K, V]) Len() int { return len(l.byKey) }

// Get returns the value of a key.
func (l *List[K, V]) Get(key K) (V, bool) {
	if item := l.byKey[key]; item != nil {
		return item.pair.Value, true
	}
	var none V
	return none, false
}

// All visits the items in the order in which their keys were set first. The list may change meanwhile: an item that comes then is
// visited, or is not.
func (l *List[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, item := range slices.Clone(l.items) {
			if l.byKey[item.pair.Key] == item && !yield(item.pair.Key, item.pair.Value) {
				return
			}
		}
	}
}

// maxItems is how many items a list has. UE: net.MaxRepArraySize.
const maxItems = 2048

// Set sets the value of a key. It returns ErrTooLong, and changes nothing, for one key more than 2,048. On a client it changes the
// copy only, until the server changes the item, or sets its key. A key or value that can not be encoded, such as a string beyond its
// bound, is told in the log at the next Flush, not here.
func (l *List[K, V]) Set(key K, value V) error {
	item := l.byKey[key]
	if item == nil {
		if len(l.byKey) == maxItems {
			return fmt.Errorf("rpc: Set of a new key, %v, in a list of %d: %w", key, maxItems, ErrTooLong)
		}
		l.last++
		item = &listItem[K, V]{number: l.last, pair: pair[K, V]{Key: key}}
		l.add(item)
	}
	item.pair.Value = value
	l.touch(item)
	return nil
}

// Delete removes an item and reports whether there was one.
func (l *List[K, V]) Delete(key K) bool {
	item := l.byKey[key]
	if item != nil {
		l.remove(item)
		l.touch(item)
	}
	return item != nil
}

// add appends an item, in the order of numbers.
func (l *List[K, V]) add(item *listItem[K, V]) {
	if l.byKey == nil {
		l.byKey = make(map[K]*listItem[K, V])
	}
	l.byKey[item.pair.Key] = item
	i, _ := l.place(item.number)
	l.items = slices.Insert(l.items, i, item)
}

func (l *List[K, V]) remove(item *listItem[K, V]) {
	if l.byKey[item.pair.Key] == item {
		delete(l.byKey, item.pair.Key)
	}
	if i, ok := l.place(item.number); ok {
		l.items = slices.Delete(l.items, i, i+1)
	}
}

// renumber gives a client's own item another number, for the server has given its number to another item.
func (l *List[K, V]) renumber(item *listItem[K, V]) {
	i, _ := l.place(item.number)
	l.items = slices.Delete(l.items, i, i+1)
	l.last++
	item.number = l.last
	l.items = append(l.items, item)
}

// place returns where an item with a number is, or belongs.
func (l *List[K, V]) place(number uint32) (int, bool) {
	return slices.BinarySearchFunc(l.items, number, func(item *listItem[K, V], n uint32) int { return cmp.Compare(item.number, n) })
}

func (l *List[K, V]) find(number uint32) *listItem[K, V] {
	if i, ok := l.place(number); ok {
		return l.items[i]
	}
	return nil
}

// touch notes that an item has to be looked at. While nobody has the actor, there is nobody to tell.
func (l *List[K, V]) touch(item *listItem[K, V]) {
	if l.watched && !item.dirty {
		item.dirty = true
		l.changed = append(l.changed, item.number)
	}
}

// ListState is a declared [List] of a class.
type ListState[K comparable, V any] struct{ declared *declaredState }

// NewList declares that actors of class have a list of V by K under a name. An item is at most 1,000 bytes encoded; K and V are as
// the fields of a [State], without conditions, and K, which may be a [Ref], has no floats. It panics when they can not be replicated.
func NewList[K comparable, V any](class *Class, name string) *ListState[K, V] {
	mustName("list", name)
	plan, err := state.Compile(reflect.TypeFor[pair[K, V]](), refType)
	if err == nil && plan.Most() > state.MaxField {
		err = fmt.Errorf("an item may take %d bytes, at most %d", plan.Most(), state.MaxField)
	}
	if err == nil && hasFloats(reflect.TypeFor[K]()) {
		err = fmt.Errorf("%v has floats in it: a key that is NaN would never be found", reflect.TypeFor[K]())
	}
	if err != nil {
		panic(fmt.Sprintf("rpc: NewList(%s, %q): %v", class.name, name, err))
	}
	d := &declaredState{class: class, id: len(class.root().states), first: class.root().fields, count: 1, plan: plan, name: name, list: class.root().lists}
	for i := range plan.Fields() {
		d.refers = d.refers || plan.Field(i).Reference
	}
	class.root().lists++
	class.addState(d)
	return &ListState[K, V]{d}
}

// hasFloats reports whether values of a type that can travel hold floats.
func hasFloats(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Float32, reflect.Float64:
		return true
	case reflect.Array:
		return hasFloats(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if hasFloats(t.Field(i).Type) {
				return true
			}
		}
	}
	return false
}

// ReplicateList says where objects of b keep the list. It is asked once an object, as the function of [Replicate].
func ReplicateList[T any, K comparable, V any](b *Binding[T], s *ListState[K, V], where func(object T) *List[K, V]) {
	d := s.declared
	mustBind(b.untyped, d, where == nil, "ReplicateList")
	if b.untyped.states[d.id] != nil {
		panic(fmt.Sprintf("rpc: ReplicateList(%v): it is replicated already", d))
	}
	b.untyped.states[d.id] = &boundList[T, K, V]{declared: d, where: where}
}

// ListChange is what has become of an item at a client. An item whose key was set again after a Delete may be told as changed.
type ListChange[K comparable, V any] struct {
	Key            K
	Value          V    // of a removed item the last one
	Added, Removed bool // else changed
}

// OnList makes fn run at clients for each item that came, changed or went, after all of a packet is applied. UE:
// PostReplicatedAdd, PostReplicatedChange, PreReplicatedRemove, which here comes after. It panics unless ReplicateList came
// before, and when the list has one.
func OnList[T any, K comparable, V any](b *Binding[T], s *ListState[K, V], fn func(object T, change ListChange[K, V])) {
	d := s.declared
	mustBind(b.untyped, d, fn == nil, "OnList")
	bound, ok := b.untyped.states[d.id].(*boundList[T, K, V])
	switch {
	case !ok:
		panic(fmt.Sprintf("rpc: OnList(%v): call ReplicateList before", d))
	case bound.onChange != nil:
		panic(fmt.Sprintf("rpc: OnList(%v): it has a function already", d))
	}
	bound.onChange = fn
}

// boundList is where the objects of a binding keep a list.
type boundList[T any, K comparable, V any] struct {
	declared *declaredState
	where    func(T) *List[K, V]
	onChange func(T, ListChange[K, V])
}

func (b *boundList[T, K, V]) of(object any) replica {
	r := &listReplica[T, K, V]{bound: b, object: object.(T)}
	if r.list = b.where(r.object); r.list == nil {
		panic(fmt.Sprintf("rpc: ReplicateList(%v): where returned nil", b.declared))
	}
	return r
}
