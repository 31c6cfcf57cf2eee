package chunk_test

import (
	"github.com/quivernet/quiver/internal/testkit"

	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/chunk"
	"github.com/quivernet/quiver/internal/netsim"
)

// TestArticleTimes sends 256 KiB at the article's three rates. Its "8, 4, 2
// seconds" are 262,144 bytes over the rate; a frame is 1/60 s, as in its loop.
func TestArticleTimes(t *testing.T) {
	for _, test := range []struct {
		rate    int
		seconds string
	}{{125_000, "2.1"}, {64_000, "4.1"}, {32_000, "8.2"}} {
		p := newPair(chunk.Config{Rate: test.rate}, netsim.Config{Delay: 10 * ms})
		send(t, p.s, content(256<<10, 9))
		require.NoError(t, p.run(time.Minute, 1))
		exact := float64(256<<10) / float64(test.rate)
		t.Logf("%d bytes/s: %.3f s, ideal %.3f", test.rate, p.took.Seconds(), exact)
		require.InDelta(t, exact, p.took.Seconds(), 0.05)
		require.Equal(t, test.seconds, rounded(exact))

		frames := framed(t, test.rate)
		t.Logf("asked 60 times a second: %.3f s", frames.Seconds())
		require.InDelta(t, exact, frames.Seconds(), 0.05, "what is left over of a frame's budget is kept")
	}
}

func rounded(seconds float64) string {
	n := int(math.Round(seconds * 10))
	return string([]byte{'0' + byte(n/10), '.', '0' + byte(n%10)})
}

// framed returns how long the first pass takes when the sender is asked once a frame.
func framed(t *testing.T, rate int) time.Duration {
	s := must(chunk.NewSender(chunk.Config{Rate: rate}))
	send(t, s, make([]byte, 256<<10))
	for frame, sent := 0, 0; ; frame++ {
		now := time.Duration(frame) * time.Second / 60
		s.Acknowledge(after(now), ackOf(0, 256))
		if sent += len(indexes(s, after(now))); sent >= 256 {
			return now
		}
	}
}

// TestBurstIsQuick sends the same with the article's initial burst over a good line.
func TestBurstIsQuick(t *testing.T) {
	link := netsim.Config{Delay: 25 * ms, Rate: 20e6, Queue: 512 << 10}
	p := newPair(chunk.Config{Burst: true}, link)
	send(t, p.s, content(256<<10, 9))
	require.NoError(t, p.run(time.Minute, 1))
	t.Logf("20 Mbit/s, 50 ms: %v", p.took)
	require.Less(t, p.took, 150*ms)
}

// TestOneShotLoss computes and draws what the article says of blocks that are
// lost with any of their fragments: at 1 % packet loss 2, 10, 64 and 256
// packets make 2, 9.5 (ten packets: 9.6), 63.4 (a hundred) and 92.4 %.
func TestOneShotLoss(t *testing.T) {
	rng := rand.New(rand.NewPCG(testkit.Seed(t), 1))
	for _, test := range []struct {
		packets int
		percent float64
	}{{2, 2}, {10, 9.5}, {100, 63.4}, {256, 92.4}} {
		exact := 100 * (1 - math.Pow(0.99, float64(test.packets)))
		require.InDelta(t, test.percent, exact, 0.1, "%d packets", test.packets)
		link := netsim.NewLink(netsim.Config{Loss: 0.01, Seed: rng.Uint64()})
		const blocks = 4000
		lost := 0
		for range blocks {
			whole := true
			for range test.packets {
				whole = link.Send(epoch, []byte{0}) == netsim.Carried && whole
				link.Deliver(epoch)
			}
			if !whole {
				lost++
			}
		}
		drawn := 100 * float64(lost) / blocks
		t.Logf("%d packets: %.2f %% of blocks lost, drawn %.2f %%", test.packets, exact, drawn)
		require.InDelta(t, exact, drawn, 5, "six standard deviations at the most uncertain")
	}
}

// TestSlicesSurviveWhatBlocksDoNot sends the block that 1 % loss drops with
// 92.4 %: with slices it needs a few packets more.
func TestSlicesSurviveWhatBlocksDoNot(t *testing.T) {
	var packets uint64
	seed := testkit.Seed(t)
	for i := range uint64(20) {
		p := newPair(chunk.Config{Rate: 10e6}, netsim.Config{Delay: 25 * ms, Loss: 0.01, Seed: seed + i})
		send(t, p.s, content(256<<10, i))
		require.NoError(t, p.run(time.Minute, 1))
		packets += p.s.Stats().Slices
	}
	t.Logf("%.1f packets a block of 256 slices", float64(packets)/20)
	require.Less(t, packets, uint64(20*270))
}

// cursor is the sender of the article as written: a walk around the slices.
type cursor struct {
	acked []bool
	sent  []time.Duration
	at    int
}

// next returns at most n slices to send now.
func (c *cursor) next(now, delay time.Duration, n int) (order []int) {
	first := c.at
	for step := range c.acked {
		i := (first + step) % len(c.acked)
		if c.acked[i] || c.sent[i] >= 0 && now-c.sent[i] < delay {
			continue
		}
		if len(order) == n {
			break
		}
		c.sent[i] = now
		order = append(order, i)
		c.at = (i + 1) % len(c.acked)
	}
	return order
}

// TestWalkIsTheArticles compares the order of sending with the article's
// cursor, slice by slice, under random acks.
func TestWalkIsTheArticles(t *testing.T) {
	rng := rand.New(rand.NewPCG(testkit.Seed(t), 2))
	for range 200 {
		count := 1 + rng.IntN(256)
		rate := 1024 * (1 + rng.IntN(2000))
		limited := rng.IntN(4) > 0
		if !limited {
			rate = -1
		}
		s := must(chunk.NewSender(chunk.Config{Rate: rate}))
		s.SetRTT(80 * ms)
		send(t, s, make([]byte, count*1024))
		c := &cursor{acked: make([]bool, count), sent: make([]time.Duration, count)}
		for i := range c.sent {
			c.sent[i] = -1
		}
		now, have := time.Duration(0), chunk.Ack{Count: count}
		for ; !s.Done(); now += time.Duration(1+rng.IntN(120)) * ms {
			got := indexes(s, after(now))
			most := len(got)
			if !limited {
				most = count
			}
			require.Equal(t, c.next(now, 100*ms, most), got)
			for _, i := range got {
				if rng.IntN(3) > 0 {
					have.Acked.Set(i)
					c.acked[i] = true
				}
			}
			s.Acknowledge(after(now), have)
		}
	}
}
