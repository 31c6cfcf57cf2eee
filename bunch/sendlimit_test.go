package bunch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
)

// TestSendLimit: at the limit, neither a message nor a channel of play begins, with any
// reliable buffer empty. Control messages, bulk and closes go on, and so does play once the
// peer has acknowledged enough.
func TestSendLimit(t *testing.T) {
	const limit = 1 << 20
	p := newPair(t, Config{SendLimit: limit, Overflow: OverflowError})
	c := p.ends[0]
	var channels []uint64
	err := fillSendLimit(c, func(ch uint64) { channels = append(channels, ch) })
	require.ErrorIs(t, err, ErrReliableBufferFull)
	require.ErrorContains(t, err, "the limit is 1048576 (SendLimit)")
	require.Greater(t, len(channels), 2)
	require.InDelta(t, limit, c.Stats().Unacked, MaxBunchBytes+60*(entryMemory+1))

	held := c.Stats().Unacked
	for _, ch := range channels {
		require.ErrorIs(t, c.Send(ch, ReliableUnordered, nil), ErrReliableBufferFull)
		require.NoError(t, c.Send(ch, Unreliable, nil))
	}
	require.Equal(t, held, c.Stats().Unacked)
	require.NoError(t, c.Send(0, Reliable, make([]byte, 1000)), "control")
	bulk := p.open(0, Bulk)
	require.NoError(t, c.Send(bulk, Reliable, make([]byte, 3000)))
	require.Equal(t, held, c.Stats().Unacked)
	require.NoError(t, c.SetPriority(bulk, Normal))
	require.Equal(t, held+3*(EntryBytes+entryMemory), c.Stats().Unacked)
	require.NoError(t, c.SetPriority(bulk, Bulk))
	require.NoError(t, c.Close(channels[0], nil))
	require.Equal(t, held+entryMemory+channelCost, c.Stats().Unacked)

	for range 100 {
		p.run(100 * time.Millisecond)
		p.take(1)
	}
	p.settled()
	require.Zero(t, c.Stats().Unacked)
	require.NoError(t, c.Send(channels[1], Reliable, nil))
	p.open(0, Normal)
}

// fillSendLimit opens channels and sends long messages on them until one of the two fails.
func fillSendLimit(c *Conn, opened func(ch uint64)) error {
	for {
		ch, err := c.Open(Normal)
		if err != nil {
			return err
		}
		opened(ch)
		for range 3 {
			if err := c.Send(ch, Reliable, make([]byte, MaxBunchBytes)); err != nil {
				return err
			}
		}
	}
}

// TestSendLimitCloses: with the default policy, both a message and a channel too many end the
// connection.
func TestSendLimitCloses(t *testing.T) {
	c, ch := newClient(t, Config{SendLimit: 1})
	require.NoError(t, c.Send(ch, Reliable, nil), "the first message always fits")
	requireCode(t, ReliableBufferOverflow, c.Send(ch, Reliable, nil))
	c, ch = newClient(t, Config{SendLimit: 1})
	require.NoError(t, c.Send(ch, Reliable, nil))
	_, err := c.Open(Normal)
	requireCode(t, ReliableBufferOverflow, err)
	require.ErrorIs(t, c.Err(), err)
}

// TestSendLimitCountsTheHeap: whatever the sizes of the messages, and however many share a
// channel, the heap holds hardly more than what counts. The worst are 9 entries, which have taken
// 24 slots.
func TestSendLimitCountsTheHeap(t *testing.T) {
	for _, row := range []struct{ size, each int }{{0, 1}, {100, 1}, {100, 200}, {200, 1}, {1098, 1}, {1098, 9}, {1098, 200}, {30_000, 8}} {
		c, _ := newClient(t, Config{Overflow: OverflowError})
		payload := make([]byte, row.size)
		base := testkit.Heap()
		channels := 0
		for err := error(nil); err == nil; channels++ {
			var ch uint64
			if ch, err = c.Open(Normal); err != nil {
				break
			}
			for n := 0; n < row.each && err == nil; n++ {
				err = c.Send(ch, Delivery(n%2), payload) // messages of two kinds share no entry
			}
		}
		heap := testkit.Heap() - base - channels*channelCost // channels have a limit of their own
		t.Logf("%d messages of %d bytes on each of %d channels: heap %d KiB, counted %d KiB", row.each, row.size, channels, heap>>10, c.Stats().Unacked>>10)
		require.LessOrEqual(t, heap, c.Stats().Unacked*9/8)
		require.Greater(t, 3*heap, c.Stats().Unacked, "not much more is counted")
	}
}
