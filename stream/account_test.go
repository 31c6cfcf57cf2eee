package stream

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/chunk"
	"github.com/quivernet/quiver/internal/netsim"
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

// TestAwaitedChunkComesInThoughMemoryIsFull: the budget has nothing left, and content that came before its answer takes what
// the peer was promised. Chunks come in one at a time, in order, whatever arrives first.
func TestAwaitedChunkComesInThoughMemoryIsFull(t *testing.T) {
	const parts = 20
	var config Config
	world := newBudget(config.maxMemory())
	a := newAccount(world, &config)
	require.True(t, a.promise(heldBytes(minPending)))
	require.True(t, world.take(world.free(), world.free()))
	require.True(t, a.hold(heldBytes(minPending)))
	require.False(t, a.hold(1))

	var s slicer
	box, message := &sliceInbox{account: a}, content(awaitedSlices*sliceBytes)
	for range parts {
		require.NoError(t, s.send(newBlock(1), message))
	}
	all := slicesLeft(&s)
	charged, got := a.charged, 0
	for range parts {
		slices.Reverse(all) // the newest first, and then the other way
		for _, slice := range all {
			box.add(netsim.Epoch, slice)
			require.LessOrEqual(t, a.least(), charged)
		}
		for _, m := range box.take() {
			require.True(t, bytes.Equal(message, m))
			box.release(m)
			got++
		}
	}
	require.Equal(t, parts, got)
	require.NotZero(t, box.refused)
	require.Equal(t, charged, a.charged)
	require.Zero(t, world.free())

	t.Log("# the records of the other route have their place, too")
	require.True(t, (&sliceInbox{account: a}).equip())
	a.drop(heldBytes(minPending))
	a.withdraw(heldBytes(minPending))
	require.EqualValues(t, 2*receiverBytes, a.charged)
	a.close()
	require.Equal(t, charged, world.free())
}

// TestAwaitedChunkIsRefusedWithoutRoom: who was promised nothing has no room to go on.
func TestAwaitedChunkIsRefusedWithoutRoom(t *testing.T) {
	var config Config
	world := newBudget(goOnBytes)
	a := newAccount(world, &config)
	box := &sliceInbox{account: a}
	box.add(netsim.Epoch, chunk.Slice{ChunkID: 0, Index: 0, Count: 1, Data: make([]byte, 100)})
	require.EqualValues(t, 1, box.refused)
	require.EqualValues(t, receiverBytes, a.charged)
	require.Empty(t, box.take())
}

// slicesLeft returns all that s has to send.
func slicesLeft(s *slicer) (all []chunk.Slice) {
	for {
		slice, _, ok := s.next(netsim.Epoch)
		if !ok {
			return all
		}
		all = append(all, slice)
	}
}
