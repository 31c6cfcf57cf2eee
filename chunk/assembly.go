package chunk

import "time"

// An assembly is a chunk that a receiver is assembling, or has assembled.
type assembly struct {
	ackable
	received Bits
	got      int    // how many slices have arrived
	size     int    // bytes of the chunk; 0 = the last slice has not arrived
	data     []byte // memory for all slices
}

// An ackable is what acks need to know of a chunk, even after it was taken.
type ackable struct { // when its last ack was sent
	acked time.Duration // when its last ack left
	count uint16        // number of its slices; 0 = no chunk
	due   due
}

// due says when an ack is due.
type due uint8

const (
	quiet  due = iota
	soon       // Config.AckDelay after the last one
	atOnce     // the chunk is complete and no ack has said so, or Restart or Repeat was called
)

// complete reports whether all slices have arrived.
func (a *assembly) complete() bool { return a.count > 0 && a.got == int(a.count) }

// insert copies a slice to its place. It returns false if the slice had already arrived.
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
