package keyed

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"reflect"
	"slices"

	"github.com/quivernet/quiver/internal/state"
	"github.com/quivernet/quiver/internal/wire"
)

const (
	// maxReorder is the maximum number of packets by which an arriving packet can be behind the
	// newest one. The connection drops older packets as duplicates (see seenWindow in package
	// bunch).
	maxReorder = 8192
	// maxCopyItems limits the items in a client's list. It exceeds MaxItems, because new items may
	// arrive before the update that removes others, and because items that the client has set
	// itself count as well.
	maxCopyItems = 4 * MaxItems
	// maxTombstones limits the tombstones in a copy, so that a hostile server can't fill a client's
	// memory with removals. There may be up to a seventh more before any are dropped, because at
	// least 1/tombstoneShare of them are dropped at once.
	maxTombstones  = 16 * MaxItems
	tombstoneShare = 8
	// maxCensuses limits the censuses in an update. No more of them fit if they are full (see
	// censusItemSpace).
	maxCensuses = 8
)

// A Change is a change of an item in a client's list.
type Change[K comparable, V any] struct {
	Key            K
	Value          V    // the new value, or the last value of a removed item
	Added, Removed bool // if both are false, the value has changed
}

// A Copy is a client's replica of a server's list.
//
// Updates may be lost or arrive out of order. The Copy therefore remembers the packet of each
// item, so that an older packet can't overwrite the item, and keeps a tombstone for each removed
// item, so that an older packet can't restore it.
//
// It is not safe for concurrent use.
type Copy[K comparable, V any] struct {
	list *List[K, V]
	plan *state.Plan
	name fmt.Stringer // of the list, for errors

	newest uint64 // number of the newest packet that Read was called for

	// Changes for Next.
	notes   bool           // changes are recorded; set by Read
	changes []Change[K, V] // changes that Next hasn't returned yet

	// Removed items.
	removed    map[uint32]struct{} // their numbers
	tombstones []tombstone         // one for each number in removed, in order of removal

	references references // counts the references in the items
}

// A tombstone records that the server removed an item.
type tombstone struct {
	number uint32 // of the item
	packet uint64 // number of the packet with the removal
}

// NewCopy returns a Copy that fills list from updates. plan describes the items.
func NewCopy[K comparable, V any](list *List[K, V], plan *state.Plan, name fmt.Stringer) Copy[K, V] {
	return Copy[K, V]{list: list, plan: plan, name: name}
}

// Read applies an update that arrived in a packet. If notes is true, it records the changes for
// [Copy.Next]. After an error, the owner must close the connection, because no honest server
// sends such an update.
func (c *Copy[K, V]) Read(b []byte, packet uint64, notes bool) error {
	c.notes = notes
	c.newest = max(c.newest, packet)
	censuses := 0
	for len(b) > 0 {
		head, n := binary.Uvarint(b)
		number := head >> 1
		if n <= 0 || number >= censusBit || head == 1 { // head 1 would remove item 0
			return fmt.Errorf("%v: invalid item number %d", c.name, number)
		}
		var err error
		switch b = b[n:]; {
		case number == 0 && censuses == maxCensuses:
			err = fmt.Errorf("%v: update has more than %d censuses", c.name, maxCensuses)
		case number == 0:
			censuses++
			b, err = c.readCensus(b, packet)
		case head&1 != 0:
			c.readRemoval(uint32(number), packet)
		default:
			b, err = c.readItem(b, uint32(number), packet)
		}
		if err != nil {
			return err
		}
	}
	c.dropTombstones(packet)
	return nil
}

// ReadOpen is like Read, for the items that came with the open of the actor. They are newer than
// everything that arrived before, when the actor was open on an earlier channel, and older than all
// updates to come, because a server sends these once the client has acknowledged the open. The
// number in between needn't be that of a packet.
func (c *Copy[K, V]) ReadOpen(b []byte, notes bool) error {
	packet := c.newest
	if packet < math.MaxUint64 {
		packet++
	}
	return c.Read(b, packet, notes)
}

// readItem reads the item that follows its number, and applies it unless it is stale.
func (c *Copy[K, V]) readItem(b []byte, number uint32, packet uint64) (_ []byte, err error) {
	fresh := &item[K, V]{number: number, packet: packet}
	for i := range 2 {
		if b, err = c.plan.Read(b, reflect.ValueOf(&fresh.pair).Elem(), i); err != nil {
			return nil, fmt.Errorf("%v: item %d: %w", c.name, number, err)
		}
	}
	if _, removed := c.removed[number]; removed {
		// A later packet has removed the item. If there is one with that number, it's the client's
		// own.
		return b, nil
	}
	switch item := c.list.find(number); {
	case item == nil:
		// The item is new.
	case item.packet == 0 && item.pair.Key != fresh.pair.Key:
		// The client has given the number to an item of its own.
		c.list.renumber(item)
	case packet < item.packet:
		return b, nil // stale
	case item.pair.Key != fresh.pair.Key:
		return nil, fmt.Errorf("%v: item %d changed its key", c.name, number)
	default:
		// The value may be the same as before, if the ack was late or all items are sent again.
		c.noteIfNew(item, Change[K, V]{Key: item.pair.Key, Value: fresh.pair.Value})
		c.countReferences(item, -1)
		item.packet = packet
		item.pair = fresh.pair
		c.countReferences(item, 1)
		return b, nil
	}
	c.enter(fresh)
	if len(c.list.items) > maxCopyItems {
		return nil, fmt.Errorf("%v: more than %d items", c.name, maxCopyItems)
	}
	return b, nil
}

// enter adds an item that is new to the client.
//
// If there already is an item with the same key, the one with the higher number was set later, and
// the server must have removed the other one in between. The update with that removal hasn't
// arrived yet.
func (c *Copy[K, V]) enter(item *item[K, V]) {
	switch other := c.list.byKey[item.pair.Key]; {
	case other == nil:
		c.note(Change[K, V]{Key: item.pair.Key, Value: item.pair.Value, Added: true})
	case other.number > item.number && other.packet > 0:
		// The new item is the one that was removed.
		c.addTombstone(item.number, item.packet)
		return
	default:
		// The server may have removed the key and set it to the same value again, which is no
		// change to the game.
		c.noteIfNew(other, Change[K, V]{Key: item.pair.Key, Value: item.pair.Value})
		c.list.remove(other)
		c.countReferences(other, -1)
		if other.packet > 0 {
			c.addTombstone(other.number, item.packet)
		} // otherwise, the client chose the number, and the server may still use it
	}
	c.list.add(item)
	c.countReferences(item, 1)
	c.list.last = max(c.list.last, item.number)
}

// readRemoval applies the removal of an item.
func (c *Copy[K, V]) readRemoval(number uint32, packet uint64) {
	if _, removed := c.removed[number]; removed {
		return
	}
	c.addTombstone(number, packet)
	// The item may not have arrived yet. If its packet is 0, it's the client's own, which stays.
	if item := c.list.find(number); item != nil && item.packet > 0 {
		c.list.remove(item)
		c.countReferences(item, -1)
		c.note(Change[K, V]{Key: item.pair.Key, Value: item.pair.Value, Removed: true})
	}
}

// readCensus applies a census, which lists all items in a range of numbers: it removes the other
// items in the range, except those from later packets and those that the client has set itself.
func (c *Copy[K, V]) readCensus(b []byte, packet uint64) ([]byte, error) {
	r := wire.Reader{Left: b}
	first := r.Uvarint(censusBit - 1)
	last := r.Uvarint(censusBit - 1)
	count := r.Count(censusBit-1, 1)
	listed := make(map[uint32]bool, count)
	number := first
	for range count {
		number += r.Uvarint(censusBit - 1)
		if number > last {
			r.Fail(fmt.Errorf("item %d is out of range", number))
			break
		}
		listed[uint32(number)] = true
	}
	if r.Err != nil {
		return nil, fmt.Errorf("%v: census of items %d to %d: %w", c.name, first, last, r.Err)
	}
	at, _ := c.list.search(uint32(first))
	end, _ := c.list.search(uint32(last) + 1)

	// Removing an item changes the list, so collect the numbers first. Copying that part of the
	// list could take 64 KiB for a census of four bytes that removes nothing.
	var unlisted []uint32
	for _, item := range c.list.items[at:max(at, end)] {
		if item.packet > 0 && item.packet < packet && !listed[item.number] {
			unlisted = append(unlisted, item.number)
		}
	}
	for _, number := range unlisted {
		c.readRemoval(number, packet)
	}
	return r.Left, nil
}

// addTombstone adds a tombstone, so that no late packet can restore the item.
func (c *Copy[K, V]) addTombstone(number uint32, packet uint64) {
	if c.removed == nil {
		c.removed = make(map[uint32]struct{})
	}
	c.removed[number] = struct{}{}
	c.tombstones = append(c.tombstones, tombstone{number, packet})
}

// dropTombstones drops the oldest tombstones beyond maxTombstones, and those that have expired
// because every packet that could restore their items would be dropped as too old.
//
// All remaining tombstones, up to half a MiB, have to be moved. So dropTombstones does nothing
// until 1/tombstoneShare of them have expired.
func (c *Copy[K, V]) dropTombstones(packet uint64) {
	expired := func(i int) bool {
		return i < len(c.tombstones) && c.tombstones[i].packet+maxReorder < packet
	}
	least := len(c.tombstones) / tombstoneShare
	n := max(0, len(c.tombstones)-maxTombstones)
	if n < least && !expired(least) {
		return
	}
	for expired(n) {
		n++
	}
	for _, t := range c.tombstones[:n] {
		delete(c.removed, t.number)
	}
	c.tombstones = slices.Delete(c.tombstones, 0, n)
}

// note records a change for Next, if the owner wants changes to be recorded.
func (c *Copy[K, V]) note(change Change[K, V]) {
	if c.notes {
		c.changes = append(c.changes, change)
	}
}

// noteIfNew records a change of an item, unless the server has already sent the same value.
func (c *Copy[K, V]) noteIfNew(item *item[K, V], change Change[K, V]) {
	if c.notes && (item.packet == 0 || !reflect.DeepEqual(item.pair.Value, change.Value)) {
		c.note(change)
	}
}

// Next removes and returns the oldest recorded change.
func (c *Copy[K, V]) Next() (change Change[K, V], ok bool) {
	if len(c.changes) == 0 {
		c.changes = nil
		return change, false
	}
	change = c.changes[0]
	c.changes = c.changes[1:]
	return change, true
}

// countReferences counts the references in an item. sign is 1 if the item was added, and -1 if it
// was removed.
func (c *Copy[K, V]) countReferences(item *item[K, V], sign int) {
	r := &c.references
	if r.visit == nil {
		r.visit = r.count
	}
	r.sign = sign
	c.plan.References(reflect.ValueOf(&item.pair).Elem(), r.visit)
}

// Renamed calls visit for each ID that the items have begun to name (refer to) or ceased to name
// since the last call, in the order in which that happened.
func (c *Copy[K, V]) Renamed(visit func(id uint64, named bool)) {
	if c.list.written {
		// The game has changed the list itself, which isn't counted, so start over.
		c.Unname()
		for _, item := range c.list.items {
			c.countReferences(item, 1)
		}
	}
	c.references.report(visit)
}

// Unname makes the next Renamed report that the items no longer name anything. It is called when
// the actor has ended.
func (c *Copy[K, V]) Unname() {
	c.list.written = false
	c.references.clear()
}

// Naming yields the items that name id. The loop may change the list.
func (c *Copy[K, V]) Naming(id uint64) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		found := false
		visit := func(other uint64) { found = found || other == id }
		for _, item := range slices.Clone(c.list.items) {
			found = false
			c.plan.References(reflect.ValueOf(&item.pair).Elem(), visit)
			if !found || c.list.byKey[item.pair.Key] != item { // removed during the loop
				continue
			}
			if !yield(item.pair.Key, item.pair.Value) {
				return
			}
		}
	}
}
