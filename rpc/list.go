package rpc

import (
	"fmt"
	"iter"
	"math/bits"

	"github.com/quivernet/quiver/internal/keyed"
	"github.com/quivernet/quiver/internal/refs"
	"github.com/quivernet/quiver/internal/state"
	"github.com/quivernet/quiver/internal/tasks"
	"github.com/quivernet/quiver/internal/words"
)

// A List is an ordered map that the server replicates item by item. It is a field of one of the
// game's own objects, and its zero value is an empty list. UE (Unreal Engine's counterpart):
// FFastArraySerializer.
//
// Only changed items and removals are sent, and they are resent until the client has them. The
// order of the items may differ between the two ends.
//
// The open carries the items that the list has at that time, so a client's object has them before
// any call, like the fields of a [State]. It carries up to 16 KiB of items of all lists of the
// actor, or less if Config.Bunch.MaxBunch or a quarter of ReliableBuffer is smaller, or if the
// client has yet to acknowledge almost 256 KiB of other opens and reliable calls. The other items
// follow in updates once the client has acknowledged the open, and so do later changes.
//
// The methods of a List must be called on the world's goroutine. They keep track of changes, so
// that no tick has to compare a long list.
type List[K comparable, V any] struct{ items keyed.List[K, V] }

// isList tells a List from other structs: see findList.
func (*List[K, V]) isList() {}

// Len returns the number of items.
func (l *List[K, V]) Len() int { return l.items.Len() }

// Get returns the value of a key, or false if the list doesn't have it. Don't change what the value
// refers to, such as the elements of a slice, because only [List.Set] notices changes.
func (l *List[K, V]) Get(key K) (V, bool) { return l.items.Get(key) }

// All yields the items in the order in which their keys were first set. The list may change
// during the iteration. Items added then may or may not be yielded.
func (l *List[K, V]) All() iter.Seq2[K, V] { return l.items.All() }

// Set sets the value of a key.
//
// A list has at most 2,048 keys at a time, and at most 2,147,483,647 keys in its lifetime. If a
// new key would exceed either limit, Set returns ErrTooLong and changes nothing.
//
// On a client, Set only changes the copy, and only until the server changes the item.
//
// If a key or value can't be encoded, for example because a string exceeds its bound, no client
// gets the item: [Spawn] fails, or the next Flush logs the error.
func (l *List[K, V]) Set(key K, value V) error {
	if !l.items.Set(key, value) {
		return errorf("rpc: Set of new key %v: list has %s; the limits are %d at a time and %d in its lifetime: %w",
			key, words.Plural(l.Len(), "key", "keys"), keyed.MaxItems, keyed.MaxEver, ErrTooLong)
	}
	return nil
}

// Delete removes an item and reports whether there was one.
func (l *List[K, V]) Delete(key K) bool { return l.items.Delete(key) }

// A ListState is a declared [List] of a class.
type ListState[K comparable, V any] struct{ declared *declaredState }

// NewList declares that actors of class have a list of the given name, with keys of type K and
// values of type V. It panics if K or V can't be replicated.
//
// The encoding of an item has at most 1,000 bytes. K and V may be of the same types as the fields
// of a [State], but without conditions. K may be a [Ref], but must not contain floats.
//
// A string or slice needs a tag with its bound, so it must be the field of a struct. For example,
// K can be struct{ Name string `quiver:"max=32"` }.
func NewList[K comparable, V any](class *Class, name string) *ListState[K, V] {
	mustName("list", name)
	mustDeclare(fmt.Sprintf("list %q", name), class)
	plan, err := keyed.Compile[K, V](refType)
	if err != nil {
		panic(fmt.Sprintf("rpc: NewList(%s, %q): %v", class.name, name, err))
	}
	root := class.root()
	d := &declaredState{class: class, count: 1, plan: plan, name: name, list: bits.OnesCount64(uint64(root.lists))}
	for i := range plan.NumFields() {
		d.refers = d.refers || plan.Field(i).Reference
	}
	class.addState(d)
	root.lists |= d.mask()
	return &ListState[K, V]{d}
}

// ReplicateList makes b replicate the list s. where returns the list in an object, and is called
// once for each object, like the function passed to [Replicate].
func ReplicateList[T any, K comparable, V any](b *Binding[T], s *ListState[K, V], where func(object T) *List[K, V]) {
	d := s.declared
	mustBind(b.untyped, d, "ReplicateList")
	mustHook("ReplicateList", d, where == nil, b.untyped.states[d.id] != nil)
	mustBeUnused("ReplicateList", d, b.untyped)
	b.untyped.states[d.id] = &boundList[T, K, V]{declared: d, where: where}
}

// A ListChange describes the change of an item on a client. If a key was deleted and set again,
// the item may count as changed rather than added.
type ListChange[K comparable, V any] struct {
	Key            K
	Value          V    // the last value of a removed item
	Added, Removed bool // if both are false, the value has changed
}

// OnList registers fn to run on clients for each item that was added, changed or removed. fn runs
// after all updates in a packet are applied, and for the items of an open after the object's
// constructor and before any call. UE: PostReplicatedAdd, PostReplicatedChange, and
// PreReplicatedRemove, which here runs after the removal.
//
// OnList panics if ReplicateList was not called first, or if the list already has a function.
func OnList[T any, K comparable, V any](b *Binding[T], s *ListState[K, V], fn func(object T, change ListChange[K, V])) {
	bound := mustBeBound[*boundList[T, K, V]](b.untyped, s.declared, "OnList", "ReplicateList")
	mustHook("OnList", s.declared, fn == nil, bound.onChange != nil)
	bound.onChange = fn
}

// A boundList is the result of a call to ReplicateList. It knows where the objects of a binding
// keep the list.
type boundList[T any, K comparable, V any] struct {
	declared *declaredState
	where    func(T) *List[K, V]
	onChange func(T, ListChange[K, V]) // set by OnList; nil if there is none
}

// newReplica makes the replica of an object's list.
func (b *boundList[T, K, V]) newReplica(object any) replica {
	mustHaveObject(object, "ReplicateList", b.declared)
	r := &listReplica[T, K, V]{bound: b, object: object.(T)}
	list := b.where(r.object)
	if list == nil {
		panic(fmt.Sprintf("rpc: ReplicateList(%v): where returned nil", b.declared))
	}
	r.Source = keyed.NewSource(&list.items, b.declared.plan)
	r.copy = keyed.NewCopy(&list.items, b.declared.plan, b.declared)
	return r
}

// An itemReplica is the replica of a list. It has numbered items instead of fields.
type itemReplica interface {
	replica
	keyed.Items

	// Watch starts or stops keeping track of changes. It is called with true when the actor opens
	// for its first connection, and with false once it is no longer open for any connection.
	Watch(on bool)

	// EncodeAll encodes all items, including items that were set while the list wasn't watched.
	EncodeAll() error

	// TakeChanged returns the numbers of the items that were removed or whose encoding has
	// changed. The slice is valid until the next call.
	TakeChanged() ([]uint32, error)

	// readItems applies an update that arrived in the packet with the given number.
	readItems(b []byte, packet uint64) error

	// readOpen applies the items that came with the open.
	readOpen(items []byte) error
}

// A listReplica is the itemReplica for a list with keys of type K and values of type V.
type listReplica[T any, K comparable, V any] struct {
	bound              *boundList[T, K, V]
	object             T
	keyed.Source[K, V]                  // used on the server
	copy               keyed.Copy[K, V] // used on clients
}

func (r *listReplica[T, K, V]) declaration() *declaredState { return r.bound.declared }

func (r *listReplica[T, K, V]) changed() bool { return r.Changed() }
func (r *listReplica[T, K, V]) differs() bool { return r.Changed() }

func (r *listReplica[T, K, V]) encode() (state.Mask, error) { return 0, r.EncodeAll() }

// The following methods of replica concern fields. They do nothing, because a list has items
// instead.

func (r *listReplica[T, K, V]) size(state.Mask) int                         { return 0 }
func (r *listReplica[T, K, V]) appendTo(b []byte, _ state.Mask) []byte      { return b }
func (r *listReplica[T, K, V]) remember()                                   {}
func (r *listReplica[T, K, V]) read(b []byte, _ int) (rest []byte, _ error) { return b, nil }

func (r *listReplica[T, K, V]) readItems(b []byte, packet uint64) error {
	return r.copy.Read(b, packet, r.bound.onChange != nil)
}

func (r *listReplica[T, K, V]) readOpen(items []byte) error {
	return r.copy.ReadOpen(items, r.bound.onChange != nil)
}

func (r *listReplica[T, K, V]) repNotify(w *World, changed Ref) {
	w.game.Doing = tasks.Doing{What: "OnList of ", Of: r.bound.declared.class}
	if changed != 0 {
		r.notifyReferring(changed)
		return
	}
	for change, ok := r.copy.Next(); ok; change, ok = r.copy.Next() {
		r.bound.onChange(r.object, ListChange[K, V](change))
	}
}

// notifyReferring calls OnList's function for the items that refer to the actor ref, which has just
// opened or ended here.
func (r *listReplica[T, K, V]) notifyReferring(ref Ref) {
	if r.bound.onChange == nil {
		return
	}
	for key, value := range r.copy.Naming(uint64(ref)) {
		r.bound.onChange(r.object, ListChange[K, V]{Key: key, Value: value})
	}
}

func (r *listReplica[T, K, V]) unindexReferences(index refs.Index[Ref, replica]) {
	if r.bound.declared.refers {
		// Make the items count as if they no longer referred to anything.
		r.copy.Unname()
		r.indexReferences(index)
	}
}

func (r *listReplica[T, K, V]) indexReferences(index refs.Index[Ref, replica]) {
	if !r.bound.declared.refers {
		return
	}
	r.copy.Renamed(func(id uint64, named bool) {
		if named {
			index.Add(Ref(id), r)
		} else {
			index.Remove(Ref(id), r)
		}
	})
}
