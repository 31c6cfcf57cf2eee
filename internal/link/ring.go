package link

import (
	"sync"
	"sync/atomic"

	"github.com/quivernet/quiver/internal/recovery"
)

// RingBytes bounds the datagrams that wait for the machines: about 800 of full size, six times what quic-go holds, and
// 8 ms at the fastest rate that its datagrams reach. Past it the newest is dropped.
const RingBytes = 1 << 20

const (
	// slotBytes is charged for a datagram besides its bytes: its place in the ring, which an empty one takes, too.
	slotBytes = 24
	// firstSlots is how many datagrams the ring has room for at first; keptSlots is the most that it has when it is empty.
	firstSlots = 8
	keptSlots  = 64
)

// ring is a queue of datagrams between the reader and the machines. The zero ring is empty and has no memory.
type ring struct {
	mu    sync.Mutex // guards slots and bytes
	slots recovery.Ring[[]byte]
	bytes int // that are charged

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
	*r.slots.Push(firstSlots) = datagram
	r.bytes += len(datagram) + slotBytes
	r.count.Add(1)
}

// pop moves the oldest datagrams into batch and returns how many.
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
