package chunk

import "time"

// assembly is a chunk that a receiver puts together, or has put together.
type assembly struct {
	ackable
	received Bits
	got      int    // how many slices came
	size     int    // bytes of the chunk; 0 = the last slice has not come
	data     []byte // memory for all slices
}

// ackable is what acks need to know of a chunk, even after it was taken.
type ackable struct {
	acked time.Duration // when its last ack left
	count uint16        // how many slices it has; 0 = no chunk
	due   due
}

// due says when an ack is due.
type due uint8

const (
	quiet  due = iota
	soon       // Config.AckDelay after the last one
	atOnce     // because the chunk is complete and no ack has said so yet, or by Restart or Repeat
)

// complete reports whether all slices are there.
func (a *assembly) complete() bool { return a.count > 0 && a.got == int(a.count) }

// insert copies a slice to its place. It returns false if the slice was there already.
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
