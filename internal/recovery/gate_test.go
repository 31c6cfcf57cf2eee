package recovery

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const ms = time.Millisecond

// gateTest feeds a gate from a path with a fixed RTT, in rounds of one packet each.
type gateTest struct {
	Gate
	now time.Duration
}

// round sends bytes at once and acks them after an RTT of d.
func (g *gateTest) round(bytes int, d time.Duration) {
	sent, mark := g.now, g.Sent(g.now, 0)
	g.now += d
	g.RTT.Update(g.now, d, 0)
	g.Acked(g.now, &mark, bytes)
	g.Measure(g.now, sent, &mark)
}

func TestGateMeasures(t *testing.T) {
	var g gateTest
	require.Equal(t, unknownWindow, g.Window(1000), "nothing is known")
	g.PathWindow = 50_000
	require.Equal(t, 50_000, g.Window(1000))
	g.round(10_000, 100*ms)
	require.InDelta(t, 100_000, g.rate.value, 1)
	require.Equal(t, 50_000, g.Window(1000), "at the start only the path's window counts")

	t.Log("# three rounds without a quarter more end the start; then rate * (min RTT + 20 ms)")
	for range flatRounds + 1 {
		require.False(t, g.start.over)
		g.round(10_000, 100*ms)
	}
	require.True(t, g.start.over)
	require.InDelta(t, 100_000*0.12, g.Window(1000), 1)
	g.PathWindow = 6000
	require.Equal(t, 8000, g.Window(1000), "never more than 2 packets above the path's window")
	g.PathWindow = 0
	g.rate.value = 10_000
	require.Equal(t, 4000, g.Window(1000), "never under 4 packets")
	g.rate.value = 100_000

	t.Log("# a rate stays the maximum for ten rounds")
	g.PathWindow = 0
	for range rateRounds - 1 {
		g.round(5000, 100*ms)
		require.InDelta(t, 100_000, g.rate.value, 1)
	}
	g.round(5000, 100*ms)
	require.InDelta(t, 50_000, g.rate.value, 1)
}

// TestSlowPathsHaveAQueueOfWholePackets: where round trips are long and hold
// few packets, a window without slackPackets holds them up.
func TestSlowPathsHaveAQueueOfWholePackets(t *testing.T) {
	var g gateTest
	for range flatRounds + 2 {
		g.round(10_000, 200*ms)
	}
	require.True(t, g.start.over)
	require.Equal(t, 10_000+2*1000, g.Window(1000), "20 ms are 1,000 bytes")
}

// TestQueueIsBoundedInPackets: on fast paths 20 ms are more packets than a receiver holds.
func TestQueueIsBoundedInPackets(t *testing.T) {
	var g gateTest
	g.round(10_000_000, 100*ms)
	require.InDelta(t, 2*10_000_000+96*1000, g.Window(1000), 1, "at the start twice what the path holds")
	for range flatRounds + 1 {
		g.round(10_000_000, 100*ms)
	}
	require.InDelta(t, 10_000_000+96*1000, g.Window(1000), 1)
}

// TestPauseBeginsAnew also tests Estimate while the rate is not steady.
func TestPauseBeginsAnew(t *testing.T) {
	g := gateTest{Gate: Gate{PathWindow: 20_000}}
	require.Zero(t, g.Estimate())
	for range flatRounds + 2 {
		g.round(100, 100*ms)
	}
	require.True(t, g.start.over)
	g.BulkSent(g.now)
	require.False(t, g.start.over, "the first bulk owes nothing to play before it")
	for range flatRounds + 2 {
		g.round(10_000, 100*ms)
	}
	require.InDelta(t, 100_000, g.Estimate(), 1)
	g.now = bulkPause
	g.BulkSent(g.now)
	require.True(t, g.start.over)
	g.now += bulkPause + 1
	g.BulkSent(g.now)
	require.False(t, g.start.over)
	require.InDelta(t, 200_000, g.Estimate(), 1, "what the path's window promises")
	require.InDelta(t, 100_000, g.Rate(), 1)
}

// TestSmallQueueEndsTheStart: if four round trips in a row show a queue of an eighth of the
// least, but at least 4 ms, because otherwise every hiccup of a LAN would end the start, and at
// most 16 ms, because otherwise play on a long path would wait behind what the start builds.
func TestSmallQueueEndsTheStart(t *testing.T) {
	for _, c := range []struct{ least, queue time.Duration }{{8 * ms, 4 * ms}, {56 * ms, 7 * ms}, {400 * ms, 16 * ms}} {
		var g gateTest
		bytes := 1000
		small, shown := c.least+c.queue, c.least+c.queue+ms/2
		for _, d := range []time.Duration{c.least, shown, shown, shown, small, shown, shown, shown} {
			g.round(bytes, d)
			require.False(t, g.start.over, c.least)
			bytes *= 2
		}
		g.round(bytes, shown)
		require.True(t, g.start.over, c.least)
	}
}

func TestQueueEndsTheStart(t *testing.T) {
	var g gateTest
	g.round(1000, 50*ms)
	g.round(2000, 52*ms)
	require.False(t, g.start.over)
	g.round(4000, 90*ms)
	require.True(t, g.start.over)
}

// TestAckDelayIsNoQueue: a peer that plays at 30 Hz acks late, and says so.
func TestAckDelayIsNoQueue(t *testing.T) {
	var g Gate
	g.RTT.Update(0, 50*ms, 0)
	g.RTT.Update(100*ms, 85*ms, 35*ms)
	require.False(t, g.queueStands())
	g.RTT.Update(200*ms, 85*ms, 0)
	require.True(t, g.queueStands())
}

func TestApplicationLimitedSamplesDoNotLower(t *testing.T) {
	var g gateTest
	for range 5 {
		g.round(10_000, 100*ms)
	}
	for range 3 * rateRounds {
		g.Limited(100)
		g.round(100, 100*ms)
	}
	require.InDelta(t, 100_000, g.rate.value, 1)
	g.Limited(100)
	g.round(20_000, 100*ms)
	require.InDelta(t, 200_000, g.rate.value, 1, "but they raise")

	t.Log("# with a queue the path is the limit, whatever the application does")
	for range rateRounds + 1 {
		g.Limited(100)
		g.round(5000, 200*ms)
	}
	require.InDelta(t, 25_000, g.rate.value, 1)
}

// TestTrickleInAnothersQueue: what a trickle of bulk meets while the peer sends
// its own bulk says nothing about the path.
func TestTrickleInAnothersQueue(t *testing.T) {
	trickle := func(g *gateTest) {
		for range 3 * rateRounds {
			g.Limited(100)
			g.round(100, 200*ms)
		}
	}
	t.Log("# before the first bulk")
	var g gateTest
	g.round(100, 100*ms)
	trickle(&g)
	require.False(t, g.start.over)

	t.Log("# and after it")
	for range flatRounds + 2 {
		g.round(10_000, 100*ms)
	}
	require.True(t, g.start.over)
	trickle(&g)
	require.InDelta(t, 100_000, g.rate.value, 1)

	t.Log("# more than a trickle may have built the queue itself")
	g = gateTest{}
	g.round(100, 100*ms)
	g.Limited(100)
	g.round(10_000, 200*ms)
	require.True(t, g.start.over)
}

func TestRandomLossLeavesTheRate(t *testing.T) {
	var g gateTest
	g.Lost(new(Mark), 5000)
	require.Zero(t, g.rate.delivered, "of a path from which nothing came yet")
	g.round(10_000, 100*ms)
	var mark Mark
	g.Lost(&mark, 5000)
	require.Equal(t, int64(15_000), g.rate.delivered)
	g.Acked(g.now, &mark, 5000)
	require.Equal(t, int64(15_000), g.rate.delivered, "once")

	t.Log("# a loss beside a queue is congestion")
	g.RTT.Update(g.now, 200*ms, 0)
	g.Lost(new(Mark), 5000)
	require.Equal(t, int64(15_000), g.rate.delivered)
}

func TestMinimumRTTExpires(t *testing.T) {
	var g gateTest
	for range 5 {
		g.round(10_000, 100*ms)
	}
	t.Log("# the path becomes longer: after 10 s bulk drains for 1.5 RTT, and the least of that time counts")
	for !g.drain.active() {
		g.round(11_000, 110*ms)
		require.Less(t, g.now, 12*time.Second)
	}
	require.Greater(t, g.now, minRTTLifetime)
	require.InDelta(t, g.rate.value*0.075, g.Window(1000), 1, "three quarters of what the path holds")
	g.round(7500, 120*ms)
	require.True(t, g.drain.active())
	g.round(7500, 108*ms)
	require.False(t, g.drain.active())
	require.Equal(t, 108*ms, g.Min)
	require.Equal(t, g.now, g.minAt)
	require.Equal(t, 100*ms, g.MinEver)
}

// TestWhatADrainFinds: round trips that stay long are those of a longer path,
// unless four packets, which are always in flight, take as long: then bulk would
// take its own queue for the path, and permanently stand in front of play. On a
// path that is more than twice as long the start begins again, without the packets
// that a first start may queue, because those would stand in the queue of others.
func TestWhatADrainFinds(t *testing.T) {
	for _, c := range []struct {
		bytes     int           // in a round
		trip, min time.Duration // in the drain and after it
		start     bool
	}{
		{10_000, 150 * ms, 100 * ms, false},
		{1_000_000, 150 * ms, 150 * ms, false},
		{1_000_000, 300 * ms, 300 * ms, true},
	} {
		var g gateTest
		for range flatRounds + 2 {
			g.round(c.bytes, 100*ms)
		}
		require.True(t, g.start.over)
		g.round(c.bytes, c.trip)
		for g.beginDrain(g.now); g.drain.active(); {
			g.round(c.bytes/2, c.trip)
		}
		require.Equal(t, c.min, g.Min, "%+v", c)
		require.Equal(t, c.start, !g.start.over, "%+v", c)
		if c.start {
			require.InDelta(t, 2*10_000_000*c.min.Seconds(), g.Window(1000), 1)
		}
	}
}

// TestADrainShowsJitter: by how much round trips in it exceed the least, of
// packets before which no more was in flight than it allows. Without it the
// window of a path with jitter would shrink with each round.
func TestADrainShowsJitter(t *testing.T) {
	var g gateTest
	for range flatRounds + 2 {
		g.round(1_000_000, 100*ms)
	}
	g.round(1_000_000, 150*ms)
	g.beginDrain(g.now)
	marks := []Mark{g.Sent(g.now, 0), g.Sent(g.now, 0), g.Sent(g.now, 1_000_000)}
	sent := g.now
	for i, trip := range []time.Duration{120 * ms, 150 * ms, 190 * ms} {
		g.Update(sent+trip, trip, 0)
		g.Acked(sent+trip, &marks[i], 1000)
		g.Measure(sent+trip, sent, &marks[i])
	}
	require.False(t, g.drain.active())
	require.Equal(t, 100*ms, g.Min)
	require.InDelta(t, 35*ms, g.allowance(), float64(ms))

	t.Log("# and so does the time before bulk")
	g = gateTest{Gate: Gate{RTT: RTT{Min: 100 * ms, Smoothed: 100 * ms, Variance: 20 * ms}}}
	g.BulkSent(time.Second)
	require.Equal(t, 48*ms, g.allowance())
}

// TestDrainOfAQueueBelievesTheLatestRate: three quarters of what fitted a path
// before it became slower would not drain it.
func TestDrainOfAQueueBelievesTheLatestRate(t *testing.T) {
	for recent, want := range map[time.Duration]float64{100 * ms: 100_000, 200 * ms: 50_000} {
		var g gateTest
		for range flatRounds + 2 {
			g.round(10_000, 100*ms)
		}
		g.round(5000, 100*ms)
		g.Recent = recent
		g.beginDrain(g.now)
		require.InDelta(t, want, g.rate.value, 1)
		g.round(5000, 100*ms)
		require.InDelta(t, want, g.rate.value, 1)
	}
}

// TestAPauseIsADrain: bulk that begins after a pause knows the round trips
// without bulk, and needs no drain for 10 s.
func TestAPauseIsADrain(t *testing.T) {
	var g gateTest
	g.round(10_000, 100*ms)
	g.BulkSent(g.now)
	for g.now < 6*time.Second {
		g.Limited(100)
		g.round(100, 110*ms)
	}
	g.BulkSent(g.now)
	require.InDelta(t, 10*ms, g.allowance(), float64(ms))
	for began := g.now; g.now < began+9*time.Second; g.BulkSent(g.now) {
		g.round(10_000, 110*ms)
		require.False(t, g.drain.active())
	}
}

// TestNothingDrainsBeforeARoundTripIsKnown: acks of old packets alone measure
// rates, but no round trips.
func TestNothingDrainsBeforeARoundTripIsKnown(t *testing.T) {
	var g Gate
	mark := g.Sent(0, 0)
	g.Acked(20*time.Second, &mark, 1000)
	g.Measure(20*time.Second, 0, &mark)
	require.False(t, g.drain.active())
}

func TestRateFitsAnInt(t *testing.T) {
	require.Equal(t, 1<<31-1, Bytes(1e15, time.Hour))
	require.Equal(t, 1000, Bytes(1e6, ms))
}

// TestStartOfASourceThatTicks: a source that brings a little more at each tick
// than the path takes has nothing to send between the ticks, and yet the queue is
// its own. The start did not end, and 1.2 s of a queue stood in front of play.
func TestStartOfASourceThatTicks(t *testing.T) {
	const size, tick, rtt = 1200, 33 * ms, 100 * ms
	for _, rate := range []float64{45_000, 90_000, 450_000} { // bytes a second that the path takes
		var g Gate
		g.Update(0, rtt, 0)
		type packet struct {
			sent, acked time.Duration
			mark        Mark
		}
		var flying []packet
		var free, most time.Duration // when the path takes the next packet, and the longest queue
		waiting := 0.
		for now := time.Duration(0); now < 10*time.Second; now += ms {
			for ; len(flying) > 0 && flying[0].acked <= now; flying = flying[1:] {
				p := &flying[0]
				g.Update(now, now-p.sent, 0)
				g.Acked(now, &p.mark, size)
				g.Measure(now, p.sent, &p.mark)
			}
			if now%tick == 0 {
				waiting = min(waiting+rate/0.9*tick.Seconds(), rate)
			}
			for ; waiting >= size && (len(flying)+1)*size <= g.Window(size); waiting -= size {
				g.BulkSent(now)
				free = max(free, now) + time.Duration(size/rate*float64(time.Second))
				flying = append(flying, packet{now, free + rtt, g.Sent(now, len(flying)*size)})
			}
			if waiting < size {
				g.Limited(len(flying) * size)
			}
			most = max(most, free-now)
		}
		require.True(t, g.start.over, rate)
		require.Less(t, most, 300*ms, rate)
	}
}

// TestWhatAnOutageHoldsUpShowsNoQueue: the ack of a packet from before an outage comes when it's
// over. Its round trip ended the start, and the time of the outage counted for the rate after it.
func TestWhatAnOutageHoldsUpShowsNoQueue(t *testing.T) {
	var g gateTest
	g.round(10_000, 100*ms)
	g.round(20_000, 100*ms)
	sent, mark := g.now, g.Sent(g.now, 0)
	g.now += 3 * time.Second
	g.OutageEnded(g.now, time.Second)
	g.RTT.Update(g.now, g.now-sent, 0)
	g.Acked(g.now, &mark, 1000)
	g.Measure(g.now, sent, &mark)
	require.False(t, g.start.over)
	require.InDelta(t, 200_000, g.rate.value, 1)

	t.Log("# a packet that was sent after it measures the rate since then")
	sent, mark = g.now, g.Sent(g.now, 10_000)
	g.now += 100 * ms
	g.RTT.Update(g.now, 100*ms, 0)
	g.Acked(g.now, &mark, 40_000)
	g.Measure(g.now, sent, &mark)
	require.InDelta(t, 400_000, g.rate.value, 1)
	require.False(t, g.start.over)
}

// TestAnOutageBeginsAnew: the path may have become another one.
func TestAnOutageBeginsAnew(t *testing.T) {
	var g gateTest
	for range flatRounds + 2 {
		g.round(100_000, 100*ms)
	}
	require.True(t, g.start.over)
	g.now += time.Second
	g.OutageEnded(g.now, 0)
	require.False(t, g.start.over)
	require.InDelta(t, 2*100_000, g.Window(1000), 1, "gently")
	for g.now += 1; g.Min < 300*ms; {
		g.round(300_000, 300*ms)
		require.Less(t, g.now, 5*time.Second, "it's longer")
	}
}

// TestOneLongRoundTripEndsNoGentleStart: after an outage, one ack that was lost ended the start. On
// a path of 50 Mbit/s that loses 10 %, the rate then stayed at a fifth of that.
func TestOneLongRoundTripEndsNoGentleStart(t *testing.T) {
	var g gateTest
	g.round(10_000, 100*ms)
	g.now += 3 * time.Second
	g.OutageEnded(g.now, 0)
	g.now++
	bytes := 20_000
	round := func(rtt time.Duration) {
		g.round(bytes, rtt)
		bytes *= 2
	}
	round(100 * ms)
	require.True(t, g.start.gentle)
	for range 3 {
		round(250 * ms)
		require.False(t, g.start.over)
	}
	round(100 * ms)
	for range startSamples {
		require.False(t, g.start.over)
		round(250 * ms)
	}
	require.True(t, g.start.over, "a queue stands")
}
