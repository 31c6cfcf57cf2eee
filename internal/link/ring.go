package link

import (
	"sync"
	"sync/atomic"

	"github.com/quivernet/quiver/internal/recovery"
)

// RingBytes is the maximum size in bytes of the received datagrams that wait for the
// machines. Any more are dropped. The ring holds about 800 full datagrams, six times as many
// as quic-go's own queue. At the highest rate that quic-go reaches, that many arrive in 8 ms.
const RingBytes = 1 << 20

const (
	// slotBytes is the cost of a datagram besides its bytes: its slice header in the ring. It
	// makes empty datagrams cost something.
	slotBytes = 24
	// firstSlots is the ring's first capacity in datagrams. A ring that becomes empty with a
	// capacity above keptSlots frees its memory.
	firstSlots = 8
	keptSlots  = 64
)

// A ring is the queue of received datagrams. The carrier's reader pushes; the goroutine that
// holds the link's lock pops. The zero ring is empty and has no memory.
type ring struct {
	mu    sync.Mutex // guards slots and bytes
	slots recovery.Ring[[]byte]
	bytes int // size of all datagrams in the ring, with slotBytes for each

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
	last := r.slots.Push(firstSlots)
	*last = datagram
	r.bytes += len(datagram) + slotBytes
	r.count.Add(1)
}

// pop moves the oldest datagrams into batch and returns the number moved.
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
