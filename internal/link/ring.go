package link

import (
	"sync"
	"sync/atomic"
)

// RingBytes bounds the datagrams that wait for the machines: about 800 of full size, six times what quic-go holds, and
// 8 ms at the fastest rate that its datagrams reach. Past it the newest is dropped.
const RingBytes = 1 << 20

const (
	// slotBytes is charged for a datagram besides its bytes: its place in the ring, which an empty one takes, too.
	slotBytes = 24
	// firstSlots is the first size of slots; keptSlots is the most that an empty ring keeps.
	firstSlots = 8
	keptSlots  = 64
)

// ring is a queue of datagrams between the reader and the machines. The zero ring is empty and has no memory.
type ring struct {
	mu    sync.Mutex
	slots [][]byte // its length is a power of two, or 0
	head  int      // index of the oldest datagram
	bytes int      // that are charged

	count   atomic.Int64 // datagrams inside; written under mu
	dropped atomic.Uint64
}

func (r *ring) empty() bool { return r.count.Load() == 0 }

// push appends a datagram, or drops and counts it when the ring is full.
func (r *ring) push(datagram []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bytes+len(datagram)+slotBytes > RingBytes {
		r.dropped.Add(1)
		return
	}
	n := int(r.count.Load())
	if n == len(r.slots) {
		r.grow(n)
	}
	r.slots[(r.head+n)&(len(r.slots)-1)] = datagram
	r.bytes += len(datagram) + slotBytes
	r.count.Store(int64(n + 1))
}

// pop moves the oldest datagrams into batch and returns how many.
func (r *ring) pop(batch [][]byte) int {
	if r.empty() {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	left := int(r.count.Load())
	n := min(left, len(batch))
	for i := range n {
		batch[i] = r.slots[r.head]
		r.slots[r.head] = nil
		r.head = (r.head + 1) & (len(r.slots) - 1)
		r.bytes -= len(batch[i]) + slotBytes
	}
	r.count.Store(int64(left - n))
	if left == n && len(r.slots) > keptSlots {
		r.slots, r.head = nil, 0
	}
	return n
}

// grow doubles the slots, of which n are full.
func (r *ring) grow(n int) {
	slots := make([][]byte, max(firstSlots, 2*n))
	for i := range n {
		slots[i] = r.slots[(r.head+i)&(n-1)]
	}
	r.slots, r.head = slots, 0
}
