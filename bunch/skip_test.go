package bunch

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
)

// dice returns a Config.Random that is seeded by the test.
func dice(seed uint64) func(n int) int { return rand.New(rand.NewPCG(seed, 0)).IntN }

// skipOften skips one number in twelve, so that every test skips some.
func skipOften(c *Conn) {
	if random := c.skips.random; random != nil {
		c.skips.random = func(int) int { return random(2*(12-minSkip) + 1) }
		c.skips.draw(0)
	}
}

// leftOut returns the numbers that were skipped so far.
func leftOut(c *Conn) (numbers []uint64) {
	for n := c.sent.Oldest; n < c.sent.Next; n++ {
		if c.sent.At(n).fate == skipped {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

func TestNumbersAreLeftOut(t *testing.T) {
	seed := testkit.Seed(t)
	const packets = 30_000
	play := func(random func(int) int) (gaps []uint32, c *Conn) {
		c, ch := newClient(t, Config{Random: random})
		next := uint32(0)
		for n := range packets {
			require.NoError(t, c.Send(ch, Unreliable, nil))
			b, number, ok := c.AppendPacket(epoch.Add(time.Duration(n)*ms), nil, 1404)
			require.True(t, ok)
			require.Equal(t, uint32(number), binary.BigEndian.Uint32(b[2:]))
			if uint32(number) != next {
				gaps = append(gaps, next)
				require.Equal(t, next+1, uint32(number), "one at a time")
			}
			next = uint32(number) + 1
			h := packetHeader{flags: flagAcks, number: uint32(n), largest: uint32(number), nruns: 1}
			h.runs[0] = 1
			require.NoError(t, c.Receive(epoch.Add(time.Duration(n)*ms), appendPacketHeader(nil, &h)))
		}
		return gaps, c
	}
	gaps, c := play(dice(seed))
	require.InDelta(t, packets/meanSkip, len(gaps), 35, "7 standard deviations")
	require.Equal(t, uint64(packets), c.Stats().PacketsSent)
	for i, n := range gaps {
		require.True(t, i == 0 || n-gaps[i-1] >= minSkip)
	}
	other, _ := play(dice(seed + 1))
	require.NotEqual(t, gaps, other)
	none, _ := play(nil)
	require.Empty(t, none)
}

// TestMadeUpAcksClose: a peer that acknowledges every number is detected, and one that only
// acknowledges what it has received never is.
func TestMadeUpAcksClose(t *testing.T) {
	l := newLossTest(t, Config{Random: dice(testkit.Seed(t))})
	l.skips.next = 3
	l.sendPackets(5)
	require.Equal(t, []uint64{3}, leftOut(l.Conn))
	l.wait(50 * ms)
	l.mustAck(0, 2)
	l.mustAck(4, 5)
	requireCode(t, AckSequenceMismatch, l.ack(0, 5))
	require.ErrorContains(t, l.Err(), "ack of packet 3, which was deliberately skipped")

	t.Log("# also later, when all others were acknowledged, and with nothing else in the ack")
	l = newLossTest(t, Config{Random: dice(1)})
	l.skips.next = 3
	l.sendPackets(5)
	l.wait(50 * ms)
	l.mustAck(0, 2)
	l.mustAck(4, 5)
	l.wait(100 * ms)
	requireCode(t, AckSequenceMismatch, l.ack(3, 3))
}

// TestSkippedNumberIsNoLoss: a skipped number counts neither as lost nor as one of three
// packets that overtook another.
func TestSkippedNumberIsNoLoss(t *testing.T) {
	l := newLossTest(t, Config{Random: dice(testkit.Seed(t))})
	l.skips.next = 2
	l.sendPackets(5) // 0 1 3 4 5
	require.Equal(t, []uint64{2}, leftOut(l.Conn))
	l.wait(50 * ms)
	l.mustAck(3, 4)
	require.Equal(t, inFlight, l.fate(1), "only two later ones were acknowledged")
	l.mustAck(3, 5)
	require.Equal(t, lost, l.fate(1))
	require.Equal(t, uint64(2), l.Lost(), "0 and 1")
	l.mustAck(0, 1)
	l.wait(time10)
	require.Empty(t, leftOut(l.Conn), "forgotten after 3 PTO")
	require.Equal(t, l.sent.Oldest, l.sent.Next)
	require.True(t, l.Drained())
}

// TestSkippedNumberIsTakenBack: the number of a packet that was refused counts as skipped. A
// packet that turns out to be empty doesn't use up a number.
func TestSkippedNumberIsTakenBack(t *testing.T) {
	l := newLossTest(t, Config{Random: dice(testkit.Seed(t))})
	l.sendPackets(4)
	l.skips.next = 4
	require.NoError(t, l.Send(l.channel, Reliable, nil))
	_, first, ok := l.AppendPacket(l.at, nil, 1404)
	require.True(t, ok)
	require.Equal(t, uint64(5), first)
	l.Unsent(first)
	_, again, ok := l.AppendPacket(l.at, nil, 1404)
	require.True(t, ok)
	require.Equal(t, first+1, again)
	require.Equal(t, []uint64{4, 5}, leftOut(l.Conn))

	t.Log("# a message that is blocked by the limit fills no packet, however often it is tried")
	l.flow.limit = l.flow.sent
	l.skips.next = 7
	require.NoError(t, l.Send(l.channel, Reliable, make([]byte, 100)))
	for range 10 {
		require.Zero(t, l.packets())
		require.Equal(t, uint64(7), l.sent.Next)
		require.Equal(t, uint64(7), l.skips.next)
	}
	checkConn(t, l.Conn)
}

// TestSkipsCostLittle counts the packets of an hour of play at 30 Hz and of a transfer, with
// and without skipped numbers.
func TestSkipsCostLittle(t *testing.T) {
	seed := testkit.Seed(t)
	for _, c := range []struct {
		name   string
		oneWay bool
		size   int
		every  time.Duration
		count  int
	}{
		{"play both ways", false, 20, 33 * ms, 20_000},
		{"play one way", true, 20, 33 * ms, 20_000},
		{"transfer", true, 1098, ms, 20_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			packets := func(config Config) (total int, s [2]Stats) {
				p := newPair(t, config)
				up, down := p.open(0, Normal), p.open(1, Normal)
				for range c.count / map[bool]int{true: 10, false: 1}[testing.Short()] {
					p.send(0, up, Reliable, make([]byte, c.size))
					if !c.oneWay {
						p.send(1, down, Reliable, make([]byte, c.size))
					}
					p.run(c.every)
					p.take(0)
					p.take(1)
				}
				p.run(time10)
				p.settled()
				return p.sent[0] + p.sent[1], [2]Stats{p.ends[0].Stats(), p.ends[1].Stats()}
			}
			without, _ := packets(Config{})
			with, stats := packets(Config{Random: dice(seed)})
			t.Logf("%d packets with numbers left out, %d without: %+.3f %%", with, without, 100*(float64(with)/float64(without)-1))
			require.Less(t, float64(with), 1.004*float64(without)+10)
			for _, s := range stats {
				require.Zero(t, s.PacketsLost)
				require.Zero(t, s.BunchesResent)
			}
		})
	}
}

// TestUnsentNumberIsNeverAcked: a peer that acknowledges a refused packet makes up acks, which
// is detected as long as the packet's record is kept.
func TestUnsentNumberIsNeverAcked(t *testing.T) {
	l := newLossTest(t, Config{})
	l.roundTrip()
	require.NoError(t, l.Send(l.channel, Reliable, nil))
	_, refused, ok := l.AppendPacket(l.at, nil, 1404)
	require.True(t, ok)
	l.Unsent(refused)
	require.Equal(t, 1, l.packets())
	l.wait(100 * ms)
	requireCode(t, AckSequenceMismatch, l.ack(uint32(refused), uint32(refused)+1))
}

// TestSkippedAfter: skipped numbers count up to the third packet, however many there are, and
// later ones don't.
func TestSkippedAfter(t *testing.T) {
	var s sentPackets
	for n := range 16 {
		if p := s.add(); slices.Contains([]int{2, 8, 9, 10, 15}, n) {
			p.fate = skipped
		}
	}
	for n, want := range map[uint64]uint64{0: 1, 1: 1, 2: 0, 4: 0, 5: 3, 7: 3, 10: 0, 13: 1, 15: 0} {
		require.Equal(t, want, s.skippedAfter(n), "after %d", n)
	}
}
