// Package keyed replicates a list of keys and values from a server to its clients. It uses no
// clock, goroutine or lock.
//
// The server gives each item a number, which it never reuses. A [Source] finds the items that have
// changed and encodes them. For each client, a [Backlog] keeps track of the items whose newest
// values the client may lack. At the client, a [Copy] applies the updates, some of which may be
// lost or late.
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
	// MaxItems is the maximum number of items in a list. It is the default of Unreal Engine's limit
	// for replicated arrays, net.MaxRepArraySize.
	MaxItems = 2048
	// MaxEver is the maximum number of items in the lifetime of a list, because their numbers must
	// stay below censusBit. It is enough for a thousand new items a second for 24 days.
	MaxEver = censusBit - 1
)

// A List maps keys to values. It remembers which items the game has changed, because comparing a
// long list with its previous content in every tick would take too long.
//
// The zero List is empty. A List is not safe for concurrent use.
type List[K comparable, V any] struct {
	byKey map[K]*item[K, V]
	items []*item[K, V] // in number order
	last  uint32        // number of the newest item

	// On a server.
	changed []uint32 // numbers of items set or removed since the last TakeChanged
	watched bool     // some client has the list, so changes must be recorded; set by Watch

	// On a client.
	written bool // the game has changed the list since Copy last counted its references
}

// An item is a key with its value, and what we know about it.
type item[K comparable, V any] struct {
	number uint32
	pair   pair[K, V]
	dirty  bool // its number is in List.changed

	// On a server.
	shadow  state.Shadow // the item's last encoding
	encoded bool         // the item has been encoded at least once

	// On a client.
	packet uint64 // number of the packet that brought the item; 0 if the game itself set it
}

// pair is the part of an item that is sent.
type pair[K comparable, V any] struct {
	Key   K
	Value V
}

// Compile returns the plan of a list's items. If they can't be replicated, the error tells why.
// reference is the type of references to actors.
func Compile[K comparable, V any](reference reflect.Type) (*state.Plan, error) {
	if err := cmp.Or(checkBound("key", reflect.TypeFor[K]()), checkBound("value", reflect.TypeFor[V]())); err != nil {
		return nil, err
	}
	plan, err := state.Compile(reflect.TypeFor[pair[K, V]](), reference)
	switch {
	case err != nil:
		return nil, err
	case plan.MaxSize() > state.MaxFieldBytes:
		return nil, fmt.Errorf("an item may need %d bytes; the limit is %d", plan.MaxSize(), state.MaxFieldBytes)
	case hasFloats(reflect.TypeFor[K]()):
		return nil, fmt.Errorf("key type %v contains floats: a NaN key could never be found", reflect.TypeFor[K]())
	}
	plan.SetPath(0, itemPath("key", reflect.TypeFor[K]()))
	plan.SetPath(1, itemPath("value", reflect.TypeFor[V]()))
	return plan, nil
}

// itemPath returns what names a key or value of type t in errors. role is key or value.
func itemPath(role string, t reflect.Type) string { return cmp.Or(t.Name(), role) }

// checkBound returns an error if t, the type of a key or value, needs a bound, which it can only
// have as a struct field with a tag.
func checkBound(role string, t reflect.Type) error {
	inner := t
	for inner.Kind() == reflect.Array {
		inner = inner.Elem()
	}
	if kind := inner.Kind(); kind != reflect.String && kind != reflect.Slice {
		return nil
	}
	return fmt.Errorf("%s type %v needs a bound: "+
		"put it in a struct, as in Name string `quiver:\"max=…\"`", role, t)
}

// hasFloats reports whether values of t, which state.Compile has accepted, contain floats.
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

// All yields the items in the order in which their keys were first set. The loop may change the
// list, but items that it adds are not yielded.
func (l *List[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, item := range slices.Clone(l.items) {
			if l.byKey[item.pair.Key] == item && !yield(item.pair.Key, item.pair.Value) {
				return
			}
		}
	}
}

// Set sets the value of a key. If the key is new and would exceed [MaxItems] or [MaxEver], Set
// changes nothing and returns false.
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
	i.pair.Value = value
	l.written = true
	l.markChanged(i)
	return true
}

// Delete removes an item and reports whether there was one.
func (l *List[K, V]) Delete(key K) bool {
	item := l.byKey[key]
	if item != nil {
		l.remove(item)
		l.written = true
		l.markChanged(item)
	}
	return item != nil
}

// add inserts an item in number order.
func (l *List[K, V]) add(i *item[K, V]) {
	if l.byKey == nil {
		l.byKey = make(map[K]*item[K, V])
	}
	l.byKey[i.pair.Key] = i
	at, _ := l.search(i.number)
	l.items = slices.Insert(l.items, at, i)
}

// remove removes an item.
func (l *List[K, V]) remove(i *item[K, V]) {
	if l.byKey[i.pair.Key] == i {
		delete(l.byKey, i.pair.Key)
	}
	if at, ok := l.search(i.number); ok {
		l.items = slices.Delete(l.items, at, at+1)
	}
}

// renumber gives a new number to an item that a client has set itself, because the server has given
// the old number to another item.
func (l *List[K, V]) renumber(i *item[K, V]) {
	l.remove(i)
	l.last++
	i.number = l.last
	l.add(i)
}

// search returns the index of the item with the given number. If there is none, it returns the
// index at which to insert one, and false.
func (l *List[K, V]) search(number uint32) (index int, ok bool) {
	return slices.BinarySearchFunc(l.items, number, func(i *item[K, V], n uint32) int {
		return cmp.Compare(i.number, n)
	})
}

// find returns the item with the given number, or nil if there is none.
func (l *List[K, V]) find(number uint32) *item[K, V] {
	if i, ok := l.search(number); ok {
		return l.items[i]
	}
	return nil
}

// markChanged records that an item was set or removed, unless no client has the list.
func (l *List[K, V]) markChanged(i *item[K, V]) {
	if l.watched && !i.dirty {
		i.dirty = true
		l.changed = append(l.changed, i.number)
	}
}
