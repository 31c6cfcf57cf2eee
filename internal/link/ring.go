package link

import (
	"sync"
	"sync/atomic"

	"github.com/quivernet/quiver/internal/recovery"
)

// RingBytes is the maximum number of bytes of received datagrams that wait for the machines.
// Datagrams that don't fit are dropped. There is room for about 800 full datagrams, which is six
// times as many as quic-go's own queue holds, and as many as arrive in 8 ms at the highest rate
// that quic-go reaches.
const RingBytes = 1 << 20

const (
	// slotBytes is the size of a datagram's slice header in the ring. It is counted along with
	// the datagram, so that the number of empty datagrams is limited too.
	slotBytes = 24

	// The ring begins with room for firstSlots datagrams, and grows as needed. If it has grown
	// beyond keptSlots, it frees its memory as soon as it's empty again.
	firstSlots = 8
	keptSlots  = 64
)

// A ring is a bounded queue of received datagrams. The reader pushes them, and whoever holds the
// link's lock pops them. The zero ring is empty and takes no memory.
type ring struct {
	mu    sync.Mutex // guards slots and bytes
	slots recovery.Ring[[]byte]
	bytes int // bytes of the datagrams in the ring and their headers, limited by RingBytes

	count   atomic.Int64  // datagrams in the ring; written under mu
	dropped atomic.Uint64 // datagrams dropped because the ring was full
}

// empty reports whether the ring is empty, without taking mu.
func (r *ring) empty() bool { return r.count.Load() == 0 }

// hasDropped reports whether a datagram was ever dropped.
func (r *ring) hasDropped() bool { return r.dropped.Load() > 0 }

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

// pop moves as many of the oldest datagrams into batch as fit, and returns their number.
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
