package bunch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Rules of Unreal's that PORTING.md lists and no other test shows by itself.

// 1.3e: numbers that did not arrive, although later ones did, count as lost on the way in.
func TestMissingPacketsAreCounted(t *testing.T) {
	p := newPair(t, Config{})
	ch := p.open(0, Normal)
	p.send(0, ch, Reliable, nil)
	p.run(time.Second)
	require.Zero(t, p.ends[1].Stats().PacketsMissing)
	p.drop = func(from int, _ []byte) bool { return from == 0 }
	for range 3 {
		p.send(0, ch, Unreliable, []byte("lost"))
		p.flush()
	}
	p.drop = nil
	p.send(0, ch, Reliable, []byte("found"))
	p.run(time.Second)
	require.EqualValues(t, 3, p.ends[1].Stats().PacketsMissing)
}

// 4.1b: unreliable messages need no entry, and are sent even if the reliable buffer is full.
func TestUnreliableNeedsNoEntry(t *testing.T) {
	p := newPair(t, Config{ReliableBuffer: 8, Overflow: OverflowError})
	ch := p.opened(Normal)
	for p.ends[0].Send(ch, Reliable, make([]byte, EntryBytes-2)) == nil {
	}
	p.send(0, ch, Unreliable, []byte("x"))
	p.flush()
	p.drop = func(from int, _ []byte) bool { return from == 1 } // nothing is acknowledged
	p.run(2 * p.delay)
	require.Equal(t, 7, out(p.ends[0], ch))
	require.Contains(t, strip(p.take(1)), Message{Channel: ch, Delivery: Unreliable, Payload: []byte("x")})
}

// 1.3j, 4.2a: an ack marks entries; they are removed from the buffer in order,
// and one lost bunch keeps all after it.
func TestEntriesLeaveTheBufferInOrder(t *testing.T) {
	p := newPair(t, Config{})
	ch := p.opened(Normal)
	p.drop = func(from int, _ []byte) bool { return from == 0 }
	p.send(0, ch, Reliable, []byte("first"))
	p.flush()
	p.drop = nil
	for range 5 {
		p.send(0, ch, ReliableUnordered, []byte("later"))
		p.flush()
	}
	p.drop = func(from int, _ []byte) bool { return from == 0 } // and it is lost again
	p.run(2*p.delay + 10*time.Millisecond)
	require.Len(t, p.take(1), 5, "all but the first are there")
	require.Equal(t, 6, out(p.ends[0], ch), "and acknowledged, and stand behind it")
	p.drop = nil
	p.run(time.Second)
	require.Zero(t, out(p.ends[0], ch))
	p.settled()
}

// 4.6c: of calls of 32 KiB in a row, 30 entries each, the 9th dies at 256 and the 18th at 512.
func TestNaiveLoopOfLargerBuffers(t *testing.T) {
	for slots, dies := range map[int]int{256: 9, 512: 18} {
		c, ch := newClient(t, Config{ReliableBuffer: slots})
		for n := 1; n < dies; n++ {
			require.NoError(t, c.Send(ch, Reliable, make([]byte, 32<<10)), n)
		}
		requireCode(t, ReliableBufferOverflow, c.Send(ch, Reliable, make([]byte, 32<<10)))
	}
}

// 6.4c: an unreliable message overtakes a reliable one that was lost.
func TestUnreliableOvertakesWhatIsMissing(t *testing.T) {
	p := newPair(t, Config{})
	ch := p.opened(Normal)
	p.drop = func(from int, _ []byte) bool { return from == 0 }
	p.send(0, ch, Reliable, []byte("reliable"))
	p.flush()
	p.drop = nil
	p.send(0, ch, Unreliable, []byte("unreliable"))
	p.run(time.Second)
	require.Equal(t, []string{"unreliable", "reliable"}, p.texts(1))
	p.settled()
}

// 4.6b: the loop that asks for half of the buffer before each call of 32 KiB
// sends 5 at once at 256 and 9 at 512, and peaks below the buffer.
func TestGatedLoopOfLargerBuffers(t *testing.T) {
	for slots, calls := range map[int]int{256: 5, 512: 9} {
		c, ch := newClient(t, Config{ReliableBuffer: slots})
		sent := 0
		for out(c, ch) < slots/2 {
			require.NoError(t, c.Send(ch, Reliable, make([]byte, 32<<10)))
			sent++
		}
		require.Equal(t, calls, sent)
		require.LessOrEqual(t, out(c, ch), slots/2-1+Entries(32<<10))
	}
}
