package fragment

import "time"

// A state is the state of a block.
type state uint8

const (
	empty     state = iota // nothing received
	partial                // some fragments wait for the others
	delivered              // returned by Receive
	dropped                // its other fragments are refused
)

// An entry is one block in the sequence buffer.
type entry struct {
	sequence uint16
	state    state
	count    uint8 // number of fragments in the block, from the first one that arrived
	got      uint8
	tail     uint16 // size of the last fragment in bytes, once it has arrived
	have     [4]uint64

	head       uint16 // of the list of its cells
	prev, next uint16 // in the order of incomplete blocks
	born       time.Time
}

func (e *entry) clear() { *e = entry{head: none, prev: none, next: none} }

func (e *entry) begin(f Fragment, now time.Time) {
	e.sequence, e.state, e.count, e.born = f.Sequence, partial, uint8(f.Count), now
}

func (e *entry) has(index int) bool { return e.have[index/64]&(1<<(index%64)) != 0 }

func (e *entry) add(f Fragment, c uint16) {
	e.have[f.Index/64] |= 1 << (f.Index % 64)
	e.got++
	e.head = c
	if f.Index == f.Count-1 {
		e.tail = uint16(len(f.Data))
	}
}

// link appends an incomplete block to their order.
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

// drop frees the cells of an incomplete block, and removes it from their order.
// Its sequence stays known.
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
