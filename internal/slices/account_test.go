package slices

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAllocated compares with the allocator: the capacity of a slice that
// append makes is all that was allocated.
func TestAllocated(t *testing.T) {
	zeros := make([]byte, 100<<10)
	for n := 1; n <= len(zeros); n++ {
		took := int64(cap(append([]byte(nil), zeros[:n]...)))
		require.LessOrEqual(t, took, Allocated(int64(n)), "%d bytes", n)
	}
}
