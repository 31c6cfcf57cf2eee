package slices

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/chunk"
	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/recovery"
	"github.com/quivernet/quiver/internal/testkit"
)

// tiny is a slice that is a whole chunk.
func tiny(id uint16) chunk.Slice { return chunk.Slice{ChunkID: id, Count: 1, Data: []byte{byte(id)}} }

// TestReceiverIsCharged: a receiver takes no more memory than its account is
// charged, whatever the number of its records.
func TestReceiverIsCharged(t *testing.T) {
	const receivers = 64
	for records := leastRecords; records <= Pipeline; records *= 2 {
		account, all := newRoom(1<<20), make([]chunkMemory, receivers)
		before := testkit.Heap()
		for i := range all {
			all[i].account = account
			require.True(t, all[i].ensureReceiver())
			require.True(t, all[i].grow(records-1))
			require.Equal(t, records, all[i].records)
		}
		took := int64(testkit.Heap() - before)
		t.Logf("%d records: %d bytes, charged %d", records, took/receivers, account.borrowed/receivers)
		require.LessOrEqual(t, took, account.borrowed)
		require.GreaterOrEqual(t, took, account.borrowed/2)
		require.Len(t, all, receivers)
	}
}

// lender counts all that was ever borrowed.
type lender struct {
	*room
	lent int64
}

func (l *lender) Borrow(n int64, reserve bool) bool {
	l.lent += n
	return l.room.Borrow(n, reserve)
}

// TestRecordsTakeChunks: a peer lets us add records and free them again, as often
// as it can. It has to complete a chunk for every two of them.
func TestRecordsTakeChunks(t *testing.T) {
	random := testkit.Rand(t)
	account := &lender{room: newRoom(4 << 20)}
	b, delivered := newInbox(account, rareAcks), int64(0)
	for range testkit.Brief(200, 2000) {
		first := b.next
		flight := 1 + random.IntN(1<<random.IntN(11))
		order := random.Perm(flight)
		if random.IntN(2) == 0 { // the farthest first, which is all that it takes
			order = []int{flight - 1}
			for i := range flight - 1 {
				order = append(order, i)
			}
		}
		for _, ahead := range order {
			b.addSlice(netsim.Epoch, tiny(first+uint16(ahead)))
		}
		for i, message := range b.drain() {
			require.Equal(t, []byte{byte(first + uint16(i))}, message)
			delivered++
		}
		require.Equal(t, first+uint16(flight), b.next)
		require.Equal(t, leastRecords, b.memory.records)
		require.EqualValues(t, ReceiverBytes, account.borrowed)
		require.LessOrEqual(t, account.lent, ReceiverBytes+2*recordBytes*delivered)
	}
}

// TestLateSlicesAreAckedAgain: a receiver that has freed its records still acks the
// last 1,024 chunks, whose acks may have been lost.
func TestLateSlicesAreAckedAgain(t *testing.T) {
	b := newInbox(newRoom(4<<20), rareAcks)
	acks := func() (all []uint16) {
		for a, ok := b.nextAck(netsim.Epoch); ok; a, ok = b.nextAck(netsim.Epoch) {
			require.Equal(t, 1, a.Acked.Count())
			all = append(all, a.ChunkID)
		}
		return all
	}
	for id := range uint16(Pipeline) {
		b.addSlice(netsim.Epoch, tiny(Pipeline-1-id))
	}
	require.Len(t, b.drain(), Pipeline)
	require.Len(t, acks(), Pipeline)
	require.Equal(t, leastRecords, b.memory.records)
	for id := range uint16(Pipeline) {
		b.addSlice(netsim.Epoch, tiny(id))
		require.Equal(t, []uint16{id}, acks())
	}
	require.Empty(t, b.drain())
	require.EqualValues(t, ReceiverBytes, b.memory.account.(*room).borrowed)
}

// stingy is an account with memory for a receiver, and for no records beyond its first.
type stingy struct{ *room }

func (s stingy) Borrow(n int64, reserve bool) bool {
	return n == ReceiverBytes && s.room.Borrow(n, reserve)
}

// TestNoRoomForRecords: chunks for whose records there is no memory are refused, as
// the first slice is without memory for the receiver. The peer sends them again, and
// all arrive.
func TestNoRoomForRecords(t *testing.T) {
	const flight = 40
	random := testkit.Rand(t)
	a, b := newFatedEnd(), newFatedEnd()
	b.in.memory.account = stingy{newRoom(8 << 20)}
	now, want, got := netsim.Epoch, [][]byte(nil), [][]byte(nil)
	for range 10 {
		for range flight {
			message := content(1 + random.IntN(2*Size))
			want = append(want, message)
			require.NoError(t, a.Send(message, memory{}))
		}
		lost := false
		for !a.out.idle() {
			a.pass(now, b, func([]byte) bool { // the first slice, at first
				defer func() { lost = true }()
				return !lost
			})
			got = append(got, b.in.drain()...)
			b.pass(now, a, func([]byte) bool { return false })
			now = now.Add(recovery.KeepTime)
			require.NoError(t, a.Advance(now))
			require.NoError(t, b.Advance(now))
		}
	}
	require.NotZero(t, b.in.refused)
	require.Equal(t, want, got)
}
