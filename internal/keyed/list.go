// Package keyed keeps a keyed list at a server and its clients, and encodes its changes. It is pure.
//
// The server gives each item a number that is never used again, and its [Source] says which items have changed. For each client a
// [Lacking] holds the numbers of the items that the client may not have as they are now. A client's [Copy] reads the updates, some of
// which may be lost or overtaken.
package keyed

import (
	"cmp"
	"fmt"
	"iter"
	"reflect"
	"slices"

	"github.com/quivernet/quiver/internal/state"
)

const (
	// MaxItems is how many items a list may have. UE: net.MaxRepArraySize.
	MaxItems = 2048
	// MaxEver is how many items a list may ever have had, so that their numbers stay below censusBit: a thousand a second for 24 days.
	MaxEver = censusBit - 1
)

// List maps keys K to values V. Its methods note changes, so that nobody must compare a long list at each tick. The zero List is empty.
// It is not safe for concurrent use.
type List[K comparable, V any] struct {
	byKey   map[K]*item[K, V]
	items   []*item[K, V] // in the order of their numbers
	last    uint32        // number of the newest item
	changed []uint32      // at a server: numbers of items that were set or removed since TakeChanged last ran
	watched bool          // at a server: some client has the list, so changes are noted in changed
	written bool          // the game has set or removed items since a client's copy last counted its references
}

// item is one item of a list.
type item[K comparable, V any] struct {
	number uint32
	dirty  bool // its number is in changed
	pair   pair[K, V]
	// At a server.
	shadow  state.Shadow // the item as encoded last
	encoded bool         // the item was encoded at least once

	packet uint64 // at a client: number of the packet that brought the item; 0 = the game set it here
}

// pair is the part of an item that travels.
type pair[K comparable, V any] struct {
	Key   K
	Value V
}

// Compile makes the plan of the items, or returns why they cannot travel; reference is the type of references to actors.
func Compile[K comparable, V any](reference reflect.Type) (*state.Plan, error) {
	if err := cmp.Or(bare("key", reflect.TypeFor[K]()), bare("value", reflect.TypeFor[V]())); err != nil {
		return nil, err
	}
	plan, err := state.Compile(reflect.TypeFor[pair[K, V]](), reference)
	switch {
	case err != nil:
		return nil, err
	case plan.Most() > state.MaxField:
		return nil, fmt.Errorf("an item may take %d bytes, at most %d", plan.Most(), state.MaxField)
	case hasFloats(reflect.TypeFor[K]()):
		return nil, fmt.Errorf("%v has floats in it: a key that is NaN would never be found", reflect.TypeFor[K]())
	}
	return plan, nil
}

// bare returns an error for a key or value that needs a bound and is no field, whose tag would give it one.
func bare(role string, t reflect.Type) error {
	inner := t
	for inner.Kind() == reflect.Array {
		inner = inner.Elem()
	}
	if kind := inner.Kind(); kind != reflect.String && kind != reflect.Slice {
		return nil
	}
	return fmt.Errorf("the %s is a %v, which needs a bound: make it the field of a struct, as Name string `quiver:\"max=…\"`", role, t)
}

// hasFloats reports whether values of a type that can travel hold floats.
func hasFloats(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Float32, reflect.Float64:
		return true
	case reflect.Array:
		return hasFloats(t.Elem())
	case reflect.Struct:
		for f := range t.Fields() {
			if hasFloats(f.Type) {
				return true
			}
		}
	}
	return false
}

// Len returns the number of items.
func (l *List[K, V]) Len() int { return len(l.byKey) }

// Get returns the value of a key.
func (l *List[K, V]) Get(key K) (value V, ok bool) {
	if item := l.byKey[key]; item != nil {
		return item.pair.Value, true
	}
	return value, false
}

// All visits the items in the order in which their keys were first set. The list may change meanwhile; items that are added then are
// not visited.
func (l *List[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, item := range slices.Clone(l.items) {
			if l.byKey[item.pair.Key] == item && !yield(item.pair.Key, item.pair.Value) {
				return
			}
		}
	}
}

// Set sets the value of a key. It returns false, and changes nothing, for a new key beyond [MaxItems] or [MaxEver].
func (l *List[K, V]) Set(key K, value V) (ok bool) {
	i := l.byKey[key]
	if i == nil {
		if len(l.byKey) == MaxItems || l.last >= MaxEver {
			return false
		}
		l.last++
		i = &item[K, V]{number: l.last, pair: pair[K, V]{Key: key}}
		l.add(i)
	}
	i.pair.Value, l.written = value, true
	l.touch(i)
	return true
}

// Delete removes an item and reports whether there was one.
func (l *List[K, V]) Delete(key K) bool {
	item := l.byKey[key]
	if item != nil {
		l.remove(item)
		l.written = true
		l.touch(item)
	}
	return item != nil
}

// add inserts an item in the order of numbers.
func (l *List[K, V]) add(i *item[K, V]) {
	if l.byKey == nil {
		l.byKey = make(map[K]*item[K, V])
	}
	l.byKey[i.pair.Key] = i
	at, _ := l.place(i.number)
	l.items = slices.Insert(l.items, at, i)
}

func (l *List[K, V]) remove(i *item[K, V]) {
	if l.byKey[i.pair.Key] == i {
		delete(l.byKey, i.pair.Key)
	}
	if at, ok := l.place(i.number); ok {
		l.items = slices.Delete(l.items, at, at+1)
	}
}

// renumber gives a client's own item another number, because the server has given its number to another item.
func (l *List[K, V]) renumber(i *item[K, V]) {
	l.remove(i)
	l.last++
	i.number = l.last
	l.add(i)
}

// place returns where an item with a number is, or belongs.
func (l *List[K, V]) place(number uint32) (int, bool) {
	return slices.BinarySearchFunc(l.items, number, func(i *item[K, V], n uint32) int { return cmp.Compare(i.number, n) })
}

func (l *List[K, V]) find(number uint32) *item[K, V] {
	if i, ok := l.place(number); ok {
		return l.items[i]
	}
	return nil
}

// touch notes that an item was set or removed, if a client has the list.
func (l *List[K, V]) touch(i *item[K, V]) {
	if l.watched && !i.dirty {
		i.dirty = true
		l.changed = append(l.changed, i.number)
	}
}
