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
	// packetsBack is how far the oldest packet that can still arrive is behind the newest,
	// in packets: a connection drops older ones as duplicates (seenWindow in package bunch).
	packetsBack = 8192
	// maxHeld is how many items a client's list may have. It is more than
	// MaxItems, because new items may arrive before the update that removes
	// others, and items that the client has set itself count, too.
	maxHeld = 4 * MaxItems
	// maxGraves is how many tombstones a client remembers, plus less than a
	// seventh, so that a hostile server's removals cannot fill its memory.
	maxGraves = 16 * MaxItems
	// gravesShare is the least part of the tombstones that forget drops at once, 1/8.
	gravesShare = 8
	// maxCensuses is how many censuses an update may have. No more full ones fit, see censusShare.
	maxCensuses = 8
)

// A Change is a change of an item at a client.
type Change[K comparable, V any] struct {
	Key            K
	Value          V    // the new value, or the last one of a removed item
	Added, Removed bool // both false = the value has changed
}

// A Copy is a client's copy of a server's list. It is not safe for concurrent use.
type Copy[K comparable, V any] struct {
	list *List[K, V]
	plan *state.Plan
	name fmt.Stringer // names the list in errors

	tells   bool                // Read records changes for Next
	changes []Change[K, V]      // not returned by Next yet
	gone    map[uint32]struct{} // numbers of items that late packets must not bring back
	graves  []tombstone         // one for each of gone, in the order in which they were removed
	names   names               // the references in the items
}

// A tombstone records that the server removed item number in a packet.
type tombstone struct {
	number uint32
	packet uint64
}

// NewCopy returns a copy that fills list from updates. plan describes its items.
func NewCopy[K comparable, V any](list *List[K, V], plan *state.Plan, name fmt.Stringer) Copy[K, V] {
	return Copy[K, V]{list: list, plan: plan, name: name}
}

// Read applies an update that arrived in a packet, and records the changes for
// [Copy.Next] if tells is true. After an error the owner must close the
// connection, because no honest server sends such an update.
func (c *Copy[K, V]) Read(b []byte, packet uint64, tells bool) error {
	c.tells = tells
	censuses := 0
	for len(b) > 0 {
		head, n := binary.Uvarint(b)
		number := head >> 1
		if n <= 0 || number >= censusBit || head == 1 {
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

// readItem reads an item after its number, and applies it unless it is outdated.
func (c *Copy[K, V]) readItem(b []byte, number uint32, packet uint64) (_ []byte, err error) {
	fresh := &item[K, V]{number: number, packet: packet}
	for i := range 2 {
		if b, err = c.plan.Read(b, reflect.ValueOf(&fresh.pair).Elem(), i); err != nil {
			return nil, fmt.Errorf("item %d of %v: %w", number, c.name, err)
		}
	}
	if _, gone := c.gone[number]; gone { // if there is an item with that number, the client itself has set it
		return b, nil
	}
	switch item := c.list.find(number); {
	case item == nil:
	case item.packet == 0 && item.pair.Key != fresh.pair.Key:
		c.list.renumber(item)
	case packet < item.packet:
		return b, nil
	case item.pair.Key != fresh.pair.Key:
		return nil, fmt.Errorf("item %d of %v has changed its key", number, c.name)
	default: // its value may be the same: its ack was late, or all items were sent again
		c.noteUnless(item, Change[K, V]{Key: item.pair.Key, Value: fresh.pair.Value})
		c.tally(item, -1)
		item.packet, item.pair = packet, fresh.pair
		c.tally(item, 1)
		return b, nil
	}
	if c.enter(fresh); len(c.list.items) > maxHeld {
		return nil, fmt.Errorf("%v has more than %d items", c.name, maxHeld)
	}
	return b, nil
}

// enter adds an item that is new here. Of two items with the same key, the one
// with the higher number was set later. The other was removed, although the
// update that says so may not have arrived yet.
func (c *Copy[K, V]) enter(item *item[K, V]) {
	switch other := c.list.byKey[item.pair.Key]; {
	case other == nil:
		c.note(Change[K, V]{Key: item.pair.Key, Value: item.pair.Value, Added: true})
	case other.number > item.number && other.packet > 0:
		c.bury(item.number, item.packet)
		return
	default:
		c.noteUnless(other, Change[K, V]{Key: item.pair.Key, Value: item.pair.Value}) // the key may have been removed and set to the same value
		c.list.remove(other)
		c.tally(other, -1)
		if other.packet > 0 { // otherwise its number is the client's own, and the server may use it later
			c.bury(other.number, item.packet)
		}
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
	if item := c.list.find(number); item != nil && item.packet > 0 { // otherwise it is the client's own
		c.list.remove(item)
		c.tally(item, -1)
		c.note(Change[K, V]{Key: item.pair.Key, Value: item.pair.Value, Removed: true})
	}
}

// readCensus removes items that a census leaves out, if they arrived in an
// earlier packet. Items that the client has set itself stay.
func (c *Copy[K, V]) readCensus(b []byte, packet uint64) ([]byte, error) {
	r := wire.Reader{Left: b}
	first, last, count := r.Uvarint(censusBit-1), r.Uvarint(censusBit-1), r.Count(censusBit-1, 1)
	kept, number := make(map[uint32]bool, count), first
	for range count {
		if number += r.Uvarint(censusBit - 1); number > last {
			r.Fail(fmt.Errorf("number %d", number))
			break
		}
		kept[uint32(number)] = true
	}
	if r.Err != nil {
		return nil, fmt.Errorf("census of %v, from %d to %d: %w", c.name, first, last, r.Err)
	}
	at, _ := c.list.place(uint32(first))
	end, _ := c.list.place(uint32(last) + 1)
	var gone []uint32 // a copy of the list's part would take 64 KiB for a census of four bytes, which may remove nothing
	for _, item := range c.list.items[at:max(at, end)] {
		if item.packet > 0 && item.packet < packet && !kept[item.number] {
			gone = append(gone, item.number)
		}
	}
	for _, number := range gone {
		c.readGone(number, packet)
	}
	return r.Left, nil
}

// bury adds a tombstone.
func (c *Copy[K, V]) bury(number uint32, packet uint64) {
	if c.gone == nil {
		c.gone = make(map[uint32]struct{})
	}
	c.gone[number] = struct{}{}
	c.graves = append(c.graves, tombstone{number, packet})
}

// forget drops tombstones from packets older than any that may still arrive, and the oldest beyond
// maxGraves: at least an eighth of all at once, because all others, half a MiB of them, are moved.
func (c *Copy[K, V]) forget(packet uint64) {
	old := func(n int) bool { return n < len(c.graves) && c.graves[n].packet+packetsBack < packet }
	least := len(c.graves) / gravesShare
	n := max(0, len(c.graves)-maxGraves)
	if n < least && !old(least) {
		return
	}
	for old(n) {
		n++
	}
	for _, grave := range c.graves[:n] {
		delete(c.gone, grave.number)
	}
	c.graves = slices.Delete(c.graves, 0, n)
}

// note records a change for Next.
func (c *Copy[K, V]) note(change Change[K, V]) {
	if c.tells {
		c.changes = append(c.changes, change)
	}
}

// noteUnless records a change, unless the item had arrived with the same value.
func (c *Copy[K, V]) noteUnless(item *item[K, V], change Change[K, V]) {
	if c.tells && (item.packet == 0 || !reflect.DeepEqual(item.pair.Value, change.Value)) {
		c.note(change)
	}
}

// Next removes and returns the oldest change that Read has recorded.
func (c *Copy[K, V]) Next() (change Change[K, V], ok bool) {
	if len(c.changes) == 0 {
		c.changes = nil
		return change, false
	}
	change, c.changes = c.changes[0], c.changes[1:]
	return change, true
}

// tally adds by to the count of each reference in an item: 1 for an item that
// was added, -1 for one that was removed.
func (c *Copy[K, V]) tally(item *item[K, V], by int) {
	n := &c.names
	if n.visit == nil {
		n.visit = n.count
	}
	n.by = by
	c.plan.References(reflect.ValueOf(&item.pair).Elem(), n.visit)
}

// Renamed calls visit for each id to which the items have begun to refer since
// the last call, or no longer refer, in the order in which that happened.
func (c *Copy[K, V]) Renamed(visit func(id uint64, named bool)) {
	if c.list.written { // what the game has written was not counted
		c.Unname()
		for _, item := range c.list.items {
			c.tally(item, 1)
		}
	}
	c.names.tell(visit)
}

// Unname makes the next Renamed report that the items refer to nothing, because
// the actor has ended.
func (c *Copy[K, V]) Unname() {
	c.list.written = false
	c.names.empty()
}

// Naming yields the items that contain a reference to id. The list may change during the loop.
func (c *Copy[K, V]) Naming(id uint64) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		names := false
		visit := func(other uint64) { names = names || other == id }
		for _, item := range slices.Clone(c.list.items) {
			names = false
			if c.plan.References(reflect.ValueOf(&item.pair).Elem(), visit); names && c.list.byKey[item.pair.Key] == item && !yield(item.pair.Key, item.pair.Value) {
				return
			}
		}
	}
}
