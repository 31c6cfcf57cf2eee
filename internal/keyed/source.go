package keyed

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"

	"github.com/quivernet/quiver/internal/state"
)

// An update of a list holds, behind its mask, items to the end of the message. Each is a varint of its number times two, plus one if
// the item is gone; otherwise key and value follow. A 0 in place of that begins a census: a first and a last number, how many items
// have numbers from first to last, and the distance of each from the one before; all other items in that range are gone. A server sends
// a census when a client could not keep updates that it acknowledged, which may have held removals.

// Source is the server's end of a list.
type Source[K comparable, V any] struct {
	list    *List[K, V]
	plan    *state.Plan
	scratch []uint32
}

// NewSource returns the source of a list whose items have a plan.
func NewSource[K comparable, V any](list *List[K, V], plan *state.Plan) Source[K, V] {
	return Source[K, V]{list: list, plan: plan}
}

// Watch says whether some client has the list: only then are changes noted.
func (s *Source[K, V]) Watch(on bool) {
	s.list.watched = on
	if !on {
		for _, item := range s.list.items {
			item.dirty = false
		}
		s.list.changed = s.list.changed[:0]
	}
}

// Changed reports whether items were set or removed.
func (s *Source[K, V]) Changed() bool { return len(s.list.changed) > 0 }

// TakeChanged encodes the items that were set, and returns the numbers of those whose encoding has changed and of those that are gone.
// The slice is valid until the next call. The error names items that cannot travel; clients keep their last value.
func (s *Source[K, V]) TakeChanged() (numbers []uint32, err error) {
	numbers = s.scratch[:0]
	for _, number := range s.list.changed {
		item := s.list.find(number)
		if item == nil {
			numbers = append(numbers, number)
			continue
		}
		item.dirty = false
		changed, failed := s.encodeItem(item)
		if err = errors.Join(err, failed); changed && item.sound {
			numbers = append(numbers, number)
		}
	}
	s.scratch, s.list.changed = numbers, s.list.changed[:0]
	return numbers, err
}

func (s *Source[K, V]) encodeItem(item *item[K, V]) (changed bool, err error) {
	mask, err := item.shadow.Update(s.plan, reflect.ValueOf(&item.pair).Elem())
	if err != nil {
		return mask != 0, fmt.Errorf("item %v: %w", item.pair.Key, err)
	}
	changed, item.sound = mask != 0 || !item.sound, true
	return changed, nil
}

// EncodeAll encodes all items. It is called when a client gets the list: TakeChanged does not know of items that were set while none had
// it.
func (s *Source[K, V]) EncodeAll() (err error) {
	for _, item := range s.list.items {
		_, failed := s.encodeItem(item)
		err = errors.Join(err, failed)
	}
	return err
}

// Numbers appends the numbers of all encoded items, in order.
func (s *Source[K, V]) Numbers(into []uint32) []uint32 {
	for _, item := range s.list.items {
		if item.sound {
			into = append(into, item.number)
		}
	}
	return into
}

// AppendItem appends an item as encoded last, or a removal if there is none.
func (s *Source[K, V]) AppendItem(b []byte, number uint32) []byte {
	item := s.list.find(number)
	if item == nil || !item.sound {
		return binary.AppendUvarint(b, uint64(number)<<1|1)
	}
	b = binary.AppendUvarint(b, uint64(number)<<1)
	return item.shadow.Append(b, s.plan.All())
}
