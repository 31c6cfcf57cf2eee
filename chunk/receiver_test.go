package chunk_test

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/chunk"
)

// slicesOf cuts data as a sender does.
func slicesOf(id uint16, data []byte) (all []chunk.Slice) {
	count := (len(data) + 1023) / 1024
	for i := range count {
		all = append(all, chunk.Slice{ChunkID: id, Index: i, Count: count, Data: data[i*1024 : min(len(data), (i+1)*1024)]})
	}
	return all
}

func acks(r *chunk.Receiver, now time.Time) (all []chunk.Ack) {
	for a, ok := r.NextAck(now); ok; a, ok = r.NextAck(now) {
		all = append(all, a)
	}
	return all
}

func TestReceiveInAnyOrder(t *testing.T) {
	r := must(chunk.NewReceiver(chunk.Config{}))
	data := content(3000, 1)
	s := slicesOf(0, data)
	_, _, ok := r.Chunk()
	require.False(t, ok)
	for _, i := range []int{2, 0, 1} {
		_, _, ok := r.Chunk()
		require.False(t, ok)
		require.True(t, r.Insert(epoch, s[i]))
	}
	id, got, ok := r.Chunk()
	require.True(t, ok)
	require.Zero(t, id)
	require.Equal(t, data, got)
	_, _, ok = r.Chunk()
	require.False(t, ok, "once")
}

func TestAcksOfAReceiver(t *testing.T) {
	r := must(chunk.NewReceiver(chunk.Config{AckDelay: 20 * ms}))
	s := slicesOf(0, make([]byte, 4096))
	_, ok := r.NextTimeout()
	require.False(t, ok)
	require.Empty(t, acks(r, epoch))
	t.Log("# the first slice is acked at once, later ones 20 ms after the ack before")
	r.Insert(epoch, s[1])
	require.Equal(t, []chunk.Ack{ackOf(0, 4, 1)}, acks(r, epoch))
	r.Insert(after(5*ms), s[3])
	require.Empty(t, acks(r, after(5*ms)))
	at, ok := r.NextTimeout()
	require.True(t, ok)
	require.Equal(t, after(20*ms), at)
	require.Empty(t, acks(r, after(20*ms-1)))
	t.Log("# with all bits")
	require.Equal(t, []chunk.Ack{ackOf(0, 4, 1, 3)}, acks(r, after(20*ms)))
	t.Log("# and nothing is acked when nothing came")
	require.Empty(t, acks(r, after(time.Minute)))
	_, ok = r.NextTimeout()
	require.False(t, ok)
	t.Log("# a duplicate is a question")
	require.False(t, r.Insert(after(time.Minute), s[3]))
	require.Equal(t, []chunk.Ack{ackOf(0, 4, 1, 3)}, acks(r, after(time.Minute)))
	t.Log("# the last slice is answered at once")
	r.Insert(after(time.Minute), s[0])
	require.Empty(t, acks(r, after(time.Minute)))
	r.Insert(after(time.Minute), s[2])
	at, ok = r.NextTimeout()
	require.True(t, ok)
	require.Equal(t, after(time.Minute), at)
	require.Equal(t, []chunk.Ack{ackOf(0, 4, 0, 1, 2, 3)}, acks(r, after(time.Minute)))
	t.Log("# and again when the sender still asks, before and after the chunk is taken, not too often")
	r.Insert(after(time.Minute+10*ms), s[2])
	require.Empty(t, acks(r, after(time.Minute+10*ms)))
	require.Len(t, acks(r, after(time.Minute+20*ms)), 1)
	_, _, ok = r.Chunk()
	require.True(t, ok)
	r.Insert(after(time.Minute+25*ms), s[1])
	at, _ = r.NextTimeout()
	require.Equal(t, after(time.Minute+40*ms), at)
	require.Equal(t, []chunk.Ack{ackOf(0, 4, 0, 1, 2, 3)}, acks(r, after(time.Minute+40*ms)))
}

func TestAckOutlivesTheChunk(t *testing.T) {
	r := must(chunk.NewReceiver(chunk.Config{}))
	r.Insert(epoch, slicesOf(0, []byte("x"))[0])
	_, _, ok := r.Chunk()
	require.True(t, ok)
	require.Equal(t, []chunk.Ack{ackOf(0, 1, 0)}, acks(r, epoch), "taken before its ack left")
	require.Empty(t, acks(r, epoch))
}

// TestAcksOf1024ChunksBack: so many may be in flight at once.
func TestAcksOf1024ChunksBack(t *testing.T) {
	r := must(chunk.NewReceiver(chunk.Config{}))
	for id := range uint16(1100) {
		require.True(t, r.Insert(epoch, slicesOf(id, []byte("x"))[0]))
		acks(r, epoch)
		_, _, ok := r.Chunk()
		require.True(t, ok)
	}
	require.False(t, r.Insert(after(time.Second), slicesOf(1100-1024, []byte("x"))[0]))
	require.Equal(t, []chunk.Ack{ackOf(1100-1024, 1, 0)}, acks(r, after(time.Second)))
	require.False(t, r.Insert(after(time.Minute), slicesOf(1100-1025, []byte("x"))[0]))
	require.Empty(t, acks(r, after(time.Minute)))
	text := must(os.ReadFile("WIRE.md"))
	require.Contains(t, string(text), "(The last 1,024 chunks are remembered.)")
}

// TestReceiveQueueChanges: a queue that grows or shrinks keeps its slices,
// because their acks may have been sent.
func TestReceiveQueueChanges(t *testing.T) {
	r := must(chunk.NewReceiver(chunk.Config{ReceiveQueue: 2}))
	take := func() {
		_, data, ok := r.Chunk()
		require.True(t, ok)
		require.Equal(t, []byte("x"), data)
	}
	insert := func(id uint16) bool { return r.Insert(epoch, slicesOf(id, []byte("x"))[0]) }
	require.True(t, insert(0))
	take()
	require.True(t, insert(2))
	require.False(t, insert(3), "no place")
	for _, chunks := range []int{0, -1, 1025} {
		require.EqualError(t, r.SetReceiveQueue(chunks), fmt.Sprintf("chunk: SetReceiveQueue(%d): the number must be 1 to 1024", chunks))
		require.False(t, insert(3), "no place either")
	}
	require.NoError(t, r.SetReceiveQueue(4))
	require.True(t, insert(3))
	require.True(t, insert(4))
	require.False(t, insert(5))
	require.True(t, insert(1))
	take()
	require.ElementsMatch(t, []chunk.Ack{ackOf(0, 1, 0), ackOf(1, 1, 0), ackOf(2, 1, 0), ackOf(3, 1, 0), ackOf(4, 1, 0)}, acks(r, epoch))

	require.NoError(t, r.SetReceiveQueue(1))
	for range 3 { // 2 to 4, which are acked
		take()
	}
	require.NoError(t, r.SetReceiveQueue(1))
	require.True(t, insert(5))
	require.False(t, insert(6), "no place any more")
	take()
	require.Len(t, acks(r, epoch), 1)
}

func TestAcksNobodyAskedFor(t *testing.T) {
	r := must(chunk.NewReceiver(chunk.Config{}))
	for id := range uint16(1100) { // an owner that takes chunks and never asks for acks
		require.True(t, r.Insert(epoch, slicesOf(id, []byte("x"))[0]))
		_, _, ok := r.Chunk()
		require.True(t, ok)
	}
	require.Len(t, acks(r, epoch), 1024)
	_, ok := r.NextTimeout()
	require.False(t, ok)
}

func TestReceiveQueue(t *testing.T) {
	for _, queue := range []int{1, 3} {
		r := must(chunk.NewReceiver(chunk.Config{ReceiveQueue: queue}))
		chunks := make([]chunk.Slice, 6)
		for id := range chunks {
			chunks[id] = slicesOf(uint16(id), []byte{byte(id)})[0]
			require.Equal(t, id < queue, r.Insert(epoch, chunks[id]), "chunk %d with a queue of %d", id, queue)
		}
		require.EqualValues(t, 6-queue, r.Stats().Ignored)
		require.Len(t, acks(r, epoch), queue)
		for id := range 6 {
			got, data, ok := r.Chunk()
			require.True(t, ok)
			require.EqualValues(t, id, got)
			require.Equal(t, []byte{byte(id)}, data)
			if next := id + queue; next < 6 {
				require.True(t, r.Insert(epoch, chunks[next]), "a chunk taken makes room")
			}
		}
	}
}

func TestOutOfPlace(t *testing.T) {
	r := must(chunk.NewReceiver(chunk.Config{}))
	data := content(2048, 3)
	s := slicesOf(0, data)
	require.True(t, r.Insert(epoch, s[0]))
	for name, wrong := range map[string]chunk.Slice{
		"another count":          {Index: 1, Count: 3, Data: data[:1024]},
		"the next chunk":         {ChunkID: 1, Count: 1, Data: data[:7]},
		"the one before a fresh": {ChunkID: 65535, Count: 1, Data: data[:7]},
		"long past":              {ChunkID: 60000, Count: 1, Data: data[:7]},
	} {
		ignored := r.Stats().Ignored
		require.False(t, r.Insert(epoch, wrong), name)
		require.Equal(t, ignored+1, r.Stats().Ignored, name)
	}
	t.Log("# the same slice with other bytes, or another size, changes nothing")
	require.True(t, r.Insert(epoch, s[1]))
	require.False(t, r.Insert(epoch, chunk.Slice{Index: 1, Count: 2, Data: []byte("other")}))
	_, got, ok := r.Chunk()
	require.True(t, ok)
	require.Equal(t, data, got)
	t.Log("# a slice of the chunk just taken, with another count, is not answered")
	acks(r, epoch)
	require.False(t, r.Insert(after(time.Second), chunk.Slice{Index: 1, Count: 3, Data: data[:1024]}))
	require.Empty(t, acks(r, after(time.Second)))
}

func TestMalformedPackets(t *testing.T) {
	r := must(chunk.NewReceiver(chunk.Config{}))
	good := chunk.AppendSlice(nil, protocolID, slicesOf(0, []byte("hello"))[0])
	for n := range good {
		require.ErrorIs(t, r.ReceiveSlice(epoch, good[:n]), chunk.ErrMalformed)
	}
	require.ErrorIs(t, r.ReceiveSlice(epoch, chunk.AppendAck(nil, protocolID, ackOf(0, 1))), chunk.ErrMalformed, "a receiver wants slices")
	require.ErrorIs(t, r.ReceiveSlice(epoch, chunk.AppendSlice(nil, 1, slicesOf(0, []byte("hello"))[0])), chunk.ErrMalformed, "another protocol")
	require.EqualValues(t, len(good)+2, r.Stats().Malformed)
	require.NoError(t, r.ReceiveSlice(epoch, good))
	_, data, ok := r.Chunk()
	require.True(t, ok)
	require.Equal(t, "hello", string(data))
}

// TestStrangersCostNoMemory: packets of a sender that does not know the
// protocol id are refused without an allocation.
func TestStrangersCostNoMemory(t *testing.T) {
	s, r := must(chunk.NewSender(chunk.Config{})), must(chunk.NewReceiver(chunk.Config{}))
	slice := chunk.AppendSlice(nil, protocolID, slicesOf(0, []byte("hello"))[0])
	ack := chunk.AppendAck(nil, protocolID, ackOf(0, 1))
	for name, b := range map[string][]byte{
		"random": content(1037, 1), "short": {1, 2}, "empty": nil, "cut": slice[:10], "another protocol": chunk.AppendAck(nil, 1, ackOf(0, 1)),
	} {
		require.Zero(t, testing.AllocsPerRun(100, func() { _, _ = r.ReceiveSlice(epoch, b), s.ReceiveAck(epoch, b) }), name)
	}
	t.Log("# nor does a packet of the other kind, where both directions share a socket")
	require.Zero(t, testing.AllocsPerRun(100, func() { _, _ = r.ReceiveSlice(epoch, ack), s.ReceiveAck(epoch, slice) }))
}

func TestRecycle(t *testing.T) {
	r := must(chunk.NewReceiver(chunk.Config{}))
	var first *byte
	for id := range uint16(5) {
		for _, s := range slicesOf(id, content(2048-int(id), uint64(id))) {
			require.True(t, r.Insert(epoch, s))
		}
		_, data, ok := r.Chunk()
		require.True(t, ok)
		require.Equal(t, content(2048-int(id), uint64(id)), data)
		if id == 0 {
			first = &data[0]
		}
		require.Same(t, first, &data[0], "the memory is used again, and never copied")
		r.Recycle(data)
	}
	r.Recycle(nil)
	r.Recycle(make([]byte, 1<<20))
	require.True(t, r.Insert(epoch, slicesOf(5, make([]byte, 5000))[0]), "recycled memory that is too small")
}

func TestPartial(t *testing.T) {
	r := must(chunk.NewReceiver(chunk.Config{ReceiveQueue: 2}))
	data := content(3000, 5)
	s := slicesOf(1, data)
	_, _, ok := r.Partial(1)
	require.False(t, ok)
	r.Insert(epoch, s[1])
	place, have, ok := r.Partial(1)
	require.True(t, ok)
	require.Equal(t, ackOf(1, 3, 1), have)
	require.Equal(t, data[1024:2048], place[1024:2048])
	require.Len(t, place, 3*1024)
	_, _, ok = r.Partial(2)
	require.False(t, ok)
}

func TestReceiverRestart(t *testing.T) {
	r := must(chunk.NewReceiver(chunk.Config{ReceiveQueue: 2}))
	r.Insert(epoch, slicesOf(0, []byte("x"))[0])
	r.Insert(epoch, slicesOf(1, make([]byte, 5000))[2])
	r.Chunk()
	require.Len(t, acks(r, epoch), 2)
	r.Restart()
	require.ElementsMatch(t, []chunk.Ack{ackOf(0, 1, 0), ackOf(1, 5, 2)}, acks(r, after(time.Second)), "what it has, at once")
	require.Empty(t, acks(r, after(time.Second)))
}

func TestReceiverRepeat(t *testing.T) {
	r := must(chunk.NewReceiver(chunk.Config{ReceiveQueue: 2}))
	r.Insert(epoch, slicesOf(0, []byte("x"))[0])
	r.Insert(epoch, slicesOf(1, make([]byte, 5000))[2])
	r.Chunk()
	require.Len(t, acks(r, epoch), 2)
	r.Repeat(0)
	require.Equal(t, []chunk.Ack{ackOf(0, 1, 0)}, acks(r, epoch), "of one that was taken")
	r.Repeat(1)
	require.Equal(t, []chunk.Ack{ackOf(1, 5, 2)}, acks(r, epoch), "of one under way")
	r.Repeat(2)
	r.Repeat(60000)
	require.Empty(t, acks(r, after(time.Second)), "of none")
}

// TestMemoryIsBounded lets a hostile sender begin as many chunks as it likes.
func TestMemoryIsBounded(t *testing.T) {
	const queue = 4
	r := must(chunk.NewReceiver(chunk.Config{ReceiveQueue: queue}))
	data := make([]byte, 1024)
	var before, later runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for id := range 1 << 16 {
		r.Insert(epoch, chunk.Slice{ChunkID: uint16(id), Index: id % 256, Count: 256, Data: data})
	}
	runtime.GC()
	runtime.ReadMemStats(&later)
	held := int64(later.HeapAlloc) - int64(before.HeapAlloc)
	t.Logf("65,536 chunks begun: %d bytes held, %d allocated", held, later.TotalAlloc-before.TotalAlloc)
	require.Less(t, later.TotalAlloc-before.TotalAlloc, uint64(queue+1)*256<<10)
	require.EqualValues(t, queue, r.Stats().Slices)
}
