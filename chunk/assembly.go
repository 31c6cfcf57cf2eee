package chunk

import "time"

// assembly is a chunk that a receiver puts together, or has put together.
type assembly struct {
	ackable
	received Bits
	got      int    // slices there
	size     int    // bytes of the chunk; 0 = the last slice has not come
	data     []byte // the place of all slices
}

// ackable is what acks need to know of a chunk, also after it was taken.
type ackable struct {
	acked time.Duration // when its last ack left
	count uint16        // slices; 0 = no chunk
	due   due
}

// due says when an ack is due.
type due uint8

const (
	quiet  due = iota
	soon       // the receiver's delay after the last one
	atOnce     // the chunk is complete, and no ack has said so yet
)

// complete reports whether all slices are there.
func (a *assembly) complete() bool { return a.count > 0 && a.got == int(a.count) }

// insert copies a slice to its place; false: it was there.
func (a *assembly) insert(s Slice, sliceSize int) bool {
	if a.received.Has(s.Index) {
		return false
	}
	first := s.Index * sliceSize
	copy(a.data[first:], s.Data)
	a.received.Set(s.Index)
	a.got++
	if s.last() {
		a.size = first + len(s.Data)
	}
	return true
}
