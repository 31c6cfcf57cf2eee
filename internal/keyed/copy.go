package keyed

import (
	"encoding/binary"
	"fmt"
	"iter"
	"reflect"
	"slices"

	"github.com/quivernet/quiver/internal/state"
	"github.com/quivernet/quiver/internal/wire"
)

const (
	// packetsBack is how many packets an arriving packet can be behind the newest one. Anything
	// older is dropped by the connection as a duplicate (seenWindow in package bunch).
	packetsBack = 8192
	// maxHeld limits the items in a client's list. It exceeds MaxItems, because new items may
	// arrive before the update that removes others, and because the items that the client has
	// set itself count as well.
	maxHeld = 4 * MaxItems
	// maxGraves limits how many tombstones a client remembers, so that a hostile server can't
	// fill its memory with removals. There may be up to a seventh more before we drop some.
	maxGraves = 16 * MaxItems
	// gravesShare is the part of all tombstones that must be droppable before we drop any: 1/8.
	gravesShare = 8
	// maxCensuses limits the censuses in an update. No more of them fit if they are full (see
	// censusShare).
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
// Updates may be lost, and may arrive out of order. The Copy therefore remembers for each item
// which packet brought it, so that an older packet can't overwrite it, and keeps a tombstone for
// each removed item, so that an older packet can't bring it back.
//
// It is not safe for concurrent use.
type Copy[K comparable, V any] struct {
	list *List[K, V]
	plan *state.Plan
	name fmt.Stringer // names the list in errors

	// Changes for Next.
	tells   bool           // Read records them; set by Read
	changes []Change[K, V] // not returned by Next yet

	// Removed items.
	gone   map[uint32]struct{} // their numbers
	graves []tombstone         // one for each number in gone, in order of removal

	names names // counts the references in the items
}

// A tombstone records that the server removed the item with the given number, and in which
// packet it said so.
type tombstone struct {
	number uint32
	packet uint64
}

// NewCopy returns a Copy that fills list from updates. plan describes the items.
func NewCopy[K comparable, V any](list *List[K, V], plan *state.Plan, name fmt.Stringer) Copy[K, V] {
	return Copy[K, V]{list: list, plan: plan, name: name}
}

// Read applies an update that arrived in a packet. If tells is true, it records the changes
// for [Copy.Next]. After an error, the owner must close the connection, because no honest
// server sends such an update.
func (c *Copy[K, V]) Read(b []byte, packet uint64, tells bool) error {
	c.tells = tells
	censuses := 0 // how many there have been in this update
	for len(b) > 0 {
		head, n := binary.Uvarint(b)
		number := head >> 1
		if n <= 0 || number >= censusBit || head == 1 { // head 1 would remove item 0
			return fmt.Errorf("item %d of %v", number, c.name)
		}
		var err error
		switch b = b[n:]; {
		case number == 0 && censuses == maxCensuses:
			err = fmt.Errorf("more than %d censuses of %v", maxCensuses, c.name)
		case number == 0:
			censuses++
			b, err = c.readCensus(b, packet)
		case head&1 != 0:
			c.readGone(uint32(number), packet)
		default:
			b, err = c.readItem(b, uint32(number), packet)
		}
		if err != nil {
			return err
		}
	}
	c.forget(packet)
	return nil
}

// readItem reads the item that follows its number, and applies it unless it is stale.
func (c *Copy[K, V]) readItem(b []byte, number uint32, packet uint64) (_ []byte, err error) {
	fresh := &item[K, V]{number: number, packet: packet}
	for i := range 2 {
		if b, err = c.plan.Read(b, reflect.ValueOf(&fresh.pair).Elem(), i); err != nil {
			return nil, fmt.Errorf("item %d of %v: %w", number, c.name, err)
		}
	}
	if _, gone := c.gone[number]; gone {
		// The server has removed the item since. If there is one with that number, it's the
		// client's own.
		return b, nil
	}
	switch item := c.list.find(number); {
	case item == nil:
		// The item is new.
	case item.packet == 0 && item.pair.Key != fresh.pair.Key:
		// The client has given the same number to an item of its own.
		c.list.renumber(item)
	case packet < item.packet:
		return b, nil // stale
	case item.pair.Key != fresh.pair.Key:
		return nil, fmt.Errorf("item %d of %v has changed its key", number, c.name)
	default:
		// The value may be the same as before, if the ack was late or all items are sent again.
		c.noteUnless(item, Change[K, V]{Key: item.pair.Key, Value: fresh.pair.Value})
		c.tally(item, -1)
		item.packet, item.pair = packet, fresh.pair
		c.tally(item, 1)
		return b, nil
	}
	c.enter(fresh)
	if len(c.list.items) > maxHeld {
		return nil, fmt.Errorf("%v has more than %d items", c.name, maxHeld)
	}
	return b, nil
}

// enter adds an item that is new to the client.
//
// If there already is an item with the same key, the one with the higher number was set later. The
// server must have removed the other one in between, although the update that says so has not
// arrived yet.
func (c *Copy[K, V]) enter(item *item[K, V]) {
	switch other := c.list.byKey[item.pair.Key]; {
	case other == nil:
		c.note(Change[K, V]{Key: item.pair.Key, Value: item.pair.Value, Added: true})
	case other.number > item.number && other.packet > 0:
		// The new item is the one that has been removed.
		c.bury(item.number, item.packet)
		return
	default:
		// The server may have removed the key and set it to the same value again, which is no
		// change to the game.
		c.noteUnless(other, Change[K, V]{Key: item.pair.Key, Value: item.pair.Value})
		c.list.remove(other)
		c.tally(other, -1)
		if other.packet > 0 {
			c.bury(other.number, item.packet)
		} // otherwise the client chose the number itself, and the server may still use it
	}
	c.list.add(item)
	c.tally(item, 1)
	c.list.last = max(c.list.last, item.number)
}

// readGone applies the removal of an item.
func (c *Copy[K, V]) readGone(number uint32, packet uint64) {
	if _, gone := c.gone[number]; gone {
		return
	}
	c.bury(number, packet)
	// The item may not have arrived yet. If packet is 0, it's the client's own and stays.
	if item := c.list.find(number); item != nil && item.packet > 0 {
		c.list.remove(item)
		c.tally(item, -1)
		c.note(Change[K, V]{Key: item.pair.Key, Value: item.pair.Value, Removed: true})
	}
}

// readCensus reads a census, which lists all items in a range of numbers, and removes the items
// that it leaves out. An item from a later packet stays, and so does one that the client has set
// itself.
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
			r.Fail(fmt.Errorf("number %d", number))
			break
		}
		listed[uint32(number)] = true
	}
	if r.Err != nil {
		return nil, fmt.Errorf("census of %v, from %d to %d: %w", c.name, first, last, r.Err)
	}
	at, _ := c.list.place(uint32(first))
	end, _ := c.list.place(uint32(last) + 1)

	// Removing an item changes the list, so collect the numbers first. A copy of that part of the
	// list would do as well, but take 64 KiB for a census of four bytes that may remove nothing.
	var gone []uint32
	for _, item := range c.list.items[at:max(at, end)] {
		if item.packet > 0 && item.packet < packet && !listed[item.number] {
			gone = append(gone, item.number)
		}
	}
	for _, number := range gone {
		c.readGone(number, packet)
	}
	return r.Left, nil
}

// bury adds a tombstone, so that no late packet can bring the item back.
func (c *Copy[K, V]) bury(number uint32, packet uint64) {
	if c.gone == nil {
		c.gone = make(map[uint32]struct{})
	}
	c.gone[number] = struct{}{}
	c.graves = append(c.graves, tombstone{number, packet})
}

// forget drops the tombstones that are no longer needed, because every packet that could bring
// their items back would be dropped as too old, and the oldest ones beyond maxGraves.
//
// All tombstones that remain, up to half a MiB of them, have to be moved. We therefore wait until
// an eighth of them can go at once.
func (c *Copy[K, V]) forget(packet uint64) {
	expired := func(i int) bool {
		return i < len(c.graves) && c.graves[i].packet+packetsBack < packet
	}
	least := len(c.graves) / gravesShare
	n := max(0, len(c.graves)-maxGraves)
	if n < least && !expired(least) {
		return
	}
	for expired(n) {
		n++
	}
	for _, grave := range c.graves[:n] {
		delete(c.gone, grave.number)
	}
	c.graves = slices.Delete(c.graves, 0, n)
}

// note records a change for Next if the owner wants to know about changes.
func (c *Copy[K, V]) note(change Change[K, V]) {
	if c.tells {
		c.changes = append(c.changes, change)
	}
}

// noteUnless records a change of an item, unless the server has already sent the same value.
func (c *Copy[K, V]) noteUnless(item *item[K, V], change Change[K, V]) {
	if c.tells && (item.packet == 0 || !reflect.DeepEqual(item.pair.Value, change.Value)) {
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

// tally counts the references in an item: by is 1 for an item that was added and -1 for one that
// was removed.
func (c *Copy[K, V]) tally(item *item[K, V], by int) {
	n := &c.names
	if n.visit == nil {
		n.visit = n.count
	}
	n.by = by
	c.plan.References(reflect.ValueOf(&item.pair).Elem(), n.visit)
}

// Renamed calls visit for each ID to which the items have begun or ceased to refer since the last
// call, in the order in which that happened.
func (c *Copy[K, V]) Renamed(visit func(id uint64, named bool)) {
	if c.list.written {
		// The game has changed the list by itself, and nobody has counted what it did, so count
		// everything from scratch.
		c.Unname()
		for _, item := range c.list.items {
			c.tally(item, 1)
		}
	}
	c.names.tell(visit)
}

// Unname makes the next Renamed report that the items refer to nothing any more. It is called when
// the actor has ended.
func (c *Copy[K, V]) Unname() {
	c.list.written = false
	c.names.empty()
}

// Naming yields the items that contain a reference to id. The loop may change the list.
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
