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
	begunAt    time.Time // when the first fragment arrived
}

// clear makes e the entry of no block.
func (e *entry) clear() { *e = entry{head: none, prev: none, next: none} }

// begin makes e the entry of f's block. f is not stored yet.
func (e *entry) begin(f Fragment, now time.Time) {
	e.sequence = f.Sequence
	e.state = partial
	e.count = uint8(f.Count)
	e.begunAt = now
}

// has reports whether the fragment with an index was received.
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
