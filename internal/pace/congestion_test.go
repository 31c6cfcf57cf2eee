package pace

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
)

// judged gives a congestion packets that are sent apart from each other, and whose queue
// rises like a saw. Some are lost, which shows once the fourth packet after them has arrived.
func judged(c *congestion, s sight, packets int, apart, deepest time.Duration, lose func(i int) bool) (alarms int) {
	var lost []instant
	for i := range packets {
		t := instant(1+i) * apart
		if lose(i) {
			lost = append(lost, t)
		} else {
			c.acked(t, t, deepest*time.Duration(i%40)/40, 0, s)
		}
		for len(lost) > 0 && t >= lost[0]+4*apart {
			c.lost(lost[0], s)
			lost = lost[1:]
		}
		if i%8 == 7 && c.endBatch(t, s, false, true) {
			alarms++
		}
	}
	return alarms
}

func TestCongestionIsLossInDeepQueues(t *testing.T) {
	t.Logf("# one packet in forty, always where the queue is deepest")
	require.Greater(t, judged(new(congestion), sight{}, 4000, ms, 40*ms, func(i int) bool { return i%40 == 38 }), 50)
	t.Logf("# as many where it is shallow")
	require.LessOrEqual(t, judged(new(congestion), sight{}, 4000, ms, 40*ms, func(i int) bool { return i%40 == 3 }), 1, "the first one, before a deep queue was seen")
}

// TestFaintQueue: over a short round trip a whole queue is no deeper than what
// clocks and timers blur. Its losses are those of a full queue all the same, if
// it holds more than a few packets; random ones are not.
func TestFaintQueue(t *testing.T) {
	const grain = 120 * time.Microsecond
	trip := 10 * ms
	judged := func(deepest time.Duration, lose func(i int) bool) (alarms int) {
		return judged(new(congestion), sight{grain: grain, step: trip / 64}, 4000, grain, deepest, lose)
	}
	full := func(i int) bool { return i%40 == 38 }
	require.Greater(t, judged(10*grain, full), 10)
	require.Zero(t, judged(8*grain, full), "a few packets")
	dice := testkit.Rand(t)
	for _, share := range []float64{0.02, 0.05} {
		require.LessOrEqual(t, judged(10*grain, func(int) bool { return dice.Float64() < share }), 8, "%g", share)
	}
	trip = 150 * ms
	require.Zero(t, judged(10*grain, full), "over a long round trip")
}

// TestHighIsWithinAPacket: most packets that a queue of two packets drops meet one packet.
// Of a longer queue, one that is a packet less than the deepest is nearly as deep.
func TestHighIsWithinAPacket(t *testing.T) {
	d, s := deepest{queue: 2 * ms}, sight{grain: ms}
	require.True(t, d.isHigh(ms, s))
	require.False(t, d.isHigh(ms-1, s))
	d.queue = 20 * ms
	require.True(t, d.isHigh(15*ms, s))
	require.False(t, d.isHigh(15*ms-1, s))
	require.True(t, d.isHigh(10*ms, sight{grain: ms, long: true}), "round trips show a queue")
	require.True(t, d.isHigh(15*ms, sight{}), "not known")
}

func TestRandomLossIsNoCongestion(t *testing.T) {
	dice := testkit.Rand(t)
	for _, share := range []float64{0.01, 0.05, 0.1} {
		random := func(int) bool { return dice.Float64() < share }
		c := new(congestion)
		alarms := judged(c, sight{}, 20_000, ms, 40*ms, random)
		require.LessOrEqual(t, alarms, 40, "%g", share)
		require.InDelta(t, share, c.usual(20_000*ms), 0.05)
	}
	t.Logf("# without a queue all loss is random")
	require.Zero(t, judged(new(congestion), sight{}, 4000, ms, 0, func(i int) bool { return i%20 == 0 }))
}

// TestRandomLossInJitter: a lost packet is judged by two that arrived, and so is each
// that arrived, or jitter would make a lost one seem to have met the deeper queue.
func TestRandomLossInJitter(t *testing.T) {
	dice, c := testkit.Rand(t), new(congestion)
	var missing []instant
	const packets = 100_000
	learnt := 0.0 // at each packet, added up
	for i := range packets {
		at := instant(1+i) * ms / 4
		learnt += c.baseline.value
		if dice.Float64() < 0.05 {
			missing = append(missing, at)
			continue
		}
		c.acked(at, at, time.Duration(dice.Int64N(int64(3*ms))), 0, sight{})
		for ; len(missing) > 0 && missing[0] < at-ms; missing = missing[1:] {
			c.lost(missing[0], sight{})
		}
		c.endBatch(at, sight{}, false, true)
	}
	require.InDelta(t, 0.05, learnt/packets, 0.025)
}

// TestLossesOfALongWindow: if packets arrive late, a lost one is declared lost
// when a thousand later ones have arrived.
func TestLossesOfALongWindow(t *testing.T) {
	c, s := new(congestion), sight{step: 50 * ms / 64}
	for i := range 20_000 {
		at := instant(1+i) * ms / 10
		if i%20 != 0 {
			c.acked(at, at, time.Duration(i%1000)*10*ms/1000, 0, s)
		}
		if i%20 == 0 && i > 1000 {
			c.lost(at-1000*ms/10, s)
		}
		c.endBatch(at, s, false, true)
	}
	require.InDelta(t, 0.05, c.baseline.value, 0.02)
}

func TestBaselineFades(t *testing.T) {
	c := &congestion{baseline: share{value: 0.08, count: lossMemory}, roomSeen: time.Second}
	require.InDelta(t, 0.08, c.usual(time.Second), 1e-9)
	require.InDelta(t, 0.04, c.usual(2*time.Second), 1e-9)
	c.learn(3*time.Second, tally{acked: 1})
	require.InDelta(t, 0.02, c.usual(3*time.Second), 1e-3, "a single packet brings nothing back")
	c.forget()
	require.Zero(t, c.usual(time.Second))
}

// Every loss counts beside a competitor, whatever queue it met.
func TestLossBesideARival(t *testing.T) {
	c := new(congestion)
	for i := range 40 {
		c.acked(instant(i+1)*ms, instant(i+1)*ms, 0, 0, sight{})
	}
	c.lost(20*ms, sight{})
	require.True(t, c.endBatch(50*ms, sight{}, true, false))
}

// TestFewLossesInABlurAreNoCongestion: over a faint queue and in jitter every
// lost packet seems to have met a deep queue, so a few losses show nothing.
func TestFewLossesInABlurAreNoCongestion(t *testing.T) {
	for _, row := range []struct {
		queue, jitter time.Duration
		lost          int
		congestion    bool
	}{
		{40 * ms, 0, 1, true},
		{40 * ms, 10 * ms, jitterAlarm, false},
		{40 * ms, 10 * ms, jitterAlarm + 1, true},
		{3 * ms / 2, 0, jitterAlarm, false},
		{3 * ms / 2, 0, jitterAlarm + 1, true},
	} {
		c := new(congestion)
		for at := ms; at <= 40*ms; at += ms {
			c.acked(at, at, row.queue+row.jitter, row.jitter, sight{})
		}
		for range row.lost {
			c.lost(20*ms, sight{})
		}
		require.Equal(t, row.congestion, c.endBatch(50*ms, sight{}, false, true), "%+v", row)
	}
}

// TestASlightQueueHasRoom: in jitter of a few milliseconds next to nothing
// meets a low queue. When only low queues were learned from, one in four
// transfers with 5 % of loss took thirty times the ideal.
func TestASlightQueueHasRoom(t *testing.T) {
	s := sight{step: ms}
	c := &congestion{deepest: deepest{queue: slightSteps*ms - 1}}
	require.Same(t, &c.batch.room, c.of(3*ms, s))
	require.Same(t, &c.batch.high, c.of(5*ms, s))
	c.deepest.queue = slightSteps * ms
	require.Same(t, &c.batch.between, c.of(3*ms, s))
	require.Same(t, &c.batch.room, c.of(ms, s))
}

func TestCalm(t *testing.T) {
	var c calm
	for i := range 8 {
		c.note(50*ms + time.Duration(i)*ms)
	}
	c.roundOver(time.Second, tally{acked: 8}, true, false)
	require.Equal(t, 7*ms, c.above(50*ms), "jitter comes up to that in every round")
	t.Logf("# a round with a queue does not raise it")
	for range 8 {
		c.note(90 * ms)
	}
	c.roundOver(2*time.Second, tally{lost: 8, acked: 8}, true, false)
	require.Equal(t, 7*ms, c.above(50*ms))
	t.Logf("# a short round says nothing")
	c.note(50 * ms)
	c.roundOver(3*time.Second, tally{acked: 1}, true, false)
	require.Equal(t, 7*ms, c.above(50*ms))

	t.Logf("# nor does a rival's queue, however long it stands")
	for second := range 20 {
		for i := range 8 {
			c.note(150*ms + time.Duration(i)*ms)
		}
		c.roundOver(time.Duration(4+second)*time.Second, tally{acked: 8}, true, true)
	}
	require.InDelta(t, 7*ms, c.above(50*ms), float64(ms))

	t.Logf("# a first one that lost more than a tenth shows a full queue, behind an even train")
	crash, none := tally{lost: 2, acked: 14}, tally{acked: 16}
	for _, run := range []struct {
		tally
		even bool
		want time.Duration
	}{{crash, true, 0}, {crash, false, 40 * ms}, {none, true, 40 * ms}} {
		c = calm{}
		for range 8 {
			c.note(90 * ms)
		}
		c.roundOver(4*time.Second, run.tally, run.even, false)
		require.Equal(t, run.want, c.above(50*ms), "%v", run)
	}
}

// TestNothingIsLowInALongRoundTrip: a controller that begins while many others
// keep the queue full knows the path's delay only over that queue. Losses in it
// are not random, although the queue looks empty.
func TestNothingIsLowInALongRoundTrip(t *testing.T) {
	full := func(i int) bool { return i%20 == 0 }
	known := new(congestion)
	require.Greater(t, judged(known, sight{long: true, stands: true}, 4000, ms, 0, full), 20)
	require.Zero(t, known.usual(4000*ms))
	require.Zero(t, judged(new(congestion), sight{}, 4000, ms, 0, full))
}

// TestAQueueThatStandsIsNeverLow: a flow that begins while many others keep the
// queue full has never seen the path without it. Once all round trips of some
// rounds were long its losses are those of a full queue, although that looks empty.
func TestAQueueThatStandsIsNeverLow(t *testing.T) {
	full := func(rounds int) bool {
		c := New(Config{})
		c.delay.trip(1, 50*ms)
		for range rounds {
			c.delay.roundOver(100 * ms)
		}
		c.enter(Cruise, 1)
		for at := ms; at <= 40*ms; at += ms {
			c.congestion.acked(at, at, 0, 0, c.sight())
		}
		for range 8 {
			c.congestion.lost(20*ms, c.sight())
		}
		b := batch{tally: tally{lost: 8, acked: 40}}
		c.judgeLosses(50*ms, &b)
		return b.full
	}
	require.False(t, full(drainRounds-1))
	require.True(t, full(drainRounds))
}
