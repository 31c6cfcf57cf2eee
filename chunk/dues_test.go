package chunk

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
)

// TestAcksLookAtWhatIsDue: each ack had all records looked at, so that a slice
// of 1 byte of an old chunk cost as much as ten slices of 1,024.
func TestAcksLookAtWhatIsDue(t *testing.T) {
	r, err := NewReceiver(Config{ReceiveQueue: maxPipeline, AckDelay: -1})
	require.NoError(t, err)
	now := time.Unix(1, 0)
	for id := range uint16(maxPipeline) {
		require.True(t, r.Insert(now, Slice{ChunkID: id, Count: 1, Data: []byte("x")}))
		_, _, ok := r.Chunk()
		require.True(t, ok)
	}
	for _, ok := r.NextAck(now); ok; _, ok = r.NextAck(now) {
	}
	r.taken[9].due, r.slots[9].due = soon, soon // which does not happen: who looks at them finds their acks due
	for _, id := range []uint16{5, 700} {
		require.False(t, r.Insert(now, Slice{ChunkID: id, Count: 1, Data: []byte("x")}))
		a, ok := r.NextAck(now)
		require.True(t, ok)
		require.Equal(t, id, a.ChunkID)
		_, ok = r.NextAck(now)
		require.False(t, ok)
	}
}

// TestDues inserts slices, takes chunks, changes the number of places and sends
// acks in any order: the bits are those of the acks that are due.
func TestDues(t *testing.T) {
	random := testkit.Rand(t)
	r, err := NewReceiver(Config{ReceiveQueue: 8, AckDelay: 3 * time.Millisecond})
	require.NoError(t, err)
	r.read = uint16(random.Uint32())
	now := time.Unix(1, 0)
	for range 20_000 {
		now = now.Add(time.Duration(random.IntN(2)) * time.Millisecond)
		switch random.IntN(12) {
		case 0:
			r.NextAck(now)
		case 1, 2, 3:
			r.Chunk()
		case 4:
			r.Repeat(r.read + uint16(random.IntN(30)) - 20)
		case 5:
			if random.IntN(50) == 0 {
				r.Restart()
			}
			if random.IntN(20) == 0 {
				require.NoError(t, r.SetReceiveQueue(1+random.IntN(200)))
			}
		default:
			ahead := random.IntN(12) - 4
			if random.IntN(10) == 0 {
				ahead = random.IntN(maxPipeline+200) - maxPipeline
			}
			r.Insert(now, Slice{ChunkID: r.read + uint16(ahead), Index: random.IntN(2), Count: 2, Data: make([]byte, 1024)})
		}
		var is, past dues
		for i := range r.slots {
			if id := r.read + uint16(i); r.slot(id).due > quiet {
				is.set(id)
			}
		}
		for back := range uint16(maxPipeline) {
			if id := r.read - 1 - back; r.past(id).due > quiet {
				past.set(^id)
			}
		}
		require.Equal(t, is, r.dues)
		require.Equal(t, past, r.pastDues)
	}
	require.Greater(t, r.Stats().Chunks, uint64(500))
}
