package fragment

import "time"

// A state is the state of a block.
type state uint8

const (
	empty     state = iota // nothing received
	partial                // some fragments received
	delivered              // returned by Receive
	dropped                // given up; further fragments are rejected
)

// An entry is the record of one block.
type entry struct {
	sequence uint16
	state    state
	count    uint8     // number of fragments in the block
	got      uint8     // number of fragments received
	tail     uint16    // size of the last fragment in bytes, once received
	have     [4]uint64 // bit set of the fragments received

	head       uint16    // first cell of the block's data
	prev, next uint16    // neighbors in the list of incomplete blocks, as indexes of entries
	born       time.Time // when the first fragment arrived
}

func (e *entry) clear() { *e = entry{head: none, prev: none, next: none} }

func (e *entry) begin(f Fragment, now time.Time) {
	e.sequence = f.Sequence
	e.state = partial
	e.count = uint8(f.Count)
	e.born = now
}

func (e *entry) has(index int) bool { return e.have[index/64]&(1<<(index%64)) != 0 }

// add records that f was stored in cell c, which is the new head of the block's cells.
func (e *entry) add(f Fragment, c uint16) {
	e.have[f.Index/64] |= 1 << (f.Index % 64)
	e.got++
	e.head = c
	if f.Index == f.Count-1 {
		e.tail = uint16(len(f.Data))
	}
}

// link appends e to the list of incomplete blocks.
func (r *Reassembler) link(e *entry) {
	slot := e.sequence % Window
	e.prev = r.last
	if r.last == none {
		r.first = slot
	} else {
		r.entries[r.last].next = slot
	}
	r.last = slot
}

// drop frees the cells of an incomplete block and removes it from the list. Its sequence
// number stays known, so its other fragments are rejected.
func (r *Reassembler) drop(e *entry) {
	r.cells.put(e.head)
	if e.prev == none {
		r.first = e.next
	} else {
		r.entries[e.prev].next = e.next
	}
	if e.next == none {
		r.last = e.prev
	} else {
		r.entries[e.next].prev = e.prev
	}
	e.head, e.prev, e.next, e.state = none, none, none, dropped
}
