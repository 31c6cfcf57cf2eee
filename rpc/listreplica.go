package rpc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/quivernet/quiver/internal/state"
)

// An update of a list holds, behind its mask, items to the end of the message: each a varint of its number times two, plus one when
// it is gone, and the key and value of one that is not. In place of a number, 0 begins a roster: a first and a last number, how
// many items there are between them, these included, and the distance of each from the one before: all others of them are gone. It
// follows when a client could not keep what it acknowledged, removals included.

// keeper is a replica of a list.
type keeper interface {
	replica
	// takeChanged returns the numbers of items that have changed as encoded, or are gone. They are valid until the next call.
	takeChanged() ([]uint32, error)
	// numbers appends those of all items, in order.
	numbers(into []uint32) []uint32
	// appendItem appends an item as encoded last, or that it is gone.
	appendItem(b []byte, number uint32) []byte
	// readItems takes an update, which packet brought.
	readItems(b []byte, packet uint64) error
	// watch says whether somebody has the actor.
	watch(on bool)
}

// listReplica is a keeper with its types.
type listReplica[T any, K comparable, V any] struct {
	bound  *boundList[T, K, V]
	object T
	list   *List[K, V]

	scratch []uint32 // server

	// Client.
	changes []ListChange[K, V] // not told
	gone    []tombstone        // in the order of packets
	filed   []Ref
}

// tombstone keeps late packets from bringing back an item that is gone.
type tombstone struct {
	number uint32
	packet uint64
}

func (r *listReplica[T, K, V]) declaration() *declaredState { return r.bound.declared }

func (r *listReplica[T, K, V]) watch(on bool) {
	r.list.watched = on
	if !on {
		for _, item := range r.list.items {
			item.dirty = false
		}
		r.list.changed = r.list.changed[:0]
	}
}

func (r *listReplica[T, K, V]) changed() bool { return len(r.list.changed) > 0 }

func (r *listReplica[T, K, V]) takeChanged() (numbers []uint32, err error) {
	numbers = r.scratch[:0]
	for _, number := range r.list.changed {
		item := r.list.find(number)
		if item == nil {
			numbers = append(numbers, number)
			continue
		}
		item.dirty = false
		changed, failed := r.encodeItem(item)
		if err = errors.Join(err, failed); changed {
			numbers = append(numbers, number)
		}
	}
	r.scratch, r.list.changed = numbers, r.list.changed[:0]
	return numbers, err
}

func (r *listReplica[T, K, V]) encodeItem(item *listItem[K, V]) (changed bool, err error) {
	mask, err := item.shadow.Update(r.bound.declared.plan, reflect.ValueOf(&item.pair).Elem())
	if err != nil {
		err = fmt.Errorf("item %v: %w", item.pair.Key, err)
	}
	return mask != 0, err
}

// encode is for the first look: from then on takeChanged tells.
func (r *listReplica[T, K, V]) encode() (changed state.Mask, err error) {
	for _, item := range r.list.items {
		_, failed := r.encodeItem(item)
		err = errors.Join(err, failed)
	}
	return 0, err
}

func (r *listReplica[T, K, V]) numbers(into []uint32) []uint32 {
	for _, item := range r.list.items {
		into = append(into, item.number)
	}
	return into
}

func (r *listReplica[T, K, V]) appendItem(b []byte, number uint32) []byte {
	item := r.list.find(number)
	if item == nil {
		return binary.AppendUvarint(b, uint64(number)<<1|1)
	}
	b = binary.AppendUvarint(b, uint64(number)<<1)
	return item.shadow.Append(b, r.bound.declared.plan.All())
}

func (r *listReplica[T, K, V]) size(state.Mask) int { return 0 }

func (r *listReplica[T, K, V]) appendTo(b []byte, _ state.Mask) []byte { return b }

func (r *listReplica[T, K, V]) remember() {}

func (r *listReplica[T, K, V]) read(b []byte, _ int) ([]byte, error) { return b, nil }

func (r *listReplica[T, K, V]) readItems(b []byte, packet uint64) error {
	for len(b) > 0 {
		head, n := binary.Uvarint(b)
		number := head >> 1
		if n <= 0 || number >= rosterBit || head == 1 {
			return fmt.Errorf("item %d of %v", number, r.bound.declared)
		}
		var err error
		switch b = b[n:]; {
		case number == 0:
			b, err = r.readRoster(b, packet)
		case head&1 != 0:
			r.readGone(uint32(number), packet)
		default:
			b, err = r.readItem(b, uint32(number), packet)
		}
		if err != nil {
			return err
		}
	}
	r.forget(packet)
	return nil
}

func (r *listReplica[T, K, V]) readItem(b []byte, number uint32, packet uint64) (_ []byte, err error) {
	fresh := &listItem[K, V]{number: number, packet: packet}
	for i := range 2 {
		if b, err = r.bound.declared.plan.Read(b, reflect.ValueOf(&fresh.pair).Elem(), i); err != nil {
			return nil, fmt.Errorf("item %d of %v: %w", number, r.bound.declared, err)
		}
	}
	if item := r.list.find(number); item != nil {
		if packet < item.packet {
			return b, nil
		}
		if item.pair.Key != fresh.pair.Key {
			return nil, fmt.Errorf("item %d of %v has changed its key", number, r.bound.declared)
		}
		item.packet, item.pair = packet, fresh.pair
		r.note(ListChange[K, V]{Key: item.pair.Key, Value: item.pair.Value})
		return b, nil
	}
	if !r.wasGone(number) {
		r.enter(fresh)
	}
	return b, nil
}

// enter adds an item that is new here. Of two with one key the one with the higher number was set later; the other is gone, which
// may not have been told.
func (r *listReplica[T, K, V]) enter(item *listItem[K, V]) {
	other := r.list.byKey[item.pair.Key]
	change := ListChange[K, V]{Key: item.pair.Key, Value: item.pair.Value, Added: true}
	if other != nil {
		if other.number > item.number && other.packet > 0 {
			r.bury(item.number, item.packet)
			return
		}
		change.Added = false
		r.list.remove(other)
		r.bury(other.number, item.packet)
	}
	r.list.add(item)
	r.list.last = max(r.list.last, item.number)
	r.note(change)
}

func (r *listReplica[T, K, V]) readGone(number uint32, packet uint64) {
	if r.wasGone(number) {
		return
	}
	r.bury(number, packet)
	if item := r.list.find(number); item != nil {
		r.list.remove(item)
		r.note(ListChange[K, V]{Key: item.pair.Key, Value: item.pair.Value, Removed: true})
	}
}

// readRoster removes what is not in it and came before it.
func (r *listReplica[T, K, V]) readRoster(b []byte, packet uint64) ([]byte, error) {
	var head [3]uint64 // first, last, count
	for i := range head {
		v, n := binary.Uvarint(b)
		if n <= 0 || v >= rosterBit {
			return nil, fmt.Errorf("roster of %v", r.bound.declared)
		}
		head[i], b = v, b[n:]
	}
	first, last, count := head[0], head[1], head[2]
	if count > uint64(len(b)) {
		return nil, fmt.Errorf("roster of %v: %d numbers in %d bytes", r.bound.declared, count, len(b))
	}
	kept, number := make(map[uint32]bool, count), first
	for range count {
		v, n := binary.Uvarint(b)
		if number += v; n <= 0 || number > last {
			return nil, fmt.Errorf("roster of %v, from %d to %d: number %d", r.bound.declared, first, last, number)
		}
		kept[uint32(number)], b = true, b[n:]
	}
	for _, item := range slices.Clone(r.list.items) {
		if n := uint64(item.number); n >= first && n <= last && item.packet < packet && !kept[item.number] {
			r.readGone(item.number, packet)
		}
	}
	return b, nil
}

func (r *listReplica[T, K, V]) bury(number uint32, packet uint64) {
	r.gone = append(r.gone, tombstone{number, packet})
}

func (r *listReplica[T, K, V]) wasGone(number uint32) bool {
	return slices.ContainsFunc(r.gone, func(t tombstone) bool { return t.number == number })
}

// packetsBack is how late a packet may be that is still taken: older ones are dropped as duplicates.
const packetsBack = 8192

// forget forgets the items that were gone before any packet left that may still come.
func (r *listReplica[T, K, V]) forget(packet uint64) {
	r.gone = slices.DeleteFunc(r.gone, func(t tombstone) bool { return t.packet+packetsBack < packet })
}

func (r *listReplica[T, K, V]) note(change ListChange[K, V]) {
	if r.bound.onChange != nil {
		r.changes = append(r.changes, change)
	}
}

func (r *listReplica[T, K, V]) tell(w *World, even bool) {
	w.doing = activity{what: "OnList of ", class: r.bound.declared.class}
	if even { // an actor that items name has come or gone
		r.tellAll()
		return
	}
	for len(r.changes) > 0 {
		change := r.changes[0]
		r.changes = r.changes[1:]
		r.bound.onChange(r.object, change)
	}
	r.changes = nil
}

// tellAll tells all items that name actors.
func (r *listReplica[T, K, V]) tellAll() {
	if r.bound.onChange == nil {
		return
	}
	for key, value := range r.list.All() {
		r.bound.onChange(r.object, ListChange[K, V]{Key: key, Value: value})
	}
}

func (r *listReplica[T, K, V]) file(under map[Ref][]replica, any bool) {
	r.filed = unfile(under, r.filed, r)
	if !any || !r.bound.declared.refers {
		return
	}
	for _, item := range r.list.items {
		r.bound.declared.plan.References(reflect.ValueOf(&item.pair).Elem(), func(_ int, id uint64) {
			r.filed = fileUnder(under, r.filed, Ref(id), r)
		})
	}
}
