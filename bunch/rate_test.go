package bunch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// rateTest feeds a rate from a path with a fixed RTT, in rounds of one packet each.
type rateTest struct {
	rate
	rtt rtt
	now time.Duration
}

// round sends bytes at once and has them acked after an RTT of d.
func (r *rateTest) round(bytes int, d time.Duration) {
	p := &packet{size: bytes, at: r.now}
	r.sent(r.now, p, 0)
	r.now += d
	r.rtt.update(r.now, d, 0)
	r.acked(r.now, p)
	r.sample(r.now, p, &r.rtt)
	r.observe(r.now, &r.rtt)
}

func TestRateMeasures(t *testing.T) {
	var r rateTest
	require.Equal(t, unknownWindow, r.window(&r.rtt), "nothing is known")
	r.path = 50_000
	require.Equal(t, 50_000, r.window(&r.rtt))
	r.round(10_000, 100*ms)
	require.InDelta(t, 100_000, r.value, 1)
	require.Equal(t, 50_000, r.window(&r.rtt), "at the start only the path's window counts")

	t.Log("# three rounds without a quarter more end the start; then rate * (min RTT + 20 ms)")
	for range flatRounds + 1 {
		require.False(t, r.steady)
		r.round(10_000, 100*ms)
	}
	require.True(t, r.steady)
	require.InDelta(t, 100_000*0.12, r.window(&r.rtt), 1)
	r.path = 8000
	require.Equal(t, 8000, r.window(&r.rtt), "never above the path's window")
	r.path = 1000
	require.Equal(t, leastWindow, r.window(&r.rtt), "never under 4 packets")

	t.Log("# a rate stays the maximum for ten rounds")
	r.path = 0
	for range rateRounds - 1 {
		r.round(5000, 100*ms)
		require.InDelta(t, 100_000, r.value, 1)
	}
	r.round(5000, 100*ms)
	require.InDelta(t, 50_000, r.value, 1)
}

func TestQueueEndsTheStart(t *testing.T) {
	var r rateTest
	r.round(1000, 50*ms)
	r.round(2000, 52*ms)
	require.False(t, r.steady)
	r.round(4000, 90*ms)
	require.True(t, r.steady)
}

// TestAckDelayIsNoQueue: a peer that plays at 30 Hz acks late, and says so.
func TestAckDelayIsNoQueue(t *testing.T) {
	var r rtt
	r.update(0, 50*ms, 0)
	r.update(100*ms, 85*ms, 35*ms)
	require.False(t, queueStands(&r))
	r.update(200*ms, 85*ms, 0)
	require.True(t, queueStands(&r))
}

func TestApplicationLimitedSamplesDoNotLower(t *testing.T) {
	var r rateTest
	for range 5 {
		r.round(10_000, 100*ms)
	}
	for range 3 * rateRounds {
		r.limited(100)
		r.round(100, 100*ms)
	}
	require.InDelta(t, 100_000, r.value, 1)
	r.limited(100)
	r.round(20_000, 100*ms)
	require.InDelta(t, 200_000, r.value, 1, "but they raise")

	t.Log("# with a queue the path is the limit, whatever the application does")
	for range rateRounds + 1 {
		r.limited(100)
		r.round(5000, 200*ms)
	}
	require.InDelta(t, 25_000, r.value, 1)
}

func TestRandomLossLeavesTheRate(t *testing.T) {
	var r rateTest
	r.round(10_000, 100*ms)
	p := &packet{size: 5000}
	r.lost(p, &r.rtt)
	require.True(t, p.counted)
	require.Equal(t, int64(15_000), r.delivered)
	r.acked(r.now, p)
	require.Equal(t, int64(15_000), r.delivered, "once")

	t.Log("# a loss beside a queue is congestion")
	r.rtt.update(r.now, 200*ms, 0)
	r.lost(&packet{size: 5000}, &r.rtt)
	require.Equal(t, int64(15_000), r.delivered)
}

func TestMinimumRTTExpires(t *testing.T) {
	var r rateTest
	for range 5 {
		r.round(10_000, 100*ms)
	}
	t.Log("# the path becomes longer: after 10 s bulk drains for 1.5 RTT, and the least of that time counts")
	for r.drainEnd == 0 {
		r.round(11_000, 110*ms)
		require.Less(t, r.now, 12*time.Second)
	}
	require.Greater(t, r.now, minRTTLifetime)
	require.InDelta(t, r.value*0.075, r.window(&r.rtt), 1, "three quarters of what the path holds")
	r.round(7500, 120*ms)
	r.round(7500, 108*ms)
	require.Zero(t, r.drainEnd)
	require.Equal(t, 108*ms, r.rtt.min)
	require.Equal(t, r.now, r.rtt.minAt)
	require.Equal(t, 100*ms, r.rtt.all)
}

func TestRateFitsAnInt(t *testing.T) {
	require.Equal(t, 1<<31-1, bytesIn(1e15, time.Hour))
	require.Equal(t, 1000, bytesIn(1e6, ms))
}

// TestBulkGate counts bytes in flight, and closes after two probe timeouts but for the probe.
func TestBulkGate(t *testing.T) {
	l := newLossTest(t, Config{})
	bulk, err := l.Open(Bulk)
	require.NoError(t, err)
	l.SetWindow(10_000)
	for range 3 {
		require.NoError(t, l.Send(bulk, Reliable, pattern(20_000, 0)))
	}
	require.Equal(t, 7, l.packets(), "1,163 bytes more must fit into the window")
	require.LessOrEqual(t, l.sent.inFlight, 10_000)

	t.Log("# play passes the gate")
	l.sendPackets(3)
	require.Zero(t, l.packets())
	for range 2 {
		at, _ := l.NextTimeout()
		l.wait(at.Sub(l.at))
		require.Equal(t, 2, l.packets())
	}
	t.Log("# after two probe timeouts the window does not matter")
	l.SetWindow(1 << 20)
	require.Zero(t, l.packets())
	l.mustAck(0, 0)
	require.Greater(t, l.packets(), 20)
}
