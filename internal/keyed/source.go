package keyed

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/quivernet/quiver/internal/state"
)

// An update of a list consists of a mask and of items up to the end of the message. Each item
// begins with a varint, which is twice the item's number, plus one if the item was removed.
// Otherwise the item's key and value follow.
//
// A varint of 0 begins a census instead. It consists of the first and the last number of a range,
// the number of items in that range, and for each of them the difference between its number and
// the previous one's, or for the first of them, the first number of the range. Any other item in
// the range was removed. A server sends a census if a client couldn't keep updates that it had
// acknowledged, because they may have contained removals.

// A Source encodes a server's list for its clients. It encodes an item once after each change,
// however many clients there are. It is not safe for concurrent use.
type Source[K comparable, V any] struct {
	list    *List[K, V]
	plan    *state.Plan
	scratch []uint32 // reused by TakeChanged
}

// NewSource returns the Source of a list. plan describes the items.
func NewSource[K comparable, V any](list *List[K, V], plan *state.Plan) Source[K, V] {
	return Source[K, V]{list: list, plan: plan}
}

// Watch sets whether any client has the list. While none has it, changes aren't recorded.
func (s *Source[K, V]) Watch(on bool) {
	s.list.watched = on
	if !on {
		for _, item := range s.list.items {
			item.dirty = false
		}
		s.list.changed = s.list.changed[:0]
	}
}

// Changed reports whether items were set or removed since the last TakeChanged.
func (s *Source[K, V]) Changed() bool { return len(s.list.changed) > 0 }

// TakeChanged encodes the items that were set since the last call. It returns the numbers of those
// whose encoding has changed and of those that were removed, in a slice that is valid until the
// next call. The error names the items that can't be encoded, of which clients keep the last
// value.
func (s *Source[K, V]) TakeChanged() (numbers []uint32, err error) {
	numbers = s.scratch[:0]
	for _, number := range s.list.changed {
		item := s.list.find(number)
		if item == nil {
			numbers = append(numbers, number) // removed
			continue
		}
		item.dirty = false
		changed, itemErr := s.encodeItem(item)
		err = errors.Join(err, itemErr)
		if changed && item.encoded {
			numbers = append(numbers, number)
		}
	}
	s.scratch = numbers
	s.list.changed = s.list.changed[:0]
	return numbers, err
}

// encodeItem encodes an item into its shadow. changed is true if the encoding has changed.
func (s *Source[K, V]) encodeItem(item *item[K, V]) (changed bool, err error) {
	mask, err := item.shadow.Update(s.plan, reflect.ValueOf(&item.pair).Elem())
	if err != nil {
		return false, fmt.Errorf("item %v: %w", item.pair.Key, err)
	}
	changed = mask != 0 || !item.encoded
	item.encoded = true
	return changed, nil
}

// EncodeAll encodes all items. The owner calls it when the first client gets the list, because
// TakeChanged doesn't know about items that were set while no client had it.
func (s *Source[K, V]) EncodeAll() (err error) {
	for _, item := range s.list.items {
		_, itemErr := s.encodeItem(item)
		err = errors.Join(err, itemErr)
	}
	return err
}

// Numbers appends the numbers of all encoded items, in order, to into.
func (s *Source[K, V]) Numbers(into []uint32) []uint32 {
	into = slices.Grow(into, len(s.list.items))
	for _, item := range s.list.items {
		if item.encoded {
			into = append(into, item.number)
		}
	}
	return into
}

// AppendItem appends the last encoding of an item to b, or a removal if there is no such item.
func (s *Source[K, V]) AppendItem(b []byte, number uint32) []byte {
	item := s.list.find(number)
	if item == nil || !item.encoded {
		return binary.AppendUvarint(b, uint64(number)<<1|1)
	}
	b = binary.AppendUvarint(b, uint64(number)<<1)
	return item.shadow.Append(b, s.plan.All())
}
