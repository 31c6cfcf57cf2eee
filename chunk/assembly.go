package chunk

// An assembly is a chunk that the receiver is assembling, or has assembled but not yet returned.
type assembly struct {
	ackable
	received Bits
	arrived  int    // number of slices in received
	size     int    // chunk size in bytes; 0 until the last slice arrives
	data     []byte // memory for all slices
}

// An ackable is the part of a chunk's state that its acks need. The receiver keeps it after the
// chunk has been taken. It is small because a receiver has maxPipeline of them.
type ackable struct {
	due  due
	last uint8 // index of the last slice
}

// count returns the number of slices, or 0 if there is no chunk.
func (a *ackable) count() int {
	if a.due == unused {
		return 0
	}
	return int(a.last) + 1
}

// A due says when a chunk's next ack is due.
type due uint8

const (
	unused due = iota // there is no chunk
	quiet             // no ack is due
	soon              // Config.AckDelay after the latest ack
	atOnce            // the chunk became complete, or Restart or Repeat was called
)

// complete reports whether all slices of the chunk have arrived.
func (a *assembly) complete() bool { return a.due != unused && a.arrived == a.count() }

// insert copies a slice to its place in data. It returns false if the slice had already arrived.
func (a *assembly) insert(s Slice, sliceSize int) (isNew bool) {
	if a.received.Has(s.Index) {
		return false
	}
	first := s.Index * sliceSize
	copy(a.data[first:], s.Data)
	a.received.Set(s.Index)
	a.arrived++
	if s.last() {
		a.size = first + len(s.Data)
	}
	return true
}
