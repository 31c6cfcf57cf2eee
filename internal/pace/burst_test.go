package pace

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
)

// bursts is a path over which a burst sends.
type bursts struct {
	burst
	now       instant
	bytesEach int // of a packet
}

// together returns how many packets are sent together.
func (b *bursts) together() (n int) {
	b.now += 100 * ms
	for n == 0 || b.continues(b.now) {
		b.packetSent(b.now, b.bytesEach)
		n++
	}
	return n
}

// send sends so many bursts, whose packets arrive so far apart, and returns how long they were.
func (b *bursts) send(times int, apart time.Duration) (counts []int) {
	for range times {
		n := b.together()
		for i := range n {
			b.arrive(b.now, b.now+50*ms+time.Duration(i)*apart)
		}
		counts = append(counts, n)
	}
	return counts
}

func TestBursts(t *testing.T) {
	b := bursts{}
	t.Logf("# nobody wants them")
	require.Equal(t, []int{1, 1, 1}, b.send(3, 0))

	t.Logf("# the path passes them on: twice as many each time, up to what one call sends")
	b.wanted = true
	require.Equal(t, []int{2, 4, 8, 16, 16}, b.send(5, burstTime/20))

	t.Logf("# it passes on five packets in burstTime")
	require.Equal(t, []int{16, 5, 10, 5}, b.send(4, burstTime/4))

	t.Logf("# a packet is lost")
	b.send(2, 0)
	b.lost()
	require.Equal(t, []int{8, 16}, b.send(2, 0))

	t.Logf("# many are lost, and all that arrives is slow")
	for range 10 {
		b.lost()
	}
	require.Equal(t, []int{2, 2, 2}, b.send(3, 2*burstTime))

	t.Logf("# jumbo packets")
	b.send(4, 0)
	b.bytesEach = 9000
	require.Equal(t, []int{3, 3}, b.send(2, 0))
	b.bytesEach = 0

	t.Logf("# nobody wants them any more, but what was learnt stays")
	b.send(4, 0)
	b.wanted = false
	require.Equal(t, []int{1}, b.send(1, 0))
	b.wanted = true
	require.Equal(t, []int{16}, b.send(1, 0))
}

// Packets that were not sent as a burst, but were sent together because they
// could be, also show what the path passes on.
func TestBurstsAreLearntFromAnyPackets(t *testing.T) {
	b := bursts{}
	for i := range 40 {
		b.arrive(1, 50*ms+time.Duration(i)*burstTime/100)
	}
	b.wanted = true
	require.Equal(t, []int{16}, b.send(1, 0))
	require.Equal(t, 16, (&Controller{burst: b.burst}).Together())
}

// Packets may arrive in another order.
func TestBurstsReordered(t *testing.T) {
	b := bursts{}
	for _, at := range []instant{53, 52, 51, 50} {
		b.arrive(1, at*burstTime/2)
	}
	b.wanted = true
	require.Equal(t, []int{3}, b.send(1, 0), "as many came within burstTime")
}

// A peer may report any times: no burst becomes longer than one call sends, and
// the owner decides whether there are bursts.
func TestBurstsOfALiar(t *testing.T) {
	r := testkit.Rand(t)
	b := bursts{}
	for range 10_000 {
		b.wanted = r.IntN(2) == 0
		n := b.together()
		require.LessOrEqual(t, n, maxBurst)
		if !b.wanted {
			require.Equal(t, 1, n)
		}
		for range n {
			sent := []instant{b.now, 0, instant(r.Int64N(int64(b.now)))}[r.IntN(3)]
			b.arrive(sent, []instant{b.now, furthest, -furthest, 0, instant(r.Int64N(int64(furthest)))}[r.IntN(5)])
		}
		if r.IntN(10) == 0 {
			b.lost()
		}
	}
}

// After a burst the pacer waits for as long as its packets take one by one, and
// packets that something else holds back are not sent together.
func TestBurstsKeepThePace(t *testing.T) {
	start := time.Unix(1e9, 0)
	send := func(wanted bool) (took time.Duration, most int) {
		c := New(Config{Packet: 1000})
		c.Guess(100 * ms) // 32 packets in that
		c.Bursts(wanted)
		c.burst.passed = maxBurst
		now, together := start, 0
		for i := range 32 {
			at, ok := c.Next(now, 1000, i*1000)
			require.True(t, ok)
			if together++; at.After(now) {
				now, together = at, 1
			}
			c.Sent(now, 1000, i*1000)
			most = max(most, together)
		}
		at, _ := c.Next(now, 1000, 0)
		return at.Sub(start), most
	}
	spaced, one := send(false)
	joined, many := send(true)
	require.Equal(t, []int{1, maxBurst}, []int{one, many})
	require.InDelta(t, spaced.Seconds(), joined.Seconds(), 0.001)
}

// No burst sends what the window or Dark holds back.
func TestBurstsStayInTheWindow(t *testing.T) {
	now := time.Unix(1e9, 0)
	c := New(Config{Packet: 1000})
	c.Bursts(true)
	c.burst.passed = maxBurst
	c.Sent(now, 1000, 0)
	at, ok := c.Next(now, 1000, 31000)
	require.True(t, ok)
	require.Equal(t, now, at)
	at, ok = c.Next(now, 1000, 32000)
	require.True(t, ok)
	require.True(t, at.After(now))
}

// A train is a burst too: if all of it arrives within burstTime, it shows what
// the path passes on before any bulk was sent.
func TestBurstsAreLearntFromTheTrain(t *testing.T) {
	c := New(Config{})
	c.TrainMeasured(Train{Span: 2 * burstTime, Whole: true})
	require.Equal(t, minBurst, c.burst.size(), "the path has spread it out")
	c.TrainMeasured(Train{Span: burstTime / 2})
	require.Equal(t, minBurst, c.burst.size(), "the path has lost some of it")
	c.TrainMeasured(Train{Span: burstTime / 2, Whole: true})
	require.Equal(t, maxBurst, c.burst.size())
	c.burst.lost()
	require.Equal(t, maxBurst/2, c.burst.size(), "and losses still shorten it")
	c.Reset(time.Now())
	require.Equal(t, minBurst, c.burst.size(), "another path may pass on less")
}
