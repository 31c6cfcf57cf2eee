package bunch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// launch sends an ack-eliciting packet.
func (s *sentPackets) launch(now time.Duration, size int) *sentPacket {
	p := s.add()
	p.size = size
	s.packetSent(p, now)
	return p
}

func TestSentPacketsGrowAndForget(t *testing.T) {
	var s sentPackets
	for range 20 {
		s.launch(0, 100)
	}
	require.Equal(t, 32, s.Cap())
	require.Equal(t, 2000, s.bytesInFlight)
	require.Equal(t, 20, s.packetsInFlight)
	require.Equal(t, 20, s.spread())

	t.Log("# decided packets behind a flying one stay")
	s.decide(s.At(1), acked)
	s.dropExpired(0)
	require.Equal(t, uint64(0), s.Oldest)
	s.decide(s.At(0), acked)
	s.dropExpired(0)
	require.Equal(t, uint64(2), s.Oldest)
	require.Equal(t, 18, s.spread())
	require.Equal(t, 1800, s.bytesInFlight)

	t.Log("# the record of a lost one stays until its time")
	s.decide(s.At(2), lost)
	s.At(2).lostUntil = time.Second
	s.dropExpired(time.Second - 1)
	require.Equal(t, uint64(2), s.Oldest)
	require.Equal(t, 17, s.spread())
	s.dropExpired(time.Second)
	require.Equal(t, uint64(3), s.Oldest)

	t.Log("# the ring does not grow while it can forget")
	for n := s.Oldest; n < s.Next; n++ {
		s.decide(s.At(n), acked)
	}
	for range 1000 {
		s.decide(s.launch(0, 1), acked)
	}
	require.Equal(t, 32, s.Cap())
	require.Zero(t, s.bytesInFlight)
}

func TestSentPacketsAreBounded(t *testing.T) {
	var s sentPackets
	for range seenWindow {
		require.True(t, s.makeRoom())
		s.countBunches(s.launch(0, 1))
	}
	require.False(t, s.makeRoom())
	require.Equal(t, seenWindow, s.Cap())
	t.Log("# of packets without bunches fewer are remembered")
	s = sentPackets{}
	for range bareRecords {
		require.True(t, s.makeRoom())
		s.launch(0, 1)
	}
	require.False(t, s.makeRoom())
	s.decide(s.At(0), acked)
	require.True(t, s.makeRoom())
	s.launch(0, 1)
	s.decide(s.At(s.Oldest), lost)
	require.False(t, s.makeRoom(), "a lost one is not forgotten by itself")
	s.drop()
	require.True(t, s.makeRoom())
	require.Equal(t, bareRecords, s.Cap())
}

// TestPeerThatAcknowledgesNothing: a peer pings forever and never acknowledges anything.
func TestPeerThatAcknowledgesNothing(t *testing.T) {
	p := newPair(t, Config{IdleTimeout: time.Hour})
	c := p.ends[0]
	p.send(0, p.open(0, Normal), Reliable, []byte("x"))
	for n := range 2 * seenWindow {
		ping := appendPacketHeader(nil, &packetHeader{flags: flagPing, number: uint32(n)})
		require.NoError(t, c.Receive(p.now, ping))
		p.now = p.now.Add(40 * ms)
		require.NoError(t, c.Advance(p.now))
		for n := 0; ; n++ {
			if _, _, ok := c.AppendPacket(p.now, nil, 1404); !ok {
				break
			}
			require.Less(t, n, 5)
		}
		at, ok := c.NextTimeout()
		require.True(t, !ok || at.After(p.now))
	}
	require.Equal(t, bareRecords, c.sent.Cap())
	require.GreaterOrEqual(t, c.stats.AcksOnlySent, uint64(seenWindow))
	require.Positive(t, c.stats.PacketsLost, "the oldest gave way")
	checkConn(t, c)
}

// TestLimitsThatAreNeverAcknowledged: each ping that wants an immediate ack is answered with a
// limit, which itself asks for an ack. New ones push out old ones, which aren't sent again,
// because otherwise they would push out the next ones, and so on forever.
func TestLimitsThatAreNeverAcknowledged(t *testing.T) {
	p := newPair(t, Config{IdleTimeout: time.Hour})
	c := p.ends[0]
	p.send(0, p.open(0, Normal), Reliable, []byte("x"))
	for n := range 2 * seenWindow {
		ping := appendPacketHeader(nil, &packetHeader{flags: flagPing | flagAckNow, number: uint32(n)})
		require.NoError(t, c.Receive(p.now, ping))
		for n := 0; ; n++ {
			if _, _, ok := c.AppendPacket(p.now, nil, 1404); !ok {
				break
			}
			require.Less(t, n, 3)
		}
	}
	require.Equal(t, bareRecords, c.sent.Cap())
	checkConn(t, c)
}

// TestFullHistoryOfBunches: if all records are of packets with bunches, the bunches don't push
// each other out forever.
func TestFullHistoryOfBunches(t *testing.T) {
	c, ch := newClient(t, Config{ReliableBuffer: 16384, IdleTimeout: time.Hour})
	c.flow.raise(1 << 40)
	now := epoch
	for n := 0; n < 3*seenWindow; n++ {
		if out, slots := c.Reliable(ch); out < slots-2 {
			require.NoError(t, c.Send(ch, Reliable, make([]byte, 1000)))
		}
		require.NoError(t, c.Receive(now, appendPacketHeader(nil, &packetHeader{flags: flagPing | flagAckNow, number: uint32(n)})))
		for n := 0; ; n++ {
			if _, _, ok := c.AppendPacket(now, nil, 1163); !ok {
				break
			}
			require.Less(t, n, 3)
		}
	}
	require.Equal(t, seenWindow, c.sent.Cap())
	checkConn(t, c)
}
