package bunch

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
)

func newClient(t testing.TB, config Config) (*Conn, uint64) {
	config.Client = true
	c, err := NewConn(epoch, config)
	require.NoError(t, err)
	ch, err := c.Open(Normal)
	require.NoError(t, err)
	return c, ch
}

func out(c *Conn, ch uint64) int {
	n, _ := c.Reliable(ch)
	return n
}

func TestEntries(t *testing.T) {
	for size, want := range map[int]int{0: 1, 1: 1, 1098: 1, 1099: 2, 1100: 2, 1101: 2, 2200: 2, 2201: 3, 32768: 30, 65536: 60} {
		require.Equal(t, want, Entries(size), size)
		c, ch := newClient(t, Config{})
		require.NoError(t, c.Send(ch, Reliable, make([]byte, size)))
		require.Equal(t, want, out(c, ch), size)
	}
}

// TestReliableBufferBoundary: as in Unreal, a message of N entries overflows a buffer with n of
// R entries in use if and only if n + N >= R + c, where c is 1 for a close.
func TestReliableBufferBoundary(t *testing.T) {
	for _, slots := range []int{8, 64, 256, 512} {
		for _, policy := range []Policy{OverflowClose, OverflowError} {
			c, ch := newClient(t, Config{ReliableBuffer: slots, Overflow: policy})
			one := make([]byte, 1098)
			for n := range slots - 1 {
				require.Equal(t, n, out(c, ch))
				require.NoError(t, c.Send(ch, Reliable, one))
			}
			queued := c.Stats().Queued
			err := c.Send(ch, Reliable, one)
			require.Equal(t, slots-1, out(c, ch), "R-1 are usable")
			require.Equal(t, queued, c.Stats().Queued, "nothing of it is queued")
			if policy == OverflowError {
				require.ErrorIs(t, err, ErrReliableBufferFull)
				require.ErrorContains(t, err, "ReliableBuffer")
				require.NoError(t, c.Err())
				require.NoError(t, c.Send(ch, Unreliable, one))
				require.NoError(t, c.Close(ch, one), "a close always fits")
				require.Equal(t, slots, out(c, ch))
				continue
			}
			requireCode(t, ReliableBufferOverflow, err)
			require.ErrorIs(t, c.Err(), err)
			require.True(t, c.Wake())
			_, _, ok := c.AppendPacket(epoch, nil, 1404)
			require.False(t, ok)
		}
	}
}

func TestLongMessagesOverflowAsAWhole(t *testing.T) {
	c, ch := newClient(t, Config{ReliableBuffer: 32, Overflow: OverflowError})
	require.NoError(t, c.Send(ch, Reliable, make([]byte, 2000)))
	require.ErrorIs(t, c.Send(ch, Reliable, make([]byte, 32768)), ErrReliableBufferFull, "2 + 30 >= 32")
	require.Equal(t, 2, out(c, ch))
	require.NoError(t, c.Send(ch, Reliable, make([]byte, 29*1100)), "2 + 29 < 32")
	require.Equal(t, 31, out(c, ch))
}

// TestNaiveLoopDies sends all chunks in one tick, before any is acknowledged. With entries of
// 1,100 bytes, 8 chunks of 30 entries fit into 255, but the 9th doesn't.
func TestNaiveLoopDies(t *testing.T) {
	c, ch := newClient(t, Config{})
	for i := range 8 {
		require.NoError(t, c.Send(ch, Reliable, make([]byte, 32<<10)), i)
	}
	requireCode(t, ReliableBufferOverflow, c.Send(ch, Reliable, make([]byte, 32<<10)))
	calls, entries := 0, 0
	c.Held(ch, func(_ []byte, n int) { calls++; entries += n })
	require.Equal(t, 8, calls)
	require.Equal(t, 240, entries)
}

// TestGatedLoopPeaks: if less than half of the buffer is in use before each message, the peak
// is R/2-1+N.
func TestGatedLoopPeaks(t *testing.T) {
	c, ch := newClient(t, Config{})
	for out(c, ch) < 127 {
		require.NoError(t, c.Send(ch, Reliable, make([]byte, 1098)))
	}
	require.NoError(t, c.Send(ch, Reliable, make([]byte, 32<<10)))
	require.Equal(t, 128-1+30, out(c, ch))
}

func TestMaxBunch(t *testing.T) {
	c, ch := newClient(t, Config{})
	for d := Reliable; d <= UnreliableSequenced; d++ {
		before, queued := out(c, ch), c.Stats().Queued
		err := c.Send(ch, d, make([]byte, 65537))
		require.ErrorIs(t, err, ErrBunchTooLarge)
		require.ErrorContains(t, err, "65537 bytes on channel 1; the limit is 65536 (MaxBunch)")
		require.Equal(t, before, out(c, ch))
		require.Equal(t, queued, c.Stats().Queued)
		require.NoError(t, c.Send(ch, d, make([]byte, 65536)))
	}
	require.NoError(t, c.Err())
	require.ErrorIs(t, c.Close(ch, make([]byte, 1099)), ErrBunchTooLarge)
	require.NoError(t, c.Close(ch, make([]byte, 1098)))
}

func TestMaxBunchEndToEnd(t *testing.T) {
	p := newPair(t, Config{})
	ch := p.open(0, Normal)
	for d := Reliable; d <= UnreliableSequenced; d++ {
		p.send(0, ch, d, pattern(65536, int(d)))
	}
	p.run(time.Second)
	got := p.take(1)
	require.Len(t, got, 4)
	for _, m := range got {
		require.Equal(t, pattern(65536, int(m.Delivery)), m.Payload)
	}
}

func TestSendRefuses(t *testing.T) {
	c, ch := newClient(t, Config{})
	require.EqualError(t, c.Send(ch, 5, nil), "bunch: channel 1: unknown delivery 5; it must be from Reliable (0) to UnreliableSequenced (3)")
	for _, d := range []Delivery{Unreliable, UnreliableSequenced} {
		require.EqualError(t, c.Send(0, d, nil), "bunch: channel 0 accepts only reliable messages, because it is for control messages")
	}
	require.NoError(t, c.Send(0, Reliable, nil))
	require.EqualError(t, c.Close(0, nil), "bunch: channel 0 cannot be closed, because it is for control messages")
	require.NoError(t, c.Send(0, Reliable, nil), "it stays open")
	for _, err := range []error{c.Send(99, Reliable, nil), c.Close(99, nil), c.SetPriority(99, High), c.After(99, ch), c.Close(98, nil)} {
		require.ErrorIs(t, err, ErrClosed)
		require.ErrorContains(t, err, "was never opened")
	}
	require.EqualError(t, c.SetPriority(0, High), "bunch: channel 0 cannot have a priority, because it always goes first")
	require.EqualError(t, c.SetPriority(ch, 4), "bunch: unknown priority 4; it must be from High (0) to Bulk (3)")
	_, err := c.Open(4)
	require.Error(t, err)
}

// TestSmallMessagesMerge: small messages that follow each other on one channel share an entry,
// as in Unreal.
func TestSmallMessagesMerge(t *testing.T) {
	p := newPair(t, Config{})
	c, ch := p.ends[0], p.open(0, Normal)
	for i := range maxMessages {
		p.send(0, ch, Reliable, []byte{byte(i)})
		require.Equal(t, 1, out(c, ch))
	}
	p.send(0, ch, Reliable, []byte{99})
	require.Equal(t, 2, out(c, ch), "at most 32 messages an entry")
	p.send(0, ch, ReliableUnordered, nil)
	require.Equal(t, 3, out(c, ch), "not with another delivery")
	p.send(0, ch, ReliableUnordered, make([]byte, 1097))
	require.Equal(t, 3, out(c, ch), "up to 1,100 bytes")
	p.send(0, ch, ReliableUnordered, nil)
	require.Equal(t, 4, out(c, ch))
	p.flush()
	p.send(0, ch, ReliableUnordered, nil)
	require.Equal(t, 5, out(c, ch), "not into what has left")
	require.NoError(t, c.Close(ch, nil))
	require.Equal(t, 6, out(c, ch), "a close goes alone")
	require.Equal(t, 6, c.flow.entries)
	p.run(time.Second)
	got := p.take(1)
	require.Len(t, got, maxMessages+1+4+1)
	for i := range maxMessages {
		require.Equal(t, []byte{byte(i)}, got[i].Payload)
	}
	p.settled()
}

// TestMergingPassesAFullBuffer: a message that joins the last entry, which hasn't been sent
// yet, needs no slot. Unreal checks for one nevertheless.
func TestMergingPassesAFullBuffer(t *testing.T) {
	c, ch := newClient(t, Config{ReliableBuffer: 8, Overflow: OverflowError})
	for range 6 {
		require.NoError(t, c.Send(ch, Reliable, make([]byte, 1098)))
	}
	require.NoError(t, c.Send(ch, Reliable, make([]byte, 500)))
	require.Equal(t, 7, out(c, ch), "R-1: full")
	require.NoError(t, c.Send(ch, Reliable, make([]byte, 500)))
	require.Equal(t, 7, out(c, ch))
	require.ErrorIs(t, c.Send(ch, Reliable, make([]byte, 500)), ErrReliableBufferFull, "no room in the entry")
	require.NoError(t, c.Send(ch, Reliable, nil))
	for _, _, ok := c.AppendPacket(epoch, nil, 1404); ok; _, _, ok = c.AppendPacket(epoch, nil, 1404) {
	}
	require.ErrorIs(t, c.Send(ch, Reliable, nil), ErrReliableBufferFull, "it has left")
}

func TestHeld(t *testing.T) {
	p := newPair(t, Config{})
	c, ch := p.ends[0], p.open(0, Normal)
	type held struct {
		head    byte
		entries int
	}
	list := func() (all []held) {
		sum := 0
		c.Held(ch, func(head []byte, entries int) {
			h := held{entries: entries}
			if len(head) > 0 {
				h.head = head[0]
			}
			all = append(all, h)
			sum += entries
		})
		require.Equal(t, out(c, ch), sum)
		return all
	}
	require.Empty(t, list())
	p.send(0, ch, Reliable, []byte{1})
	p.send(0, ch, Reliable, []byte{2, 2})
	p.send(0, ch, Reliable, append([]byte{3}, make([]byte, 3000)...))
	p.send(0, ch, Reliable, []byte{4})
	require.NoError(t, c.Close(ch, nil))
	require.Equal(t, []held{{1, 1}, {2, 0}, {3, 3}, {4, 1}, {0, 1}}, list())

	t.Log("# a message whose first entry is acknowledged keeps its name")
	p.max = 1163
	var packets [][]byte
	for {
		b, _, ok := c.AppendPacket(p.now, nil, p.max)
		if !ok {
			break
		}
		packets = append(packets, b)
	}
	require.Greater(t, len(packets), 2)
	for _, b := range packets[:1] {
		p.put(0, b)
	}
	p.run(100 * ms)
	require.Equal(t, held{3, 2}, list()[0])
	c.Held(77, func([]byte, int) { t.Fatal("no such channel") })
}

func TestQueueTime(t *testing.T) {
	c, ch := newClient(t, Config{})
	bulk, err := c.Open(Bulk)
	require.NoError(t, err)
	require.NoError(t, c.Send(ch, Reliable, make([]byte, 1000)))
	require.NoError(t, c.Send(bulk, Unreliable, make([]byte, 3000)))
	require.Zero(t, c.QueueTime(bulk), "no rate is known")
	c.congestion.RTT.Update(0, 100*ms, 0)
	c.SetWindow(10_000)
	require.Equal(t, 10*ms+20*time.Microsecond, c.QueueTime(ch), "1,002 bytes at the path's window each RTT")
	require.Equal(t, 40*ms+20*time.Microsecond, c.QueueTime(bulk), "and what goes before")
	measured(c, 1e6)
	require.Equal(t, 1002*time.Microsecond, c.QueueTime(ch))
	require.Zero(t, c.QueueTime(99))
	require.NoError(t, c.SetPriority(bulk, High))
	require.Equal(t, 3*ms, c.QueueTime(bulk))
	c.config.Rate = 5e5
	require.Equal(t, 6*ms, c.QueueTime(bulk), "the owner's rate is less")
	c.config.Rate = 2e6
	require.Equal(t, 3*ms, c.QueueTime(bulk), "or more")
	checkConn(t, c)
}

func TestWatch(t *testing.T) {
	p := newPair(t, Config{})
	c, ch := p.ends[0], p.open(0, Normal)
	p.send(0, ch, Reliable, make([]byte, 20_000))
	require.False(t, c.Wake())
	c.Watch(ch, 5, time.Hour)
	require.False(t, c.Wake())
	p.run(10 * ms)
	require.False(t, c.Wake(), "nothing was acknowledged")
	p.run(100 * ms)
	require.True(t, c.Wake())
	require.False(t, c.Wake(), "once")
	p.run(time.Second)
	require.False(t, c.Wake())
	c.Watch(ch, 5, time.Hour)
	require.True(t, c.Wake(), "at once when it is so already")
	c.Watch(ch, 0, 0)
	require.True(t, c.Wake(), "an empty buffer is enough for any watch")

	t.Log("# the queue has a gate of its own, that sending opens")
	p.send(0, ch, Reliable, make([]byte, 20_000))
	measured(c, 1e6)
	c.Watch(ch, 100, ms)
	require.False(t, c.Wake())
	p.flush()
	require.True(t, c.Wake())
	c.Watch(99, 1, 0)
	require.False(t, c.Wake())
}

func TestUnreliableBytesThatWaitAreBounded(t *testing.T) {
	c, ch := newClient(t, Config{})
	other, err := c.Open(Normal)
	require.NoError(t, err)
	for range 10 {
		require.NoError(t, c.Send(ch, Unreliable, make([]byte, 60_000)))
		require.LessOrEqual(t, unreliableCost(c.unreliables.messages, c.unreliables.bytes), maxUnreliable)
		checkConn(t, c)
	}
	require.Equal(t, uint64(7), c.Stats().DroppedUnreliable, "the oldest make room")
	require.NoError(t, c.Send(other, Unreliable, make([]byte, 60_000)))
	require.Equal(t, uint64(8), c.Stats().DroppedUnreliable, "but not those of other channels")
	checkConn(t, c)
}

// TestSmallUnreliableMessagesThatWaitAreBounded: the overhead of each message counts, because
// otherwise any number of empty ones could be queued.
func TestSmallUnreliableMessagesThatWaitAreBounded(t *testing.T) {
	for _, size := range []int{0, 1, 20, 100} {
		c, ch := newClient(t, Config{})
		before, payload := testkit.Heap(), make([]byte, size)
		for range 1 << 17 {
			require.NoError(t, c.Send(ch, Unreliable, payload))
		}
		waiting := c.channels.open[ch].unreliable.len()
		t.Logf("%d messages of %d bytes wait, %d KiB", waiting, size, (testkit.Heap()-before)>>10)
		require.Less(t, testkit.Heap()-before, 4*maxUnreliable)
		require.LessOrEqual(t, unreliableCost(waiting, waiting*size), maxUnreliable)
		require.Greater(t, unreliableCost(waiting+1, (waiting+1)*size), maxUnreliable)
		require.EqualValues(t, 1<<17-waiting, c.Stats().DroppedUnreliable)
		bytes, _ := c.Unreliable()
		require.Equal(t, waiting*size, bytes, "the figure for rates is what will leave")
		checkConn(t, c)
	}
}

func TestChanged(t *testing.T) {
	p := newPair(t, Config{})
	c, ch := p.ends[0], p.open(0, Normal)
	quiet := func(what string) {
		t.Helper()
		require.False(t, c.Changed(), what)
	}
	c.Changed()
	quiet("nothing happened")
	p.send(0, ch, Reliable, nil)
	require.True(t, c.Changed())
	quiet("once")
	c.Cork(true)
	quiet("a cork holds")
	p.send(0, ch, Reliable, nil)
	quiet("corked")
	c.Flush()
	require.True(t, c.Changed())
	c.Cork(false)
	require.True(t, c.Changed())
	c.Cork(false)
	quiet("not corked")
	p.run(time.Second)
	quiet("the wire")
	c.Watch(ch, 100, time.Hour)
	require.True(t, c.Changed())
	c.SetReceiveLimit(1 << 20)
	require.True(t, c.Changed())
	c.fail(violation(NoError, "x"))
	require.True(t, c.Changed())
	require.False(t, errors.Is(c.Err(), ErrClosed))
}
