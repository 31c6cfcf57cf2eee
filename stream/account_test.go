package stream

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAllocated compares with the allocator: a slice that append makes has all that was allocated.
func TestAllocated(t *testing.T) {
	zeros := make([]byte, 100<<10)
	for n := 1; n <= len(zeros); n++ {
		took := int64(cap(append([]byte(nil), zeros[:n]...)))
		require.LessOrEqual(t, took, allocated(int64(n)), "%d bytes", n)
		require.LessOrEqual(t, allocated(int64(n)), heldBytes(int64(n)), "%d bytes", n)
	}
}

// newRoom returns an account that may hold so many bytes, without credit, and receivers' own records.
func newRoom(bytes int64) *account {
	return &account{world: newBudget(1 << 40), floor: 1 << 40, early: bytes}
}

// drain takes the messages and releases them.
func (b *sliceInbox) drain() [][]byte {
	whole := b.take()
	for _, m := range whole {
		b.release(m)
	}
	return whole
}
