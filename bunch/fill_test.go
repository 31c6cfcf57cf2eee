package bunch

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
)

// bunchesOf returns the bunches of a packet as "channel/sequence", with the bytes of a piece.
func bunchesOf(t testing.TB, packet []byte) (all []string) {
	var h packetHeader
	rest, err := parsePacketHeader(packet, &h)
	require.NoError(t, err)
	for len(rest) > 0 {
		var b header
		var payload []byte
		b, payload, rest, err = parseBunch(rest)
		require.NoError(t, err)
		text := fmt.Sprintf("%d/%d", b.channel, b.sequence)
		if b.flags&flagPiece != 0 {
			text += fmt.Sprintf("[%d:%d]", b.offset, int(b.offset)+len(payload))
		}
		all = append(all, text)
	}
	return all
}

// TestPacketsAreExactlyFull: GSO only batches datagrams that all have the maximum size, so
// every packet of a stream but the last is full to the byte, whatever the maximum and the
// length of the channel's number.
func TestPacketsAreExactlyFull(t *testing.T) {
	buf, payload := make([]byte, 0, 1500), make([]byte, 65536)
	for i, channel := range []uint64{1, 63, 65, 16383, 16385, maxChannelNumber} {
		for _, size := range []int{1098, 32 << 10, 65536} {
			for max := 1163 + i; max <= 1452; max += testkit.Brief(17, 5) {
				c, _ := newClient(t, Config{ReliableBuffer: 512})
				c.channels.ourNext = channel
				ch, err := c.Open(Bulk)
				require.NoError(t, err)
				for range 150 * 1024 / size {
					require.NoError(t, c.Send(ch, Reliable, payload[:size]))
				}
				full := true
				for {
					b, _, ok := c.AppendPacket(epoch, buf, max)
					if !ok {
						break
					}
					if !full {
						t.Fatalf("channel %d, messages of %d, a packet before the last is not %d bytes", channel, size, max)
					}
					full = len(b) == max
				}
			}
		}
	}
}

func TestPacketsOfLanesAreExactlyFull(t *testing.T) {
	for max := 1163; max <= 1452; max++ {
		p := newPair(t, Config{})
		c := p.ends[0]
		for range 4 {
			ch := p.open(0, Bulk)
			p.send(0, ch, Reliable, make([]byte, 32<<10))
		}
		var sizes []int
		for {
			b, _, ok := c.AppendPacket(p.now, nil, max)
			if !ok {
				break
			}
			sizes = append(sizes, len(b))
		}
		short := 0
		for _, size := range sizes {
			if size != max {
				short++
			}
		}
		require.LessOrEqual(t, short, 3, "max %d: %v", max, sizes)
	}
}

func TestPriorities(t *testing.T) {
	p := newPair(t, Config{})
	c := p.ends[0]
	var ch [4]uint64
	for i := range ch {
		ch[i] = p.open(0, Priority(i))
	}
	for i := len(ch) - 1; i >= 0; i-- {
		p.send(0, ch[i], Reliable, pattern(300, i))
	}
	p.send(0, 0, Reliable, []byte("control"))
	b, _, _ := c.AppendPacket(p.now, nil, 1404)
	require.Equal(t, []string{"0/0", "1/0", "3/0", "5/0", "7/0"}, bunchesOf(t, b))
}

// TestPlayOvertakesBulkAndItsResends: play goes before bulk, and within a priority
// retransmissions go before new messages.
func TestPlayOvertakesBulkAndItsResends(t *testing.T) {
	l := newLossTest(t, Config{})
	bulk := l.sendBulk(20_000)
	l.sendPackets(0)
	sent := l.packets()
	require.NoError(t, l.Send(bulk, Reliable, pattern(9000, 1)))
	l.SetWindow(2000) // no bulk may be sent
	require.Zero(t, l.packets())
	l.wait(50 * ms)
	l.mustAck(4, uint32(sent-1))
	require.Equal(t, uint64(4), l.Lost())
	l.SetWindow(1 << 20)
	require.NoError(t, l.Send(l.channel, Reliable, []byte("play")))
	b, _, _ := l.AppendPacket(l.at, nil, 1404)
	list := bunchesOf(t, b)
	require.Equal(t, "1/0", list[0])
	require.Contains(t, list[1], "3/0", "then the first lost entry")
	for range 3 {
		b, _, _ = l.AppendPacket(l.at, nil, 1404)
		require.NotContains(t, bunchesOf(t, b)[0], "3/19", "new bulk comes last")
	}
	b, _, _ = l.AppendPacket(l.at, nil, 1404)
	list = bunchesOf(t, b)
	require.Contains(t, list[len(list)-1], "3/20")
}

func TestChannelsOfOnePriorityTakeTurns(t *testing.T) {
	p := newPair(t, Config{})
	a, b := p.open(0, Normal), p.open(0, Normal)
	for range 3 {
		p.send(0, a, Reliable, make([]byte, 400))
		p.send(0, a, ReliableUnordered, make([]byte, 400))
		p.send(0, b, Reliable, make([]byte, 400))
		p.send(0, b, ReliableUnordered, make([]byte, 400))
	}
	packet, _, _ := p.ends[0].AppendPacket(p.now, nil, 1404)
	require.Equal(t, []string{"1/0", "3/0", "1/1", "3/1[0:164]"}, bunchesOf(t, packet))
}

// TestBulkTakesTurnsByMessage: all messages that have begun are charged to the limit, so bulk
// takes turns by message. If parts of an unreliable message were interleaved with messages of
// many channels, they couldn't be assembled.
func TestBulkTakesTurnsByMessage(t *testing.T) {
	for d := Reliable; d <= UnreliableSequenced; d++ {
		bulkTakesTurns(t, d)
	}
}

func bulkTakesTurns(t *testing.T, d Delivery) {
	p := newPair(t, Config{})
	a, b := p.open(0, Bulk), p.open(0, Bulk)
	for range 2 {
		p.send(0, a, d, make([]byte, 5000))
		p.send(0, b, d, make([]byte, 5000))
	}
	var order []string
	for range 20 {
		packet, _, ok := p.ends[0].AppendPacket(p.now, nil, 1404)
		if !ok {
			break
		}
		for _, name := range bunchesOf(t, packet) {
			if channel := name[:1]; len(order) == 0 || order[len(order)-1] != channel {
				order = append(order, channel)
			}
		}
	}
	require.Equal(t, []string{"1", "3", "1", "3"}, order)
}

// TestBulkAsksForAcks: a packet asks for an ack once per sixteenth of the window, but at most
// every second packet does.
func TestBulkAsksForAcks(t *testing.T) {
	for _, test := range []struct{ packets, every int }{{10, 2}, {128, 8}} {
		p := newPair(t, Config{})
		p.send(0, p.open(0, Bulk), Reliable, make([]byte, 30_000))
		p.ends[0].SetWindow(test.packets * fullDatagram)
		asked := 0
		for n := 1; n <= 8; n++ {
			packet, _, ok := p.ends[0].AppendPacket(p.now, nil, fullDatagram)
			require.True(t, ok)
			if packet[1]&flagAckNow != 0 {
				asked++
				require.Zero(t, n%test.every)
			}
		}
		require.Equal(t, 8/test.every, asked)
	}
}

// TestBlockedChannelHoldsNobodyUp: while a channel waits for a higher limit, unreliable
// messages of others fill the packet.
func TestBlockedChannelHoldsNobodyUp(t *testing.T) {
	p := newPair(t, Config{})
	a, b := p.open(0, Normal), p.open(0, Normal)
	p.ends[0].flow.limit = 0
	p.send(0, a, Reliable, make([]byte, 2000))
	for range 10 {
		p.send(0, b, Unreliable, make([]byte, 50))
	}
	packet, _, ok := p.ends[0].AppendPacket(p.now, nil, 1404)
	require.True(t, ok)
	require.Len(t, bunchesOf(t, packet), 10)
	require.True(t, p.ends[0].flow.blocked)
}

func TestUnreliableKeepsItsPlaceAmongReliable(t *testing.T) {
	p := newPair(t, Config{})
	ch := p.open(0, Normal)
	p.send(0, ch, Reliable, pattern(3000, 1))
	p.send(0, ch, Unreliable, []byte("u"))
	p.send(0, ch, ReliableUnordered, []byte("r"))
	p.run(100 * ms)
	got := p.take(1)
	require.Len(t, got, 3)
	require.Equal(t, "u", string(got[1].Payload))
}

// TestBulkFillsLargePackets: bulk fills large packets, but play doesn't have to wait for the
// rest of one.
func TestBulkFillsLargePackets(t *testing.T) {
	const most = 8900
	p := newPair(t, Config{})
	play, bulk := p.open(0, Normal), p.open(0, Bulk)
	p.send(0, play, Reliable, []byte("play"))
	p.send(0, bulk, Reliable, pattern(40_000, 1))
	c := p.ends[0]
	both, _, ok := c.AppendPacket(p.now, nil, most)
	require.True(t, ok)
	require.Len(t, both, playDatagram, "bulk fills it")
	for range 3 {
		alone, _, ok := c.AppendPacket(p.now, nil, most)
		require.True(t, ok)
		require.Len(t, alone, most)
		require.LessOrEqual(t, len(bunchesOf(t, alone)), most/EntryBytes+3, "most entries are in one piece")
	}
}

func TestAtMost255BunchesAPacket(t *testing.T) {
	p := newPair(t, Config{ReliableBuffer: 1024})
	ch := p.open(0, Bulk)
	for range 200 {
		p.send(0, ch, Reliable, nil)
		p.send(0, ch, ReliableUnordered, nil)
	}
	p.max = 60_000
	b, _, _ := p.ends[0].AppendPacket(p.now, nil, p.max)
	require.Len(t, bunchesOf(t, b), 255)
	p.run(100 * ms)
	require.Len(t, p.take(1), 400, "the first packet was thrown away and came again")
	p.run(time10)
	p.settled()
}

func TestHistoryBoundsWhatIsUndecided(t *testing.T) {
	for _, history := range []int{64, 4096} {
		l := newLossTest(t, Config{History: history, ReliableBuffer: 16384})
		n := 0
		for ; n < 2*history; n++ {
			require.NoError(t, l.Send(l.channel, Unreliable, []byte("x")))
			require.NoError(t, l.Send(l.channel, Reliable, make([]byte, 1098)))
			b, _, ok := l.AppendPacket(l.at, nil, 1163)
			if !ok || l.sent.Next > uint64(2*history) {
				break
			}
			require.NotEmpty(t, b)
		}
		require.Equal(t, history-1, int(l.sent.Next), "no new data while newest - oldest undecided >= %d", history-1)
		t.Log("# acks and probes still leave")
		require.NoError(t, l.Receive(l.at, appendPacketHeader(nil, &packetHeader{flags: flagPing | flagAckNow})))
		l.acks = 1
		require.Equal(t, 1, l.packets())
		at, _ := l.NextTimeout()
		l.wait(at.Sub(l.at))
		require.GreaterOrEqual(t, l.packets(), 2)
		l.mustAck(0, uint32(history/2))
		require.Positive(t, l.packets())
	}
}

// TestMaxBelowTheLeast: no packets are sent on a path for less than 1,163 bytes.
func TestMaxBelowTheLeast(t *testing.T) {
	c, ch := newClient(t, Config{})
	require.NoError(t, c.Send(ch, Reliable, nil))
	_, _, ok := c.AppendPacket(epoch, nil, 1162)
	require.False(t, ok)
	prefix := []byte("prefix")
	b, _, ok := c.AppendPacket(epoch, prefix, 1163)
	require.True(t, ok)
	require.Equal(t, prefix, b[:6], "it appends")
	require.Equal(t, len(b)-len(prefix), c.InFlight())
}

// TestEntryFitsBesideTheLargestHeaders: a packet of 1,163 bytes has room for an entry along
// with as many acks as are allowed, a limit and the largest bunch header.
func TestEntryFitsBesideTheLargestHeaders(t *testing.T) {
	l := newLossTest(t, Config{})
	l.channels.ourNext = maxChannelNumber
	ch, err := l.Open(Normal)
	require.NoError(t, err)
	for n := uint32(0); n < 8000; n += 200 {
		require.NoError(t, l.Receive(l.at, appendPacketHeader(nil, &packetHeader{flags: flagPing, number: n})))
	}
	l.flow.capacity = 1 << 50 // its limit takes eight bytes
	l.flow.scheduleUpdate()
	require.NoError(t, l.Send(ch, Reliable, make([]byte, 1098)))
	b, _, ok := l.AppendPacket(l.at, nil, 1163)
	require.True(t, ok)
	require.Equal(t, byte(flagAcks|flagLimit), b[1])
	require.Equal(t, []string{fmt.Sprintf("%d/0", ch)}, bunchesOf(t, b), "the whole entry")
	require.Equal(t, maxHeaderBytes+1+4+2+2+EntryBytes, len(b))
}

// TestPiecesAreNotTiny: the remaining room is only filled with a piece of the next entry if the
// piece has at least minPiece bytes.
func TestPiecesAreNotTiny(t *testing.T) {
	for left, want := range map[int][]string{minPiece: {"1/0", "1/1", "1/2[0:16]"}, minPiece - 1: {"1/0", "1/1"}} {
		c, ch := newClient(t, Config{})
		const header = 1 + 1 + 2 + 2 // of a bunch that is no piece
		size := minDatagram - packetHeaderBytes - (header + 2 + 1000) - (header + 2) - (header + pieceBytes + left)
		require.NoError(t, c.Send(ch, Reliable, make([]byte, 1000)))
		require.NoError(t, c.Send(ch, ReliableUnordered, make([]byte, size)))
		require.NoError(t, c.Send(ch, Reliable, make([]byte, 500)))
		b, _, ok := c.AppendPacket(epoch, nil, minDatagram)
		require.True(t, ok)
		require.Equal(t, want, bunchesOf(t, b))
	}

	t.Log("# and an entry that fits to the byte is not cut")
	c, ch := newClient(t, Config{})
	require.NoError(t, c.Send(ch, Reliable, make([]byte, 1000)))
	require.NoError(t, c.Send(ch, ReliableUnordered, make([]byte, minDatagram-packetHeaderBytes-(6+2+1000)-(6+2))))
	b, _, ok := c.AppendPacket(epoch, nil, minDatagram)
	require.True(t, ok)
	require.Len(t, b, minDatagram)
	require.Equal(t, []string{"1/0", "1/1"}, bunchesOf(t, b))
}
