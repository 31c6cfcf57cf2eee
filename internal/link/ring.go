package link

import (
	"sync"
	"sync/atomic"

	"github.com/quivernet/quiver/internal/recovery"
)

// RingBytes is the most bytes of received datagrams that wait for the machines; datagrams
// that exceed it are dropped. It holds about 800 full datagrams, six times as many as
// quic-go's own queue, which arrive in 8 ms at the highest rate that quic-go reaches.
const RingBytes = 1 << 20

const (
	// slotBytes is what a datagram costs besides its bytes: its slice header in
	// the ring, so that empty datagrams cost something, too.
	slotBytes = 24
	// firstSlots is the ring's first capacity, in datagrams. A ring that
	// becomes empty with a capacity above keptSlots frees its memory.
	firstSlots = 8
	keptSlots  = 64
)

// A ring is the queue of received datagrams between the carrier's reader, which pushes, and the
// goroutine that holds the link's lock, which pops. The zero ring is empty and has no memory.
type ring struct {
	mu    sync.Mutex // guards slots and bytes
	slots recovery.Ring[[]byte]
	bytes int // of all datagrams in the ring, with slotBytes for each

	count   atomic.Int64  // datagrams in the ring; written under mu
	dropped atomic.Uint64 // datagrams that did not fit
}

// empty reports whether the ring is empty, without taking mu.
func (r *ring) empty() bool { return r.count.Load() == 0 }

// push appends a datagram, or drops and counts it if the ring is full.
func (r *ring) push(datagram []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bytes+len(datagram)+slotBytes > RingBytes {
		r.dropped.Add(1)
		return
	}
	*r.slots.Push(firstSlots) = datagram
	r.bytes += len(datagram) + slotBytes
	r.count.Add(1)
}

// pop moves the oldest datagrams into batch, and returns how many it moved.
func (r *ring) pop(batch [][]byte) int {
	if r.empty() {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	n := min(r.slots.Len(), len(batch))
	for i := range n {
		batch[i] = r.slots.Take()
		r.bytes -= len(batch[i]) + slotBytes
	}
	r.count.Add(int64(-n))
	if r.slots.Len() == 0 && r.slots.Cap() > keptSlots {
		r.slots.Trim()
	}
	return n
}
