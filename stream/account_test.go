package stream

import (
	"bytes"
	standard "slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/chunk"
	"github.com/quivernet/quiver/internal/budget"
	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/recovery"
	"github.com/quivernet/quiver/internal/slices"
)

// TestHeldBytes: what parts take at the most covers what the allocator does with them.
func TestHeldBytes(t *testing.T) {
	for n := int64(1); n <= 100<<10; n++ {
		require.LessOrEqual(t, slices.Allocated(n), heldBytes(n), "%d bytes", n)
	}
}

// newRoom returns an account that may hold so many bytes, without credit, and
// receivers' own records.
func newRoom(bytes int64) *budget.Account {
	return budget.NewAccount(budget.NewPool(1<<40), budget.Terms{Floor: 1 << 40, Early: bytes, GoOn: goOnBytes})
}

// fullWorld returns an account in a world with no memory left except what that
// account was promised.
func fullWorld(t *testing.T) (*budget.Pool, *budget.Account) {
	var config Config
	world := budget.NewPool(config.maxMemory())
	a := budget.NewAccount(world, config.terms(config.early()))
	require.True(t, a.Promise(heldBytes(minPending)))
	budget.NewAccount(world, budget.Terms{}).MustBorrow(world.Free())
	require.Zero(t, world.Free())
	return world, a
}

// charge is what a takes of its world's memory.
func charge(a *budget.Account) int64 {
	_, charged := a.Charge()
	return charged
}

// TestAwaitedChunkComesInThoughMemoryIsFull: the budget has nothing left, and
// content that arrived before its answer uses what the peer was promised.
// Chunks are accepted one at a time, in order, whatever arrives first.
func TestAwaitedChunkComesInThoughMemoryIsFull(t *testing.T) {
	const parts = 20
	world, a := fullWorld(t)
	require.True(t, a.Hold(heldBytes(minPending), false))
	require.False(t, a.Hold(1, false))

	message := content(largestPartSlices * slices.Size)
	box, messages := slices.New(sliceProtocol, a), [][]byte(nil)
	for range parts {
		messages = append(messages, message)
	}
	all := datagramsOf(t, messages...)
	charged, got := charge(a), 0
	for range parts {
		standard.Reverse(all) // the newest first, and then the other way
		for _, datagram := range all {
			require.NoError(t, box.Receive(netsim.Epoch, datagram))
			require.Equal(t, charged, charge(a))
		}
		for _, m := range box.Take() {
			require.True(t, bytes.Equal(message, m))
			box.Release(m)
			got++
		}
	}
	require.Equal(t, parts, got)
	require.NotZero(t, box.Stats().Refused)
	require.Equal(t, charged, charge(a))
	require.Zero(t, world.Free())

	t.Log("# the records of the other route have their place, too")
	other := slices.New(sliceProtocol, a)
	require.NoError(t, other.Receive(netsim.Epoch, all[len(all)-1]))
	a.Drop(heldBytes(minPending))
	a.Withdraw(heldBytes(minPending))
	require.EqualValues(t, 2*slices.ReceiverBytes, charge(a))
	a.Close()
	require.Equal(t, charged, world.Free())
}

// TestWhatWasPromisedComesInWhileTheRoomIsInUse: promised bytes are already
// charged, and take nothing more of the budget, which has nothing left to
// refill the room that a machine's records use.
func TestWhatWasPromisedComesInWhileTheRoomIsInUse(t *testing.T) {
	_, a := fullWorld(t)
	require.True(t, a.Borrow(slices.ReceiverBytes, true))
	charged := charge(a)
	require.True(t, a.Hold(heldBytes(minPending), false))
	require.False(t, a.Hold(1, false))
	require.Equal(t, charged, charge(a))
}

// TestRecordsRefillTheRoom: while memory is full, a peer makes a machine add records and
// free them again, over and over. They come out of the room to go on and return to it, so
// that the largest chunk is still accepted, and the world lends nothing.
func TestRecordsRefillTheRoom(t *testing.T) {
	world, a := fullWorld(t)
	box, charged, id := slices.New(sliceProtocol, a), charge(a), uint16(0)
	tiny := func(id uint16) {
		s := chunk.Slice{ChunkID: id, Count: 1, Data: []byte{1}}
		require.NoError(t, box.Receive(netsim.Epoch, chunk.Config{SliceSize: slices.Size}.AppendSlice([]byte{sliceProtocol}, s)))
		for _, m := range box.Take() {
			box.Release(m)
		}
	}
	const flight = slices.ReservedRecords
	for range 20 {
		tiny(id + flight - 1)
		what, _ := a.Charge()
		require.EqualValues(t, slices.ReceiverBytes+slices.RecordsBytes, what.Borrowed)
		for range flight {
			tiny(id)
			id++
		}
		what, _ = a.Charge()
		require.EqualValues(t, slices.ReceiverBytes, what.Borrowed)
		require.Equal(t, charged, charge(a))
		require.Zero(t, world.Free())
	}
	require.Zero(t, box.Stats().Refused)

	require.True(t, a.Hold(heldBytes(minPending), false))
	const count = largestPartSlices
	for i := range count {
		s := chunk.Slice{ChunkID: id, Index: i, Count: count, Data: make([]byte, slices.Size)}
		require.NoError(t, box.Receive(netsim.Epoch, chunk.Config{SliceSize: slices.Size}.AppendSlice([]byte{sliceProtocol}, s)))
	}
	require.Len(t, box.Take(), 1)
	require.Zero(t, world.Free())
}

// TestAwaitedChunkIsRefusedWithoutRoom: a connection that was promised nothing
// has no room to go on.
func TestAwaitedChunkIsRefusedWithoutRoom(t *testing.T) {
	var config Config
	a := budget.NewAccount(budget.NewPool(goOnBytes), config.terms(config.early()))
	box := slices.New(sliceProtocol, a)
	require.NoError(t, box.Receive(netsim.Epoch, datagramsOf(t, content(100))[0]))
	require.EqualValues(t, 1, box.Stats().Refused)
	require.EqualValues(t, slices.ReceiverBytes, charge(a))
	require.Empty(t, box.Take())
}

// datagramsOf returns the slices of messages as datagrams.
func datagramsOf(t *testing.T, messages ...[]byte) (all [][]byte) {
	m := slices.New(sliceProtocol, newRoom(0))
	m.SetPath(netsim.Epoch, recovery.Path{Fates: true})
	for _, message := range messages {
		require.NoError(t, m.Send(message, newBlock(1)))
	}
	for {
		datagram, _, ok := m.AppendPacket(netsim.Epoch, nil, slices.Datagram)
		if !ok {
			return all
		}
		all = append(all, datagram)
	}
}
