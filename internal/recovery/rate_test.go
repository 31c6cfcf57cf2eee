package recovery

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// delivers counts and samples a packet that was sent at sent and arrived by now.
func (g *Gate) delivers(now, sent time.Duration, m *Mark, size int, shortest time.Duration) {
	g.Acked(now, m, size)
	g.rate.sample(now, sent, m, shortest, false)
}

// TestRateBeginsAtTheLastSample: a sample begins when the packet of the sample
// before was sent, and when the last packet arrived.
func TestRateBeginsAtTheLastSample(t *testing.T) {
	var g Gate
	first := g.Sent(0, 0)
	second := g.Sent(100*ms, 1000)
	g.delivers(100*ms, 0, &first, 1000, 0)
	g.delivers(200*ms, 100*ms, &second, 1000, 0)
	third := g.Sent(200*ms, 1000)
	g.delivers(300*ms, 200*ms, &third, 4000, 0)
	require.InDelta(t, 40_000, g.rate.value, 1, "4,000 bytes in 100 ms")
}

// TestAcksThatCameTogether show no more than what was sent: otherwise bulk
// would fill a queue wherever acks are delayed.
func TestAcksThatCameTogether(t *testing.T) {
	var g Gate
	first, second := g.Sent(0, 0), g.Sent(100*ms, 1000)
	g.delivers(150*ms, 0, &first, 1000, 0)
	third := g.Sent(200*ms, 1000)
	g.Acked(250*ms, &second, 1000)
	g.delivers(250*ms, 200*ms, &third, 1000, 0)
	require.InDelta(t, 10_000, g.rate.value, 1, "2,000 bytes left in 200 ms")
}

func TestShortSamplesDoNotCount(t *testing.T) {
	var g Gate
	m := g.Sent(0, 0)
	g.delivers(49*ms, 0, &m, 1000, 50*ms)
	require.Zero(t, g.rate.value)
	m = g.Sent(100*ms, 0)
	g.delivers(150*ms, 100*ms, &m, 1000, 50*ms)
	require.InDelta(t, 20_000, g.rate.value, 1)
}

// TestRoundEndsOnce: a round ends with the ack of a packet that was sent after
// the last round had ended.
func TestRoundEndsOnce(t *testing.T) {
	var g Gate
	first, second := g.Sent(0, 0), g.Sent(0, 1000)
	g.Acked(100*ms, &first, 1000)
	require.True(t, g.rate.endRound(&first))
	third := g.Sent(100*ms, 1000)
	g.Acked(100*ms, &second, 1000)
	require.False(t, g.rate.endRound(&second))
	g.Acked(200*ms, &third, 1000)
	require.True(t, g.rate.endRound(&third))
}

// TestLimitedUntilItArrived: packets sent after everything has arrived that was
// in flight when the owner had no more are not limited.
func TestLimitedUntilItArrived(t *testing.T) {
	var g Gate
	first := g.Sent(0, 0)
	g.Limited(1000)
	second := g.Sent(50*ms, 1000)
	require.True(t, second.limited)
	g.Acked(100*ms, &first, 1000)
	third := g.Sent(100*ms, 1000)
	require.False(t, third.limited)
}
