package bunch

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// taken takes all messages and counts them by delivery.
func (p *pair) taken(end int) (counts [4]int) {
	for _, m := range p.take(end) {
		counts[m.Delivery]++
	}
	return counts
}

// Only the messages that the rate holds back stay. Everything else is sent, even on the same
// channel, and lost reliable messages are sent again.
func TestHoldLetsReliablePlayPass(t *testing.T) {
	p := newPair(t, Config{})
	p.delay = 5 * time.Millisecond // all is settled before messages are old
	play, bulk := p.open(0, Normal), p.open(0, Bulk)
	p.send(0, play, Reliable, nil)
	p.send(0, bulk, Reliable, nil)
	p.run(time.Second)
	p.taken(1)
	c := p.ends[0]
	c.Hold(true, true)
	lost := 0
	p.drop = func(from int, _ []byte) bool {
		lost++
		return from == 0 && lost == 1
	}
	for i := range 10 {
		p.send(0, play, Unreliable, pattern(100, i))
		p.send(0, play, Reliable, pattern(100, i))
		p.send(0, play, UnreliableSequenced, pattern(100, i))
		p.send(0, bulk, Reliable, pattern(3000, i))
	}
	p.send(1, play, Reliable, nil) // an ack for it passes
	unreliable, waits := c.Waiting()
	require.True(t, unreliable && waits)
	p.run(200 * time.Millisecond)
	require.Equal(t, [4]int{Reliable: 10}, p.taken(1))
	require.Equal(t, 1, p.taken(0)[Reliable])
	out, _ := p.ends[1].Reliable(play)
	require.Zero(t, out, "acknowledged")
	bytes, _ := c.Unreliable()
	require.Equal(t, 2000, bytes)
	require.NotZero(t, c.Stats().BunchesResent)

	t.Log("# unreliable messages are let go before bulk")
	c.Hold(false, true)
	p.run(time.Second)
	require.Equal(t, [4]int{Unreliable: 10, UnreliableSequenced: 10}, p.taken(1))
	c.Hold(false, false)
	p.run(time.Second)
	require.Equal(t, [4]int{Reliable: 10}, p.taken(1))
	unreliable, waits = c.Waiting()
	require.False(t, unreliable || waits)
	p.settled()
}

// TestHeldBulkMessageLetsOthersPass: an unreliable message that was sent in part is held back
// in the middle. Neither other channels nor other messages of its channel that may be sent have
// to wait for it, and it doesn't use up the others' turns.
func TestHeldBulkMessageLetsOthersPass(t *testing.T) {
	p := newPair(t, Config{})
	c, half, other := p.ends[0], p.open(0, Bulk), p.open(0, Bulk)
	p.send(0, half, Reliable, nil)
	p.run(time.Second)
	p.send(0, half, Unreliable, pattern(5*EntryBytes, 0))
	packet, _, ok := c.AppendPacket(p.now, nil, p.max)
	require.True(t, ok)
	p.put(0, packet)
	c.Hold(true, false)
	for range 2 {
		p.send(0, half, Reliable, pattern(maxWhole, 1))
		p.send(0, other, Reliable, pattern(maxWhole, 1))
	}
	_, bulk := c.Waiting()
	require.True(t, bulk)
	var order []string
	for packet, _, ok = c.AppendPacket(p.now, nil, p.max); ok; packet, _, ok = c.AppendPacket(p.now, nil, p.max) {
		for _, name := range bunchesOf(t, packet) {
			name, _, _ = strings.Cut(name, "[")
			order = append(order, name)
		}
		p.put(0, packet)
	}
	require.Equal(t, []string{"1/1", "3/0", "1/2", "3/1"}, slices.Compact(order))
	c.Hold(false, false)
	p.run(time.Second)
	require.Equal(t, [4]int{Reliable: 5, Unreliable: 1}, p.taken(1))
	p.settled()
}

// TestEmptyUnreliableMessagesWait: empty messages are noticed like others, and saturate a path
// that doesn't take them.
func TestEmptyUnreliableMessagesWait(t *testing.T) {
	p := newPair(t, Config{})
	c, ch := p.ends[0], p.open(0, Normal)
	p.send(0, ch, Reliable, nil)
	p.run(time.Second)
	c.Hold(true, false)
	p.send(0, ch, Unreliable, nil)
	unreliable, _ := c.Waiting()
	require.True(t, unreliable)
	for range 4 {
		c.Cork(true)
		c.Cork(false)
		p.run(33 * time.Millisecond)
	}
	_, saturated := c.Unreliable()
	require.True(t, saturated)
	c.Hold(false, false)
	p.run(time.Second)
	unreliable, _ = c.Waiting()
	require.False(t, unreliable)
	p.settled()
}

// If messages of earlier ticks are still waiting tick after tick, the path doesn't drain the
// queue.
func TestUnreliableMessagesThatStandSaturate(t *testing.T) {
	p := newPair(t, Config{})
	c := p.ends[0]
	ch := p.open(0, Normal)
	p.send(0, ch, Reliable, nil)
	p.run(time.Second)
	tick := func(queue int, hold bool) (saturated bool) {
		c.Hold(hold, false)
		c.Cork(true)
		p.send(0, ch, Unreliable, pattern(queue, 0))
		_, saturated = c.Unreliable()
		c.Cork(false)
		p.run(33 * time.Millisecond)
		return saturated
	}
	t.Log("# a tick's own messages are no sign, nor are those before it")
	for range 10 {
		require.NoError(t, c.Send(ch, Unreliable, pattern(5000, 0)))
		require.False(t, tick(20_000, false))
	}
	t.Log("# nor is one that waits for a tick or two")
	require.False(t, tick(1000, true))
	require.False(t, tick(1000, true))
	require.False(t, tick(1000, false))
	require.False(t, tick(1000, false))
	t.Log("# after 66 ms it is, and less may wait")
	for range 3 {
		require.False(t, tick(30_000, true))
	}
	require.True(t, tick(1000, true))
	bytes, _ := c.Unreliable()
	require.LessOrEqual(t, bytes, maxBacklog)
	require.NotZero(t, c.Stats().DroppedUnreliable)
	require.True(t, tick(maxBacklog+1, true), "too large for what may wait")
	t.Log("# until it has left")
	tick(0, false)
	require.False(t, tick(1000, false))
}

// ticker is one end of a pair, with an open channel, that ticks at 30 Hz.
type ticker struct {
	*pair
	*Conn
	channel uint64
}

func newTicker(t *testing.T) *ticker {
	p := newPair(t, Config{})
	k := &ticker{p, p.ends[0], p.open(0, Normal)}
	p.send(0, k.channel, Reliable, nil)
	p.run(time.Second)
	p.take(1)
	return k
}

// tick runs some ticks, and sends an unreliable message of size bytes in each.
func (k *ticker) tick(ticks, size int) {
	for range ticks {
		k.Cork(true)
		k.send(0, k.channel, Unreliable, pattern(size, 0))
		k.Cork(false)
		k.run(time.Second / 30)
	}
}

// TestUnreliableMessagesDoNotGrowOld: if unreliable messages are held back for long, only those
// of the last 200 ms and a round trip, or half as long again, remain. Reliable ones stay
// queued.
func TestUnreliableMessagesDoNotGrowOld(t *testing.T) {
	k := newTicker(t)
	k.Hold(true, false)
	k.tick(7, 10)
	require.Equal(t, 7, k.unreliables.messages, "as many ticks are no long wait")
	for range 90 {
		k.tick(1, 10)
		require.GreaterOrEqual(t, k.unreliables.messages, 7)
		require.LessOrEqual(t, k.unreliables.messages, 12)
	}
	t.Log("# a channel that gets no more forgets them too")
	aside := k.open(0, Normal)
	k.send(0, aside, Reliable, nil)
	for range 20 {
		k.send(0, aside, Unreliable, nil)
		k.run(time.Second / 30)
	}
	require.LessOrEqual(t, k.unreliables.messages, 12)
	k.run(time.Second)
	require.Equal(t, 0, k.unreliables.messages)
	require.Equal(t, uint64(97+20), k.Stats().DroppedUnreliable, "each is counted")
	k.Hold(false, false)
	k.tick(1, 10)
	k.run(time.Second)
	require.Equal(t, [4]int{Unreliable: 1, Reliable: 1}, k.taken(1))
	k.settled()
}

// TestMessagesAgeFromTheirFirstChance: neither a long tick, nor the idle time before it in
// which no time was passed to the connection, makes a message old.
func TestMessagesAgeFromTheirFirstChance(t *testing.T) {
	k := newTicker(t)
	for range 3 {
		k.pair.now = k.pair.now.Add(5 * time.Second) // as idle as when no packet comes
		k.Cork(true)
		k.send(0, k.channel, Unreliable, []byte("early"))
		k.run(2 * time.Second)
		k.send(0, k.channel, Unreliable, []byte("late"))
		k.Cork(false)
		k.run(time.Second)
		require.Equal(t, [4]int{Unreliable: 2}, k.taken(1))
	}
	require.Zero(t, k.Stats().DroppedUnreliable)
	k.settled()
}

// TestWaitForAnotherChannelSaturatesNothing: messages that wait for the ack of another
// channel's close aren't waiting for the path.
func TestWaitForAnotherChannelSaturatesNothing(t *testing.T) {
	k := newTicker(t)
	k.delay = 150 * time.Millisecond
	second, aside := k.open(0, Normal), k.open(0, Normal)
	k.send(0, aside, Reliable, nil)
	require.NoError(t, k.Conn.Close(k.channel, nil))
	require.NoError(t, k.After(second, k.channel))
	k.send(0, second, Reliable, nil)
	require.Equal(t, "earlier channel", k.Gate(second, true))
	require.NoError(t, k.SetPriority(second, Bulk))
	checkConn(t, k.Conn)
	require.NoError(t, k.SetPriority(second, High))
	sent := 0
	for ; k.saturation.deferred == sent; sent++ {
		require.Less(t, sent, 100)
		k.Cork(true)
		k.send(0, second, Unreliable, nil)
		k.send(0, aside, Unreliable, nil)
		k.Cork(false)
		k.run(time.Second / 30)
		_, saturated := k.Unreliable()
		require.False(t, saturated)
		require.Contains(t, []string{"earlier channel", ""}, k.Gate(second, true))
	}
	require.Greater(t, sent, 8)
	require.Zero(t, k.saturation.deferred)
	require.Zero(t, k.Stats().TicksSaturated)
	k.run(time.Second)
	require.Equal(t, [4]int{Unreliable: 2 * sent, Reliable: 3}, k.taken(1), "the close is one")
	k.settled()
}

// TestLongMessageThatHasBegunGoesOn: even if it takes longer to send a message than it may
// wait, some messages arrive.
func TestLongMessageThatHasBegunGoesOn(t *testing.T) {
	k := newTicker(t)
	for tick := range 300 {
		k.Hold(tick%5 > 0, false) // a packet at every fifth tick
		k.Cork(true)
		k.send(0, k.channel, Unreliable, pattern(8*EntryBytes, 0))
		k.Cork(false)
		packet, _, ok := k.AppendPacket(k.pair.now, nil, k.max)
		if ok {
			k.pair.put(0, packet)
		}
		k.Hold(true, false)
		k.run(time.Second / 30)
	}
	require.GreaterOrEqual(t, k.taken(1)[Unreliable], 300/5/8-1)
	k.settled()
}
