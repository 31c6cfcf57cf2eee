package bunch

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestUnsentGivesEverythingBack takes back each packet once. Nothing is lost or delivered
// twice.
func TestUnsentGivesEverythingBack(t *testing.T) {
	p := newPair(t, Config{})
	ch := p.open(0, Normal)
	p.send(0, ch, Reliable, []byte("open"))
	p.run(100 * ms)
	p.take(1)
	p.send(0, ch, Reliable, pattern(5000, 1))
	p.send(0, ch, Unreliable, pattern(5000, 2))
	p.send(0, ch, UnreliableSequenced, []byte("s"))
	p.send(0, ch, Reliable, []byte("last"))
	p.send(1, 0, Reliable, []byte("control"))
	before := *p.ends[0]
	levels := before.levels
	c := p.ends[0]
	c.SetReceiveLimit(1 << 20)
	for n := 0; ; n++ {
		require.Less(t, n, 100)
		inFlight := c.InFlight()
		b, number, ok := c.AppendPacket(p.now, nil, 1404)
		if !ok {
			break
		}
		c.Unsent(number)
		c.Unsent(number)
		checkConn(t, c)
		require.Equal(t, inFlight, c.InFlight())
		again, next, ok := c.AppendPacket(p.now, nil, 1404)
		require.True(t, ok)
		require.Equal(t, number+1, next)
		require.Equal(t, len(b), len(again))
		checkConn(t, c)
		p.put(0, again)
	}
	require.NotZero(t, levels[2].queued)
	require.Zero(t, c.Stats().Queued)
	p.run(time10)
	got := p.take(1)
	require.Len(t, got, 4)
	for _, m := range got {
		if len(m.Payload) == 5000 {
			require.Equal(t, pattern(5000, map[Delivery]int{Reliable: 1, Unreliable: 2}[m.Delivery]), m.Payload)
		}
	}
	require.Zero(t, c.Stats().PacketsLost)
	p.settled()
}

// TestUnsentToASmallerPath cuts entries that already have a number.
func TestUnsentToASmallerPath(t *testing.T) {
	p := newPair(t, Config{})
	ch := p.open(0, Bulk)
	p.send(0, ch, Reliable, pattern(40_000, 1))
	for _, size := range []int{1452, 1404, 1300, 1163} {
		b, number, ok := p.ends[0].AppendPacket(p.now, nil, size)
		require.True(t, ok)
		require.Equal(t, size, len(b))
		p.ends[0].Unsent(number)
		checkConn(t, p.ends[0])
	}
	p.max = 1163
	p.run(time10)
	require.Equal(t, pattern(40_000, 1), p.take(1)[0].Payload)
	p.settled()
}

func TestUnsentAcksProbesAndLimits(t *testing.T) {
	l := newLossTest(t, Config{})
	take := func() (flags byte) {
		b, n, ok := l.AppendPacket(l.at, nil, 1404)
		require.True(t, ok)
		l.Unsent(n)
		checkConn(t, l.Conn)
		return b[1]
	}
	t.Log("# an ack, also one that had no room for all")
	for n := uint32(0); n < 200; n += 2 {
		require.NoError(t, l.Receive(l.at, appendPacketHeader(nil, &packetHeader{flags: flagPing, number: n})))
	}
	for range 3 {
		require.Equal(t, byte(flagAcks), take())
	}
	require.Equal(t, 1, l.packets())
	require.Zero(t, l.packets())

	t.Log("# a limit")
	l.SetReceiveLimit(1 << 20)
	require.Equal(t, byte(flagLimit), take())
	require.Equal(t, 1, l.packets())

	t.Log("# a probe")
	at, _ := l.NextTimeout()
	l.wait(at.Sub(l.at))
	for range 3 {
		require.Equal(t, byte(flagPing|flagAckNow), take())
	}
	require.Equal(t, 2, l.packets())
}

// unsendClose takes back, with play corked, a packet that contains an unreliable message and
// the close of its channel.
func unsendClose(t *testing.T, p *pair) (c *Conn, ch uint64) {
	c, ch = p.ends[0], p.open(0, Normal)
	p.send(0, ch, Reliable, nil)
	p.run(time10)
	p.send(0, ch, Unreliable, []byte("u"))
	require.NoError(t, c.Close(ch, nil))
	_, n, ok := c.AppendPacket(p.now, nil, 1404)
	require.True(t, ok)
	c.Cork(true)
	c.Unsent(n)
	return c, ch
}

// TestUnsentUnreliableOfAClosedChannel: the close is sent with the retransmissions, and the
// unreliable message, which the cork holds back, is dropped along with its channel.
func TestUnsentUnreliableOfAClosedChannel(t *testing.T) {
	p := newPair(t, Config{})
	c, ch := unsendClose(t, p)
	p.run(time10)
	require.Empty(t, c.channels.open[ch])
	require.Zero(t, c.Stats().Queued)
	require.Equal(t, uint64(1), c.Stats().DroppedUnreliable)
	p.settled()
}

// TestUnsentPartOfAMessageAmongTooMany: a message that was sent in part isn't replaced by newer
// ones, but the messages after it are.
func TestUnsentPartOfAMessageAmongTooMany(t *testing.T) {
	p := newPair(t, Config{})
	c, ch := p.ends[0], p.open(0, Normal)
	p.send(0, ch, Reliable, nil)
	p.run(100 * ms)
	p.take(1)
	p.send(0, ch, Unreliable, pattern(60_000, 1))
	_, n, ok := c.AppendPacket(p.now, nil, 1404)
	require.True(t, ok)
	for i := range 5 {
		p.send(0, ch, Unreliable, pattern(41_000, 2+i))
	}
	require.Equal(t, uint64(1), c.Stats().DroppedUnreliable)
	c.Unsent(n)
	checkConn(t, c)
	p.run(time10)
	got := p.take(1)
	require.Len(t, got, 5)
	require.Equal(t, pattern(60_000, 1), got[0].Payload)
	for i, m := range got[1:] {
		require.Equal(t, pattern(41_000, 3+i), m.Payload)
	}
	require.Equal(t, uint64(1), c.Stats().DroppedUnreliable)
	require.Zero(t, c.unreliables)
	p.settled()
}

// TestUnsentAfterItsChannelClosed: the carrier refuses a datagram after the answer to an
// earlier one has arrived.
func TestUnsentAfterItsChannelClosed(t *testing.T) {
	p := newPair(t, Config{})
	c, ch := unsendClose(t, p)
	closing, _, ok := c.AppendPacket(p.now, nil, 1404)
	require.True(t, ok)
	c.Cork(false)
	_, n, ok := c.AppendPacket(p.now, nil, 1404)
	require.True(t, ok)
	require.NoError(t, p.ends[1].Receive(p.now, closing))
	answer, _, ok := p.ends[1].AppendPacket(p.now, nil, 1404)
	require.True(t, ok)
	require.NoError(t, c.Receive(p.now, answer))
	require.Empty(t, c.channels.open[ch])
	c.Unsent(n)
	checkConn(t, c)
	require.Zero(t, c.Stats().Queued)
	require.Equal(t, uint64(1), c.Stats().DroppedUnreliable)
}

func TestUnsentOfOtherNumbersIsIgnored(t *testing.T) {
	l := newLossTest(t, Config{})
	l.Unsent(0)
	l.sendPackets(2)
	before := l.sent.Next
	l.Unsent(0)
	l.Unsent(2)
	require.Equal(t, before, l.sent.Next)
	t.Log("# nor one that the peer has acknowledged meanwhile")
	l.mustAck(1, 1)
	l.Unsent(1)
	require.Equal(t, before, l.sent.Next)
	checkConn(t, l.Conn)
}

// TestRefusedNumberStaysUsedUp: a packet that turns out to be empty doesn't use up a number,
// even after refused packets.
func TestRefusedNumberStaysUsedUp(t *testing.T) {
	p := newPair(t, Config{})
	c, ch := p.ends[0], p.open(0, Normal)
	p.send(0, ch, Reliable, nil)
	p.run(time10)
	p.track(0, ch, 1)
	_, n, ok := c.AppendPacket(p.now, nil, 1404)
	require.True(t, ok)
	c.Unsent(n)
	c.flow.limit = c.flow.sent
	p.send(0, ch, Reliable, make([]byte, 100))
	for range 3 {
		_, _, ok = c.AppendPacket(p.now, nil, 1404)
		require.False(t, ok)
		require.Equal(t, n+1, c.sent.Next)
	}
	require.Equal(t, skipped, c.sent.At(n).fate)
	checkConn(t, c)
}

// TestRefusedPacketsOvertakeNothing: the numbers of packets that were never sent don't count
// toward the packet threshold.
func TestRefusedPacketsOvertakeNothing(t *testing.T) {
	l := newLossTest(t, Config{})
	l.roundTrip()
	l.sendPackets(1)
	require.NoError(t, l.Send(l.channel, Reliable, pattern(1000, 0)))
	for range 8 {
		_, n, ok := l.AppendPacket(l.at, nil, 1404)
		require.True(t, ok)
		l.Unsent(n)
	}
	require.Equal(t, 1, l.packets())
	l.sendPackets(2)
	l.wait(50 * ms)
	l.mustAck(10, 11)
	require.Equal(t, inFlight, l.fate(1), "two have overtaken it")
	l.mustAck(12, 12)
	require.Equal(t, lost, l.fate(1))
}
