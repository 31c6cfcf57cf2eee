package rpc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/quivernet/quiver/internal/refs"

	"github.com/quivernet/quiver/internal/state"
)

// An update of a list holds, behind its mask, items to the end of the message: each a varint of its number times two, plus one when
// it is gone, and the key and value of one that is not. In place of a number, 0 begins a census: a first and a last number, how
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
	changes []ListChange[K, V]  // not told
	gone    map[uint32]struct{} // items that late packets must not bring back
	graves  []tombstone         // of them, in the order in which they went
	filed   []Ref
	named   []Ref // scratch
}

// tombstone is an item that is gone, and the packet that said so.
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
		if err = errors.Join(err, failed); changed && item.sound {
			numbers = append(numbers, number)
		}
	}
	r.scratch, r.list.changed = numbers, r.list.changed[:0]
	return numbers, err
}

func (r *listReplica[T, K, V]) encodeItem(item *listItem[K, V]) (changed bool, err error) {
	mask, err := item.shadow.Update(r.bound.declared.plan, reflect.ValueOf(&item.pair).Elem())
	if err != nil {
		return mask != 0, fmt.Errorf("item %v: %w", item.pair.Key, err)
	}
	changed, item.sound = mask != 0 || !item.sound, true
	return changed, nil
}

// encode encodes all items: of those that were set while nobody had the actor takeChanged does not know.
func (r *listReplica[T, K, V]) encode() (changed state.Mask, err error) {
	for _, item := range r.list.items {
		_, failed := r.encodeItem(item)
		err = errors.Join(err, failed)
	}
	return 0, err
}

func (r *listReplica[T, K, V]) numbers(into []uint32) []uint32 {
	for _, item := range r.list.items {
		if item.sound {
			into = append(into, item.number)
		}
	}
	return into
}

func (r *listReplica[T, K, V]) appendItem(b []byte, number uint32) []byte {
	item := r.list.find(number)
	if item == nil || !item.sound {
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
	censuses := 0
	for len(b) > 0 {
		head, n := binary.Uvarint(b)
		number := head >> 1
		if n <= 0 || number >= censusBit || head == 1 {
			return fmt.Errorf("item %d of %v", number, r.bound.declared)
		}
		var err error
		switch b = b[n:]; {
		case number == 0 && censuses == maxCensuses:
			err = fmt.Errorf("more than %d censuses of %v", maxCensuses, r.bound.declared)
		case number == 0:
			censuses++
			b, err = r.readCensus(b, packet)
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
	item := r.list.find(number)
	if item != nil && item.packet == 0 && item.pair.Key != fresh.pair.Key {
		r.list.renumber(item)
		item = nil
	}
	if item != nil {
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
	if _, gone := r.gone[number]; gone {
		return b, nil
	}
	if r.enter(fresh); len(r.list.items) > maxHeld {
		return nil, fmt.Errorf("%v has more than %d items", r.bound.declared, maxHeld)
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
		if other.packet > 0 { // else the number is the client's own, and the server may yet use it
			r.bury(other.number, item.packet)
		}
	}
	r.list.add(item)
	r.list.last = max(r.list.last, item.number)
	r.note(change)
}

func (r *listReplica[T, K, V]) readGone(number uint32, packet uint64) {
	if _, gone := r.gone[number]; gone {
		return
	}
	r.bury(number, packet)
	if item := r.list.find(number); item != nil {
		r.list.remove(item)
		r.note(ListChange[K, V]{Key: item.pair.Key, Value: item.pair.Value, Removed: true})
	}
}

// readCensus removes what is not in it and came before it.
func (r *listReplica[T, K, V]) readCensus(b []byte, packet uint64) ([]byte, error) {
	var head [3]uint64 // first, last, count
	for i := range head {
		v, n := binary.Uvarint(b)
		if n <= 0 || v >= censusBit {
			return nil, fmt.Errorf("census of %v", r.bound.declared)
		}
		head[i], b = v, b[n:]
	}
	first, last, count := head[0], head[1], head[2]
	if count > uint64(len(b)) {
		return nil, fmt.Errorf("census of %v: %d numbers in %d bytes", r.bound.declared, count, len(b))
	}
	kept, number := make(map[uint32]bool, count), first
	for range count {
		v, n := binary.Uvarint(b)
		if number += v; n <= 0 || number > last {
			return nil, fmt.Errorf("census of %v, from %d to %d: number %d", r.bound.declared, first, last, number)
		}
		kept[uint32(number)], b = true, b[n:]
	}
	at, _ := r.list.place(uint32(first))
	for _, item := range slices.Clone(r.list.items[at:]) {
		if uint64(item.number) > last {
			break
		}
		if item.packet < packet && !kept[item.number] {
			r.readGone(item.number, packet)
		}
	}
	return b, nil
}

func (r *listReplica[T, K, V]) bury(number uint32, packet uint64) {
	if r.gone == nil {
		r.gone = make(map[uint32]struct{})
	}
	r.gone[number] = struct{}{}
	r.graves = append(r.graves, tombstone{number, packet})
}

const (
	// packetsBack is how late a packet may be that is still taken: older ones are dropped as duplicates.
	packetsBack = 8192
	// maxHeld items at most are in a client's list: those that are gone may be told later than those that took their place, and what
	// the client set itself counts too.
	maxHeld = 4 * maxItems
	// maxGraves are remembered: what a hostile server says to be gone must not fill a client's memory.
	maxGraves = 16 * maxItems
	// maxCensuses are in one update: a full one takes 200 bytes at least.
	maxCensuses = 8
)

// forget forgets the items that were gone before any packet left that may still come.
func (r *listReplica[T, K, V]) forget(packet uint64) {
	n := max(0, len(r.graves)-maxGraves)
	for n < len(r.graves) && r.graves[n].packet+packetsBack < packet {
		n++
	}
	for _, grave := range r.graves[:n] {
		delete(r.gone, grave.number)
	}
	r.graves = slices.Delete(r.graves, 0, n)
}

func (r *listReplica[T, K, V]) note(change ListChange[K, V]) {
	if r.bound.onChange != nil {
		r.changes = append(r.changes, change)
	}
}

func (r *listReplica[T, K, V]) tell(w *World, moved Ref) {
	w.doing = activity{what: "OnList of ", class: r.bound.declared.class}
	if moved != 0 {
		r.tellMoved(moved)
		return
	}
	for len(r.changes) > 0 {
		change := r.changes[0]
		r.changes = r.changes[1:]
		r.bound.onChange(r.object, change)
	}
	r.changes = nil
}

// tellMoved tells the items that name an actor which has come or gone.
func (r *listReplica[T, K, V]) tellMoved(moved Ref) {
	if r.bound.onChange == nil {
		return
	}
	for _, item := range slices.Clone(r.list.items) {
		names := false
		r.bound.declared.plan.References(reflect.ValueOf(&item.pair).Elem(), func(_ int, id uint64) { names = names || Ref(id) == moved })
		if names && r.list.byKey[item.pair.Key] == item {
			r.bound.onChange(r.object, ListChange[K, V]{Key: item.pair.Key, Value: item.pair.Value})
		}
	}
}

func (r *listReplica[T, K, V]) file(under refs.Index[Ref, replica], any bool) {
	if !r.bound.declared.refers {
		return
	}
	r.named = r.named[:0]
	for _, item := range r.list.items {
		if any {
			r.bound.declared.plan.References(reflect.ValueOf(&item.pair).Elem(), func(_ int, id uint64) { r.named = append(r.named, Ref(id)) })
		}
	}
	r.filed = under.Refile(r, r.filed, r.named)
}
