package pace

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const ms = time.Millisecond

func TestMinimumForgets(t *testing.T) {
	var m minimum
	m.add(1, 30*ms)
	m.add(3*time.Second, 20*ms)
	m.add(6*time.Second, 40*ms)
	require.Equal(t, 20*ms, m.min)
	m.add(12400*ms, 50*ms)
	require.Equal(t, 20*ms, m.min, "9.4 s old")
	m.add(13*time.Second, 50*ms)
	require.Equal(t, 40*ms, m.min, "10 s old: gone")
	m.add(time.Hour, 60*ms)
	require.Equal(t, 60*ms, m.min)
	m.add(time.Hour-time.Second, 50*ms)
	require.Equal(t, 50*ms, m.min, "a time that runs back")
}

func TestMaximumForgets(t *testing.T) {
	var m maximum
	m.add(1, 100)
	m.add(1, 50)
	m.add(2, 70)
	require.EqualValues(t, 100, m.value())
	m.add(maximumSlots, 60)
	require.EqualValues(t, 100, m.value())
	m.add(maximumSlots+1, 60)
	require.EqualValues(t, 70, m.value())
	m.set(9, 10)
	m.add(10, 20)
	require.EqualValues(t, 20, m.value())
	m.add(1000, 1)
	require.EqualValues(t, 1, m.value())
}

func TestShare(t *testing.T) {
	var s share
	s.note(0, 0)
	require.Zero(t, s.value)
	s.note(1, 9)
	require.InDelta(t, 0.1, s.value, 1e-9, "the first packets are a plain mean")
	s.note(0, 10)
	require.InDelta(t, 0.05, s.value, 1e-9)
	for range 1000 {
		s.note(1, 24)
	}
	require.InDelta(t, 0.04, s.value, 1e-3)
	s.note(100000, 0)
	require.EqualValues(t, 1, s.value)
}

// TestRunsAreOneEvent: of 300 packets 80 lost one by one are a flood, two runs
// of 40 are not, and one packet of ten that passes is.
func TestRunsAreOneEvent(t *testing.T) {
	require.True(t, tally{lost: 80, acked: 220}.floods())
	require.False(t, tally{lost: 80, acked: 220, consecutive: 78}.floods())
	require.True(t, tally{lost: 270, acked: 30, consecutive: 240}.floods())
}

func TestTallyAbove(t *testing.T) {
	for _, c := range []struct {
		lost, acked int
		random      float64
		above       bool
	}{
		{0, 0, 0, false},
		{1, 39, 0, false}, // one packet is chance
		{2, 38, 0, false},
		{4, 36, 0, true},
		{8, 72, 0.10, false}, // as random as ever
		{12, 68, 0.10, false},
		{20, 60, 0.10, true},
		{60, 940, 0.05, false}, // one point more, not two
		{80, 920, 0.05, true},
	} {
		require.Equal(t, c.above, tally{lost: c.lost, acked: c.acked}.above(c.random), "%+v", c)
	}
}

// Packets leave every millisecond and arrive every 2 ms: the path passes a
// packet in 2 ms, however they are clumped and their acks batched.
func TestDeliveryRate(t *testing.T) {
	const size = 1000
	for _, clump := range []time.Duration{1, 4 * ms, 10 * ms} {
		d := delivery{grain: 100 * time.Microsecond}
		for i := range 40 {
			s := d.packetSent(instant(1+i)*ms, i*size, false)
			at := instant(21+2*i) * ms
			d.arrive(s, size, (at+clump-1)/clump*clump)
		}
		s, ok := d.rate(20 * ms)
		require.True(t, ok)
		require.InDelta(t, 500e3, s.shown(), 1, "clumps of %v", clump)
		require.InDelta(t, 500e3, s.arrival, 1)
		require.False(t, s.limited)
		_, ok = d.rate(100 * ms)
		require.False(t, ok, "the curve is shorter")
	}
}

func TestDeliveryRateOfWhatLeftSlowly(t *testing.T) {
	const size = 1000
	var d delivery
	d.arrive(d.packetSent(100*ms, 0, false), size, 120*ms)
	late := d.packetSent(140*ms, size, false)
	late.limited = true
	d.arrive(late, size, 121*ms)
	s, ok := d.rate(ms)
	require.True(t, ok)
	require.InDelta(t, 1e6, s.arrival, 1)
	require.InDelta(t, 25e3, s.shown(), 1, "it shows how it left, not what the path can")
	require.True(t, s.limited)

	t.Logf("# an empty path begins a new curve")
	d.arrive(d.packetSent(500*ms, 0, false), size, 520*ms)
	_, ok = d.rate(ms)
	require.False(t, ok)
}

// The curve reaches back four base round trips of grains.
func TestDeliveryCurveIsLongEnough(t *testing.T) {
	d := delivery{grain: time.Second / 64}
	for i := range 100_000 {
		d.arrive(d.packetSent(instant(i)*ms/10, 1, false), 100, instant(i+1)*ms/10)
	}
	s, ok := d.rate(3 * time.Second)
	require.True(t, ok)
	require.InDelta(t, 1e6, s.arrival, 1e4)
}

func TestPacer(t *testing.T) {
	var p pacer
	require.False(t, p.sent(10*ms, 1000, 1e6))
	require.Equal(t, 10*ms+1, p.next, "a packet's millisecond, of which the burst allows one")
	require.False(t, p.sent(10*ms, 1000, 1e6))
	require.Equal(t, 11*ms+2, p.next)
	t.Logf("# after a pause 1 ms is caught up")
	require.False(t, p.sent(16*ms, 1000, 1e6))
	require.Equal(t, 16*ms+1, p.next)
	t.Logf("# 4 ms late, as it had waited for the pace: all of it")
	p.waited = true
	require.False(t, p.sent(20*ms, 1000, 1e6))
	require.Equal(t, 17*ms+2, p.next)
	t.Logf("# 13 ms late: 5 ms, and the path might have carried more")
	require.True(t, p.sent(30*ms, 1000, 1e6))
	require.Equal(t, 26*ms+1, p.next)
}

func TestStateNames(t *testing.T) {
	seen := make(map[string]bool)
	for s := Start; s <= Stopped; s++ {
		seen[s.String()] = true
	}
	require.Len(t, seen, int(Stopped)+1)
}

// Random losses count as passed as far as they are usual, so that the estimate
// is the bottleneck's rate.
func TestUsualLossPasses(t *testing.T) {
	c := New(Config{Packet: 1000})
	c.congestion.baseline = share{value: 0.1, count: lossMemory}
	c.credit = 2500
	c.countAsDelivered(1000)
	c.countAsDelivered(1000)
	c.countAsDelivered(1000)
	require.EqualValues(t, 2000, c.delivery.total, "two of three: more than that is not usual")
	c.credit, c.looks.shallow = 5000, true
	c.countAsDelivered(1000)
	require.EqualValues(t, 2000, c.delivery.total, "a path that drops instead of queueing gets no credit")
}

// A start ends at the target, or before where the queue is known to be shorter.
func TestStartFull(t *testing.T) {
	d := delay{}
	d.trip(1, 60*ms)
	require.Equal(t, 15*ms, d.startFull())
	d.depth = 60 * ms
	require.Equal(t, 15*ms, d.startFull())
	d.depth = 12 * ms
	require.Equal(t, 6*ms, d.startFull())
	d.depth = 2 * ms
	require.Equal(t, minStartFull, d.startFull())
}

// TestAimOverAShortQueue: cruising steers for a third of a short queue at most,
// so a look that may fill half of it loses nothing by itself.
func TestAimOverAShortQueue(t *testing.T) {
	d := delay{grain: 2 * ms}
	d.trip(1, 60*ms) // the target is 15 ms
	own := d.aim()
	require.Greater(t, own, 3*ms)
	require.Less(t, own, aimPackets*d.grain)
	d.depth = 60 * ms
	require.Equal(t, own, d.aim())
	d.depth = 6 * ms
	require.Equal(t, 2*ms, d.aim())
}

// TestNarrow: a round trip of a narrow path holds few packets at the fastest
// rate that the path had, and its queue holds more.
func TestNarrow(t *testing.T) {
	narrow := func(depth time.Duration, grains ...time.Duration) bool {
		d := delay{depth: depth}
		d.trip(1, 60*ms) // the target is 15 ms
		for _, grain := range grains {
			d.noteGrain(grain)
		}
		return d.narrow()
	}
	require.True(t, narrow(0, 4*ms))
	require.False(t, narrow(0, 3*ms), "20 packets")
	require.False(t, narrow(0, 3*ms, 8*ms), "a small share of it is ours")
	require.False(t, narrow(25*ms, 4*ms), "a short queue")
	require.True(t, narrow(100*ms, 4*ms))
}

// What arrives shows how fast the path is, but not if it has only just begun to move again.
func TestTrim(t *testing.T) {
	after := func(trim func(*Controller), arrivals ...time.Duration) float64 {
		c := New(Config{Packet: 1000})
		c.delay.trip(1, 40*ms)
		c.rates.set(0, 1e6)
		c.recent = 0.6e6
		for i, at := range arrivals {
			c.delivery.arrive(Sample{sent: instant(i) * ms}, 1000, instant(at))
		}
		trim(c)
		return c.rates.value()
	}
	atOnce, atRoundEnd := (*Controller).trimIfSteady, (*Controller).trim
	var slow, slower, still []time.Duration
	for i := range 41 {
		slow = append(slow, time.Duration(i)*2*ms+50*ms)
		slower = append(slower, time.Duration(i)*25*ms+50*ms)
		still = append(still, time.Duration(i)*ms+50*ms+time.Duration(min(i/20, 1))*30*ms)
	}
	require.InDelta(t, 0.6e6, after(atOnce, slow...), 1e3, "a path that has become slower")
	require.InDelta(t, 0.6e6, after(atOnce, slower...), 1e3, "whose packets are further apart than a stand would be")
	require.EqualValues(t, 1e6, after(atOnce, still[:30]...), "10 ms after 30 in which nothing came")
	require.EqualValues(t, 0.6e6, after(atRoundEnd, still[:30]...), "a round is over")
	require.EqualValues(t, 1e6, after(atRoundEnd, still...), "20 ms after")
}

// TestAPathThatHasBecomeSlower: if what was sent before a drain arrives at less than half of
// the estimate, and the queue continues to grow, the rate is trimmed at once. A smaller
// difference may be due to others, and what was sent in the drain was sent at half the rate.
func TestAPathThatHasBecomeSlower(t *testing.T) {
	for _, row := range []struct {
		sent   instant
		queue  time.Duration
		recent float64
		rate   float64
	}{
		{100 * ms, 41 * ms, 0.45e6, 0.5e6},
		{101 * ms, 41 * ms, 0.45e6, 1e6},
		{100 * ms, 40 * ms, 0.45e6, 1e6},
		{100 * ms, 41 * ms, 0.55e6, 1e6},
	} {
		c := New(Config{Packet: 1000})
		c.delay.trip(1, 40*ms)
		c.rates.set(0, 1e6)
		for i := range instant(41) {
			c.delivery.arrive(Sample{sent: i * ms}, 1000, 50*ms+2*i*ms)
		}
		c.round.maxQueue = 40 * ms
		c.enter(Drain, 100*ms)
		c.queue, c.recent = row.queue, row.recent
		c.step(140*ms, batch{tally: tally{acked: 1}, newest: Sample{sent: row.sent}}, false)
		require.InDelta(t, row.rate, c.Estimate(), 1, "%+v", row)
	}
}

// A controller that has just begun to compete, over a queue that has not moved
// since the round before, does not grow, or a longer path would be a rival
// forever: on a slow one growing would move the queue.
func TestCompeteLeavesTheQueueUnmoved(t *testing.T) {
	c := New(Config{Packet: 1000})
	c.delay.trip(1, 60*ms)
	c.queueing.rateBefore = 1e6
	c.compete(10 * ms)
	c.queue, c.round.minQueue, c.round.maxQueue, c.delay.depth = 90*ms, 90*ms, 90*ms, 240*ms
	for i := range time.Duration(4) {
		c.step((70+60*i)*ms, batch{}, true)
	}
	require.Equal(t, 60530, c.Window(), "it has grown once, before there was a round to compare with")
	c.round.minQueue, c.round.maxQueue = 100*ms, 100*ms
	c.step(400*ms, batch{}, true)
	require.Equal(t, 61060, c.Window(), "the queue has moved")
}

// Congestion avoidance that is as fast as New Reno's: 0.53 packets more each
// round trip, 0.7 of it after a loss, once an epoch.
func TestCompete(t *testing.T) {
	c := New(Config{Packet: 1000})
	c.delay.trip(1, 60*ms)
	c.queueing.rateBefore = 1e6
	c.compete(10 * ms)
	require.Equal(t, 60000, c.Window())
	c.queue, c.round.minQueue, c.delay.depth = 30*ms, 30*ms, 240*ms
	c.step(70*ms, batch{}, true)
	require.Equal(t, 60530, c.Window())
	c.step(80*ms, batch{sinceCut: true}, false)
	require.Equal(t, 42371, c.Window())
	require.Equal(t, 80*ms, c.competition.cut)
	for range 20 {
		c.cutWindow(90 * ms)
	}
	require.Equal(t, minCompeteWindow*1000, c.Window())

	t.Logf("# the queue is gone for a round trip: nobody else is there")
	c.queue, c.round.minQueue = 0, 0
	c.step(150*ms, batch{}, true)
	require.Equal(t, Cruise, c.State())
}

// TestTheWholePathHasNoRival: a controller that competes, and gets all that the
// path ever gave, dips at once to see whether the queue is its own. If a queue
// still stands then it is nobody's: the path has become longer.
func TestTheWholePathHasNoRival(t *testing.T) {
	competes := func(rate float64) *Controller {
		c := New(Config{Packet: 1000})
		c.delay.trip(1, 60*ms)
		c.rates.set(0, rate)
		c.fastest, c.queueing.rateBefore, c.inFlight = 1e6, rate, 60000
		c.compete(40 * time.Second)
		c.dips.rest = 1 << 60 // none is due
		c.queue, c.round.minQueue = 30*ms, 30*ms
		return c
	}
	long := 52 * time.Second // no loss has shown anybody since
	require.False(t, competes(0.5e6).checkDip(long))
	c := competes(0.95e6)
	require.False(t, c.checkDip(40*time.Second+minCompeteTime/2))
	require.True(t, c.checkDip(long))

	for rate, state := range map[float64]State{0.5e6: Compete, 0.95e6: Start} {
		c := competes(rate)
		c.dipTogether(long)
		for i := range instant(dipRounds) {
			c.step(long+(i+1)*60*ms, batch{}, true)
		}
		require.Equal(t, state, c.State(), "%v", rate)
	}
}

// A queue that is gone for a round trip has no competitor left, unless it
// drains whenever competitors answer a loss.
func TestAlone(t *testing.T) {
	rounds := func(filled time.Duration) (n int) {
		c := New(Config{Packet: 1000})
		c.delay.trip(1, 60*ms)
		c.queueing.rateBefore = 1e6
		c.compete(10 * ms)
		c.competition.yielded, c.competition.yieldDepth, c.delay.depth = 20*ms, filled, filled
		for c.State() == Compete {
			n++
			c.queue, c.round.minQueue, c.round.maxQueue = 0, 0, 2*ms
			c.step(instant(n)*60*ms, batch{}, true)
		}
		return n
	}
	require.Equal(t, 1, rounds(240*ms))
	require.Equal(t, vacantRounds, rounds(120*ms))
	require.Equal(t, vacantRounds, rounds(60*ms))
	require.Equal(t, vacantRounds, rounds(20*ms), "too short to be seen")
}

// TestLossesBesideNobodyAreRandom: if a competition met next to no queue there was no competitor,
// and its losses show what share is usual. With few packets, or many losses, that is not believed
// unless the window has sunk: controllers on a short queue cause each other as many.
func TestLossesBesideNobodyAreRandom(t *testing.T) {
	for _, row := range []struct {
		rounds int
		fates  tally
		window float64
		usual  float64
	}{
		{vacantRounds, tally{lost: 1, acked: 99}, 60e3, 0.01},
		{vacantRounds - 1, tally{lost: 1, acked: 99}, 60e3, 0},
		{vacantRounds, tally{lost: 1, acked: plentyPackets - 1}, 60e3, 0},
		{vacantRounds, tally{lost: 5, acked: 95}, 60e3, 0},
		{vacantRounds, tally{lost: 5, acked: 95}, 14e3, 0.05},
	} {
		c := New(Config{Packet: 1000})
		c.delay.trip(1, 60*ms)
		c.rates.set(0, 1e6)
		c.queueing.rateBefore = 1e6
		c.compete(10 * ms)
		c.competition.window, c.competition.emptyRounds, c.competition.emptyFates = row.window, row.rounds, row.fates
		c.resign(time.Second)
		require.InDelta(t, row.usual, c.congestion.usual(time.Second), 1e-9, "%+v", row)
	}
}

// TestOwnQueueIsNoRival: a controller that has competed lately does so again if a
// queue above the target stands; a queue below it, or that of a look, is its own.
// It competed with itself for a minute and more after jitter or a rival had gone.
func TestOwnQueueIsNoRival(t *testing.T) {
	after := func(standing time.Duration, looks bool) State {
		c := New(Config{Packet: 1000})
		c.delay.trip(1, 60*ms) // the target is 15 ms
		c.rates.set(0, 1e6)
		c.competition.seen, c.delay.nearFloor = 10*ms, 10*ms
		c.enter(Cruise, 10*ms)
		if looks {
			c.look.until = 9
		}
		c.queueing.rounds, c.queue, c.round.minQueue = drainRounds-1, standing, 10*ms
		c.step(20*ms, batch{}, true)
		return c.State()
	}
	require.Equal(t, Compete, after(18*ms, false))
	require.Equal(t, Cruise, after(18*ms, true))
	require.Equal(t, Cruise, after(12*ms, false))
}

// TestCommonDips: all controllers that compete dip at the same times. If the queue
// remains, it is a rival's, and each rest is twice as long as the one before. If it
// goes, it was that of all that dipped, and they cruise at the rate that they had.
func TestCommonDips(t *testing.T) {
	began := time.Now()
	c := New(Config{Packet: 1000, Epoch: began.Add(-2500 * ms)})
	epoch := c.tick(began) - 2500*ms
	step := func(at, queue time.Duration) State {
		c.queue, c.round.minQueue = queue, queue
		c.step(epoch+instant(at), batch{}, true)
		return c.State()
	}
	dip := func(at, lowest, left time.Duration) State {
		require.Equal(t, Compete, step(at-ms, 90*ms), at)
		for i := range dipRounds {
			require.Equal(t, Dip, step(at+time.Duration(i)*60*ms, lowest), at)
		}
		return step(at+dipRounds*60*ms, left)
	}
	c.delay.trip(1, 60*ms)
	c.rates.set(0, 1e6)
	c.fastest, c.inFlight, c.queueing.rateBefore, c.delay.depth = 2e6, 60000, 1e6, 240*ms
	c.compete(epoch + instant(2600*ms))
	for _, at := range []time.Duration{4, 8, 16, 32, 64, 96} {
		c.competition.seen = epoch + instant(at*time.Second)
		require.Equal(t, Compete, dip(at*time.Second, 80*ms, 90*ms), at)
	}

	t.Log("# after half of the rest it joins others")
	at := 113 * time.Second
	c.competition.seen = epoch + instant(at)
	step(at-ms, 90*ms)
	require.Equal(t, Compete, step(at, 70*ms), "that may be chance")
	require.Equal(t, Dip, step(at+ms, 60*ms))

	t.Log("# the queue goes")
	c.dips.rate = 7e5
	step(at+60*ms, 10*ms)
	require.Equal(t, Cruise, step(at+120*ms, 0))
	require.EqualValues(t, 7e5, c.rates.value())
	require.False(t, c.competition.lately(c.now))

	t.Log("# rivals who come back behind it put the next one off, once")
	c.dips.rest = minDipRest
	for range 2 {
		c.compete(epoch + instant(at+2*time.Second))
		require.Equal(t, 2*minDipRest, c.dips.rest)
	}
	require.Equal(t, Compete, step(at+2900*ms, 90*ms))
	require.Equal(t, Compete, step(at+2950*ms, 20*ms), "it has just begun, and it is too soon")
	c.compete(epoch + instant(at+40*time.Second))
	require.Equal(t, minDipRest, c.dips.rest)
}

// TestLooksBehindACommonDipAreSpread: the Dip has put all that took part in
// step, so their looks are spread over more rounds than others.
func TestLooksBehindACommonDipAreSpread(t *testing.T) {
	least, most := 1000, 0
	for at := instant(1024); at < 100*1024; at += 1024 {
		c := New(Config{})
		c.stopCompeting(at)
		least, most = min(least, c.looks.pause), max(most, c.looks.pause)
	}
	require.Equal(t, minPause, least)
	require.Equal(t, maxPause+dipSpread-1, most)
}

// TestUnmovedQueue: a queue that moves by a thirtieth at most is the delay of a
// longer path, if no more is lost in it than at random.
func TestUnmovedQueue(t *testing.T) {
	stood := func(random float64, fates tally, queues ...time.Duration) int {
		var u unmoved
		for _, q := range queues {
			u.roundOver(&round{minQueue: q, maxQueue: q + ms, fates: fates}, ms/2, random, true)
		}
		return u.rounds
	}
	require.Equal(t, 5, stood(0, tally{}, 90*ms, 91*ms, 90*ms, 90*ms, 91*ms))
	require.Equal(t, 2, stood(0, tally{}, 90*ms, 91*ms, 85*ms, 85*ms, 86*ms), "it has moved, and stands since")
	require.LessOrEqual(t, stood(0, tally{}, 90*ms, 92*ms, 94*ms, 96*ms, 98*ms), 1)
	still := []time.Duration{90 * ms, 90 * ms, 90 * ms, 90 * ms, 90 * ms, 90 * ms, 90 * ms, 90 * ms}
	require.Equal(t, 8, stood(0.05, tally{lost: 1, acked: 19}, still...), "what is lost at random")
	require.Zero(t, stood(0, tally{lost: 1, acked: 19}, still...), "a full queue drops")
	require.Less(t, stood(0.05, tally{lost: 1, acked: 3}, still...), 8, "rounds of four packets, of which one is lost, show in all that it drops")
}

// What a queue was on the path before a longer one says nothing about the next.
func TestStayBeginsAnew(t *testing.T) {
	c := New(Config{Packet: 1000})
	c.delay.trip(1, 50*ms)
	stood := func(queue time.Duration) int {
		for range 4 {
			c.round.prevMinQueue, c.round.minQueue, c.round.minBack = c.round.minQueue, queue, minDuration{queue, true}
			c.countRounds()
		}
		return c.queueing.stay.rounds
	}
	c.fastest = c.Estimate()
	require.Equal(t, 3, stood(90*ms))
	c.restartOnLongerPath(1)
	require.Equal(t, 3, stood(60*ms))
}

// TestBothWays: a path is longer if both ways are, and neither moves, however
// long that continues while we compete.
func TestBothWays(t *testing.T) {
	after := func(there, back func(i int) time.Duration) State {
		c := New(Config{Packet: 1000})
		c.delay.trip(1, 50*ms)
		c.rates.set(0, 1e6)
		c.queueing.rateBefore = 1e6
		c.compete(1)
		for i := range longerRounds {
			c.round.minQueue, c.round.minBack = there(i), minDuration{back(i), true}
			c.round.maxQueue, c.queue = there(i)+4*ms, there(i)
			c.step(instant(i+1)*100*ms, batch{}, true)
		}
		return c.State()
	}
	still := func(d time.Duration) func(int) time.Duration { return func(int) time.Duration { return d } }
	grows := func(i int) time.Duration { return 20*ms + time.Duration(i)*ms/2 }
	require.Equal(t, Start, after(still(20*ms), still(10*ms)))
	require.Equal(t, Compete, after(still(20*ms), still(9*ms)), "the way there alone")
	require.Equal(t, Compete, after(grows, still(20*ms)), "beside an upload on the way back")
	require.Equal(t, Compete, after(still(20*ms), grows), "which may grow, too")
}

// A queue that remains although we drain is somebody else's; one that goes is
// our own, of a path that has become slower. One that does not move although we
// drain much of the path is the delay of a longer one.
func TestWhoseQueue(t *testing.T) {
	fastest, fates, back := 1e6, tally{}, 60*ms
	drained := func(queues ...time.Duration) State {
		c := New(Config{Packet: 1000})
		c.delay.trip(1, 50*ms)
		c.rates.set(0, 1e6)
		c.fastest, c.round.fates = fastest, fates
		c.enter(Drain, 1)
		for i, queue := range queues {
			c.round.prevMinQueue, c.round.minQueue, c.round.minBack = c.round.minQueue, queue, minDuration{back, true}
			c.queue = queue
			c.step(instant(i+1)*100*ms, batch{}, true)
		}
		return c.State()
	}
	longer := []time.Duration{40 * ms, 60 * ms, 58 * ms, 60 * ms}
	require.Equal(t, Start, drained(longer...))
	require.Equal(t, Drain, drained(longer[:3]...), "the next round tells")
	require.Equal(t, Compete, drained(60*ms, 60*ms, 53*ms), "it falls")
	require.Equal(t, Compete, drained(70*ms, 60*ms, 60*ms, 60*ms), "it has fallen")
	require.Equal(t, Compete, drained(40*ms, 60*ms, 70*ms), "it rises")
	fastest = 5e6
	require.Equal(t, Compete, drained(longer...), "what we leave of a fifth, others may fill up")
	fastest, fates = 1e6, tally{lost: 10, acked: 90}
	require.Equal(t, Compete, drained(10*ms, 10*ms, 10*ms), "a full queue drops")
	fates = tally{}
	require.Equal(t, Start, drained(10*ms, 10*ms, 10*ms))
	back, fates = 0, tally{acked: 20}
	require.Equal(t, Compete, drained(longer...), "the way back is as long as before, and the queue moves a little")
	require.Equal(t, Start, drained(60*ms, 60*ms, 59*ms), "it does not")
	fates = tally{acked: 15}
	require.Equal(t, Compete, drained(60*ms, 60*ms, 59*ms), "few packets hide what moves")
	require.Equal(t, Drain, drained(100*ms, 100*ms, 60*ms))
	require.Equal(t, Drain, drained(100*ms, 100*ms, 60*ms, 40*ms, 20*ms))
	require.Equal(t, Compete, drained(100*ms, 100*ms, 60*ms, 55*ms))
	require.Equal(t, Cruise, drained(60*ms, 30*ms, 12*ms))
	require.Equal(t, Cruise, drained(100*ms, 60*ms, 20*ms, 0))
}

// Rate that a look has found while a queue stood is not the path's.
func TestFound(t *testing.T) {
	look := func(peak time.Duration, packets int) *Controller {
		c := New(Config{Packet: 1000})
		c.delay.trip(1, 50*ms)
		c.rates.set(0, 1e6)
		c.enter(Cruise, 1)
		c.openLook(2)
		c.rates.set(0, 1.25e6)
		c.look.peak = peak
		c.look.outcome.acked = packets
		return c
	}
	require.True(t, look(5*ms, minLookPackets).judgeLook(3))
	require.False(t, look(5*ms, minLookPackets-1).judgeLook(3), "too few packets to show a rate")
	burnt := look(5*ms, minLookPackets)
	burnt.start.dropped, burnt.start.left, burnt.looks.shallow = 2, 1e6, true
	require.False(t, burnt.judgeLook(3), "a start met losses just now")
	require.True(t, burnt.looks.shallow && burnt.look.until > 0, "and it is not over")
	c := look(30*ms, minLookPackets)
	require.False(t, c.judgeLook(3))
	c.round.number = c.look.until
	require.False(t, c.judgeLook(3))
	require.EqualValues(t, 1e6, c.Estimate(), "what it took is given back")
}

// TestGoingOn: a look that has found more is followed by a start, or, over a
// short queue, which would drop a third of a start's packets, by a look.
func TestGoingOn(t *testing.T) {
	after := func(depth time.Duration) *Controller {
		c := New(Config{Packet: 1000})
		c.delay.trip(1, 60*ms) // the target is 15 ms
		c.delay.depth = depth
		c.rates.set(0, 1e6)
		c.openLook(2)
		c.goOn(60 * ms)
		return c
	}
	require.Equal(t, Start, after(0).State())
	require.Equal(t, Start, after(30*ms).State())
	short := after(29 * ms)
	require.Equal(t, Cruise, short.State())
	short.step(120*ms, batch{tally: tally{acked: 1}}, true)
	require.Equal(t, Up, short.State())
}

// A look from before a silence says nothing about the path after it: what it
// had seen was subtracted from a rate that was measured again.
func TestSilenceEndsALook(t *testing.T) {
	c := New(Config{Packet: 1000})
	c.delay.trip(1, 50*ms)
	c.rates.set(0, 1e6)
	c.openLook(2)
	c.look.peak = 30 * ms
	c.beginStart(time.Second, 0.5e6)
	c.round.number = lookRounds
	c.rates.set(0, 2e6)
	require.False(t, c.judgeLook(time.Second))
	require.EqualValues(t, 2e6, c.Estimate())
}

// A bottleneck without a queue has room: a look does not wait, unless the last one was in vain.
func TestVacant(t *testing.T) {
	c := New(Config{Packet: 1000})
	c.delay.trip(1, 50*ms)
	c.rates.set(0, 1e6)
	round := func() State {
		c.step(ms, batch{tally: tally{acked: 1}}, true)
		return c.State()
	}
	c.enter(Cruise, 1)
	require.Equal(t, Cruise, round())
	require.Equal(t, Up, round())
	c.look.outcome.acked = minLookPackets
	c.closeLook()
	c.enter(Cruise, 1)
	for range minPause - 1 {
		require.Equal(t, Cruise, round())
	}
	t.Logf("# more than half of the rate is lost since")
	c.rates.set(0, 0.49e6)
	c.enter(Cruise, 1)
	require.Equal(t, Cruise, round())
	require.Equal(t, Up, round())
	c.rates.set(0, 1e6)
	c.closeLook()
	t.Logf("# a queue was seen since")
	c.enter(Cruise, 1)
	c.round.maxQueue = 10 * ms
	require.Equal(t, Cruise, round())
	c.round.maxQueue = 0
	require.Equal(t, Up, round())
}

// A look that gained at the expense of others keeps the more of it, the smaller our share is.
func TestDue(t *testing.T) {
	c := New(Config{Packet: 1000})
	c.delay.trip(1, 100*ms)
	kept := func(extra float64) float64 {
		c.looks.extra = extra
		c.look = look{peak: 50 * ms, from: 1e6, minExtra: lookGain - 1}
		c.rates.set(0, 1.5e6)
		c.closeLook()
		return (c.Estimate() - 1e6) / 1e4 // packets per round trip
	}
	require.Zero(t, kept(0), "the first look")
	require.Zero(t, kept(0.25), "alone")
	require.InDelta(t, 1, kept(0.5), 1e-9, "half of it is ours")
	require.InDelta(t, 3, kept(1), 1e-9, "the bound")
	c.delay.noteDepth(1, 10*ms)
	require.Zero(t, kept(1), "a short queue")
}

// The gain of looks adapts so that a look makes a quarter of a round trip of
// queue, whatever our part of the bottleneck.
func TestPush(t *testing.T) {
	c := New(Config{Packet: 1000})
	c.delay.trip(1, 100*ms)
	c.openLook(1)
	require.Equal(t, lookGain, c.push())
	after := func(rise time.Duration, outcome tally) float64 {
		c.look = look{peak: rise, outcome: outcome, from: 1e6, minExtra: c.look.minExtra}
		c.closeLook()
		return c.push()
	}
	require.InDelta(t, 1.25, after(25*ms, tally{acked: 100}), 1e-9, "alone")
	require.InDelta(t, 1.5, after(12500*time.Microsecond, tally{acked: 100}), 1e-9, "half of it is ours")
	require.InDelta(t, 2, after(5*ms, tally{acked: 100}), 1e-9)
	require.InDelta(t, 2, after(5*ms, tally{acked: 100}), 1e-9, "the bound")
	require.InDelta(t, 1.5, after(100*ms, tally{acked: 100}), 1e-9)
	require.False(t, c.looks.shallow)
	require.InDelta(t, 1.25, after(0, tally{lost: 20, acked: 80}), 1e-9, "no queue, but losses")
	require.True(t, c.looks.shallow)

	c.Played(time.Unix(1, 0))
	c.openLook(c.looks.play.last + playLasts - 1)
	require.InDelta(t, playGain, c.push(), 1e-9, "beside play")
	c.openLook(c.looks.play.last + playLasts)
	require.InDelta(t, lookGain, c.push(), 1e-9, "which has ended")
}

// TestPayback: a look is paid back for a fixed time, because the queue is seen a round trip late.
// On a narrow path that removes less than the packet or two that the look has added, so the drain
// lasts until the queue is gone. It does so too after a look that has made too much of a queue.
func TestPayback(t *testing.T) {
	after := func(grain, queue, late time.Duration) *Controller {
		c := New(Config{Packet: 1000})
		c.delay.trip(1, 60*ms) // the target is 15 ms
		c.delay.noteGrain(grain)
		c.rates.set(0, 1000/grain.Seconds())
		c.openLook(2)
		c.queue = queue
		c.endLook(60 * ms)
		c.step(61*ms, batch{}, false)
		c.lapseLook(60*ms + c.paybackTime() + late)
		return c
	}
	require.Equal(t, Drain, after(ms, 30*ms, -1).State())
	require.InDelta(t, 0.75e6, after(ms, 30*ms, -1).Rate(), 1)
	require.Equal(t, Cruise, after(ms, 30*ms, 0).State())

	for _, c := range []*Controller{after(4*ms, 30*ms, 10*time.Second), after(ms, 31*ms, 10*time.Second)} {
		require.Equal(t, Drain, c.State())
		require.InDelta(t, emptyGain*c.Estimate(), c.Rate(), 1)
		c.queue = 0
		c.step(11*time.Second, batch{}, false)
		require.Equal(t, Cruise, c.State())
	}
}

// TestQueueAhead: what acked packets have met is a round trip old, so in the
// first round of a state the bytes in flight show whether the queue is gone.
func TestQueueAhead(t *testing.T) {
	c := New(Config{Packet: 1000})
	c.delay.trip(1, 50*ms)
	c.rates.set(0, 1e6)
	c.enter(Cruise, 1)
	c.queue, c.gap, c.inFlight = 30*ms, 4*ms, 64_000
	require.Equal(t, 10*ms, c.queueAhead().Round(ms))
	c.inFlight = 40_000
	require.Zero(t, c.queueAhead())
	c.inFlight = 200_000
	require.Equal(t, 30*ms, c.queueAhead(), "no more than was met")
	c.inFlight, c.rounds = 64_000, 1
	require.Equal(t, 30*ms, c.queueAhead(), "later")
}

// TestPTOHasAFloor: even if the smoothed variation has become small, a round
// trip of a clump is no silence.
func TestPTOHasAFloor(t *testing.T) {
	d := delay{}
	for i := range 20 * calmSamples {
		rtt := 50 * ms
		if i%calmSamples == 0 {
			rtt = 90 * ms
		}
		d.trip(instant(i)*ms, rtt)
		d.calmTrip.note(rtt)
		if i%calmSamples == calmSamples-1 {
			d.calmTrip.roundOver(instant(i)*ms, tally{}, true, false)
		}
	}
	for i := range 40 {
		d.trip(instant(200+i)*ms, 50*ms)
	}
	require.Less(t, d.smoothed+4*d.varied, 90*ms)
	require.Equal(t, 90*ms, d.pto(0))
}

// TestLossEndsACarefulStart: a first flight that was lost confirms nothing, and a later start
// has no hint to be careful of. A run in it may be an outage, unless it is most of the flight.
func TestLossEndsACarefulStart(t *testing.T) {
	for name, test := range map[string]struct {
		arrives func(i int) bool
		states  []State
	}{
		"one of five arrives":    {func(i int) bool { return i%5 == 0 }, []State{Drain}},
		"the first four arrive":  {func(i int) bool { return i < 4 }, []State{Drain}},
		"a run of seven is lost": {func(i int) bool { return i < 4 || i > 10 }, []State{Start}},
	} {
		c, now := New(Config{}), time.Unix(0, 0)
		c.Guess(50 * ms)
		c.TrainMeasured(Train{Bytes: 15 * 1500, Span: 15 * ms, Even: true})
		for _, state := range test.states {
			c.flight(now, 20, test.arrives)
			require.Equal(t, state, c.State(), name)
			require.Equal(t, state == Start, c.start.careful, name)
			now = now.Add(60 * ms)
		}
	}
}

// flight sends so many full packets at once, whose fates are known a moment later.
func (c *Controller) flight(now time.Time, packets int, arrives func(i int) bool) {
	var flight []Sample
	for i := range packets {
		flight = append(flight, c.Sent(now, 1500, i*1500))
	}
	now = now.Add(60 * ms)
	for i, s := range flight {
		if arrives(i) {
			c.Acked(now, s, 1500, now)
		} else {
			c.Lost(now, s, 1500)
		}
	}
	c.Feedback(now, 0)
}

// TestStartIsAnsweredOnce: losses of packets that were sent before losses ended
// a start are answered by that, and losses of later ones are not.
func TestStartIsAnsweredOnce(t *testing.T) {
	c, now := New(Config{}), time.Unix(0, 0)
	c.rates.set(0, 2e6)
	old := c.Sent(now, 1500, 1500)
	c.round.fates = tally{lost: 20, acked: 20}
	c.endByLoss(c.tick(now.Add(50 * ms)))
	found := c.Estimate()
	require.InEpsilon(t, multiplicative*2e6, found, 0.01)
	c.enter(Cruise, c.now)
	for range 100 {
		c.Lost(now.Add(60*ms), old, 1500)
	}
	c.Feedback(now.Add(60*ms), 0)
	require.Equal(t, Cruise, c.State())
	require.Equal(t, found, c.Estimate())

	fresh := c.Sent(now.Add(70*ms), 1500, 1500)
	for range 100 {
		c.Lost(now.Add(120*ms), fresh, 1500)
	}
	c.Feedback(now.Add(120*ms), 0)
	require.Equal(t, Compete, c.State())
}

// TestTokenBucket: it lets 20 packets of a first flight pass at once, and then
// one in 50. These show the rate.
func TestTokenBucket(t *testing.T) {
	c := New(Config{Packet: 1500})
	c.delay.trip(1, 50*ms)
	c.start.hint, c.delivery.grain = 125e6, 800*time.Microsecond
	for i := range 400 {
		if at := instant(i) * 12 * time.Microsecond; i < 20 || i%50 == 49 {
			c.delivery.arrive(Sample{sent: time.Second + at}, 1500, 2*time.Second+at)
		}
	}
	c.round.fates = tally{lost: 372, acked: 28}
	c.endByLoss(2 * time.Second)
	require.Equal(t, Drain, c.State())
	require.InEpsilon(t, 1500/600e-6, c.Estimate(), 0.2)
	require.Zero(t, c.round.fates.lost, "the bucket explains them")
}

// TestTwoPacketsConfirmNothing: since the source last had nothing to send two packets have arrived,
// slowly. The train's rate remains until more have arrived. Otherwise a game that has sent play for
// a while begins bulk at a quarter of the rate, and then finds the rest with a queue.
func TestTwoPacketsConfirmNothing(t *testing.T) {
	c := New(Config{Packet: 1000})
	c.start.hint, c.start.careful = 1e6, true
	at := instant(time.Second)
	arrive := func(n int, each time.Duration, resumed bool) {
		for range n {
			at += each
			c.delivery.arrive(Sample{sent: at - 50*time.Millisecond, resumed: resumed}, 1000, at)
		}
	}
	arrive(60, time.Millisecond, true)
	arrive(3, 5*time.Millisecond, false)
	c.stepStart(at, batch{}, false)
	require.True(t, c.start.careful)
	require.EqualValues(t, 1e6, c.Estimate())
	arrive(40, 2*time.Millisecond, false)
	c.stepStart(at, batch{}, false)
	require.InEpsilon(t, 5e5, c.Estimate(), 0.1)
}

// TestAFirstFlightLeavesOthersTheirPart: if it arrives more slowly than it was sent
// others fill the path, and it took a share of the queue from them. What they leave is
// the rest, but at least a quarter. A flight that arrived a little later shows no queue.
func TestAFirstFlightLeavesOthersTheirPart(t *testing.T) {
	for _, row := range []struct {
		arrival float64
		grown   time.Duration
		state   State
		rate    float64
	}{
		{0.95e6, 10 * ms, Up, 0.95e6},
		{0.8e6, 2 * burstTime, Up, 0.8e6},
		{0.8e6, 10 * ms, Drain, 0.75e6},
		{0.4e6, 10 * ms, Drain, 0.1e6},
	} {
		c := New(Config{Packet: 1000})
		c.delay.trip(1, 50*ms)
		c.start.hint, c.start.careful = 1e6, true
		c.confirm(100*ms, slope{sent: 1e6, arrival: row.arrival, grown: row.grown})
		require.Equal(t, row.state, c.State(), "%+v", row)
		require.InDelta(t, row.rate, c.Estimate(), 1, "%+v", row)
	}
}

// TestAHeaderLimitsNothing: a transfer's header is sent alone, and then all the
// rest. That the source had nothing to send in between says nothing about the
// flight after it, which confirms the train's rate.
func TestAHeaderLimitsNothing(t *testing.T) {
	c := New(Config{Packet: 1000})
	c.TrainMeasured(Train{Bytes: 16_000, Span: 16 * time.Millisecond, Even: true})
	now, size := time.Unix(1000, 0), 1000
	flight := []Sample{c.Sent(now, size, 0)}
	c.Limited(size)
	for n := range 60 {
		flight = append(flight, c.Sent(now.Add(time.Duration(n)*time.Millisecond), size, size*(n+1)))
	}
	require.True(t, flight[60].limited, "of what it shows nothing may lower the rate")
	for n, s := range flight {
		c.Acked(now.Add(time.Duration(100+n)*time.Millisecond), s, size, now.Add(time.Duration(50+n)*time.Millisecond))
		c.Feedback(now.Add(time.Duration(100+n)*time.Millisecond), size*(60-n))
	}
	require.False(t, c.start.careful)
	require.InEpsilon(t, 1e6, c.rates.value(), 0.1)
}

// TestADrainEndsWhenThePathIsFasterAgain: packets that a slow path queued arrive faster than they
// were sent. Those of clumps do, too, but jitter rarely delays them by a round trip more than its
// usual spread.
func TestADrainEndsWhenThePathIsFasterAgain(t *testing.T) {
	for name, row := range map[string]struct {
		change func(c *Controller)
		rate   float64 // 0 = the drain goes on
	}{
		"faster":                {rate: 4e6},
		"without jitter":        {change: func(c *Controller) { c.delay.calmWay = calm{} }, rate: 5e6},
		"usual jitter":          {change: func(c *Controller) { c.queue, c.queueing.drained = 60*ms, 60*ms }},
		"little more":           {change: func(c *Controller) { c.queue, c.queueing.drained = 85*ms, 85*ms }, rate: 4e6},
		"the first drain":       {change: func(c *Controller) { c.look.number = 0 }},
		"never so fast before":  {change: func(c *Controller) { c.fastest = 3e6 }, rate: 3e6},
		"not by our own clock":  {change: func(c *Controller) { c.carried.set(0, 2.5e6) }, rate: 2.5e6},
		"far less by our clock": {change: func(c *Controller) { c.carried.set(0, 1.9e6) }},
		"less than twice":       {change: func(c *Controller) { c.rates.set(0, 2.1e6) }},
		"a little over twice":   {change: func(c *Controller) { c.rates.set(0, 1.9e6) }, rate: 4e6},
		"too few packets of it": {change: func(c *Controller) { c.cfg.Packet = 1200 }},
	} {
		c := New(Config{Packet: 1000})
		at := instant(time.Second)
		c.delay.trip(at, 50*ms)
		c.rates.set(0, 1e6)
		c.fastest = 5e6
		c.carried.set(0, 4e6)
		c.enter(Drain, at)
		c.look.number = 2
		c.queue, c.queueing.drained = 160*ms, 160*ms
		c.delay.calmWay.lowestPeak.add(at, 30*ms) // jitter
		require.Equal(t, 30*ms, c.delay.jitter())
		if row.change != nil {
			row.change(c)
		}
		for range 9 {
			at += ms / 5
			c.delivery.arrive(Sample{sent: 4*at - 4*time.Second}, 1000, at)
		}
		c.stepDrain(at, batch{}, false)
		require.Equal(t, row.rate > 0, c.state == Cruise, name)
		if row.rate > 0 {
			require.InEpsilon(t, row.rate, c.Estimate(), 0.01, name)
			require.Equal(t, at, c.start.answered, "earlier losses are the slow path's")
			require.Equal(t, at, c.queueing.outdated, name)
		}
	}
}

// A flier is a sender whose train has shown the rate of a path of 50 ms.
type flier struct {
	*Controller
	size  int
	each  time.Duration // that a packet takes at that rate
	begin time.Time
}

func newFlier(size int, rate float64, waiting int) flier {
	f := flier{New(Config{}), size, sendTime(size, rate), time.Unix(1000, 0)}
	f.Guess(50 * ms)
	f.TrainMeasured(Train{Bytes: 16 * size, Span: 16 * f.each, Even: true})
	f.Waiting(waiting)
	return f
}

// first sends the first flight, a full window.
func (f flier) first() (flight []Sample) {
	for at := f.begin; (len(flight)+1)*f.size <= f.Window(); at = at.Add(f.each) {
		flight = append(flight, f.Sent(at, f.size, len(flight)*f.size))
	}
	return flight
}

// arrive reports that packets arrive at the path's rate, the first of them so
// long after the beginning.
func (f flier) arrive(flight []Sample, after time.Duration) {
	for n, s := range flight {
		at := f.begin.Add(after + time.Duration(n)*f.each)
		f.Acked(at, s, f.size, at.Add(-25*ms))
		f.Feedback(at, (len(flight)-n-1)*f.size)
	}
}

// TestAShortFlightConfirms: over 1 Gbit/s the first flight arrives within 4 ms, of which
// the first instant of arrivals is a fifth. It confirms the train's rate all the same:
// the second flight is sent a round trip later, and over both the path looks slow.
func TestAShortFlightConfirms(t *testing.T) {
	f := newFlier(1400, 125e6, 32<<20)
	flight := f.first()
	require.Greater(t, len(flight)*f.size, 500_000)
	f.arrive(flight, 50*ms)
	require.False(t, f.start.careful)
	require.InEpsilon(t, 125e6, f.Estimate(), 0.1)
}

// TestAFlightThatLostItsTailConfirms: that its last packets are lost shows when
// the next flight arrives, a round trip later. That pause is not part of the
// rate: when it was, a transfer continued at a fifth of the path.
func TestAFlightThatLostItsTailConfirms(t *testing.T) {
	for lost := range 5 {
		f := newFlier(1200, 2.5e6, 4<<20)
		flight := f.first()
		f.arrive(flight[:len(flight)-lost], 50*ms)
		var next []Sample
		for n := range 8 {
			next = append(next, f.Sent(f.begin.Add(50*ms+time.Duration(n)*f.each), f.size, lost*f.size))
		}
		f.arrive(next, 100*ms)
		require.False(t, f.start.careful, "%d lost", lost)
		require.InEpsilon(t, 2.5e6, f.Estimate(), 0.15, "%d lost", lost)
	}
}

// TestLossesAtARoundsBeginningAreNoFlood: a loss is reported later than what
// arrived beside it, so a round may begin with two losses.
func TestLossesAtARoundsBeginningAreNoFlood(t *testing.T) {
	c, now := New(Config{}), time.Unix(1000, 0)
	c.rates.set(0, 1e6)
	c.enter(Cruise, 0)
	var sent []Sample
	for n := range 100 {
		sent = append(sent, c.Sent(now.Add(time.Duration(n)*ms), 1000, 1000*n))
	}
	for n, s := range sent[:98] {
		c.Acked(now.Add(time.Duration(50+n)*ms), s, 1000, now.Add(time.Duration(25+n)*ms))
		c.Feedback(now.Add(time.Duration(50+n)*ms), 1000)
	}
	c.round.next(0, c.delivery.total, 0)
	for _, s := range sent[98:] {
		c.Lost(now.Add(200*ms), s, 1000)
	}
	c.Feedback(now.Add(200*ms), 0)
	require.NotEqual(t, Compete, c.State())
	require.False(t, c.flooded())
}

// TestAGuessIsOfTheFirstStart: the round trip of other packets limits only the first flight
// of all. A path whose round trip has grown since is resumed with a flight for that.
func TestAGuessIsOfTheFirstStart(t *testing.T) {
	c, now := New(Config{}), time.Unix(1000, 0)
	c.Guess(20 * ms)
	for range 40 {
		s := c.Sent(now, 1000, 0)
		now = now.Add(200 * ms)
		c.Acked(now, s, 1000, now.Add(-100*ms))
		c.Feedback(now, 0)
	}
	c.beginStart(c.tick(now), 1e6)
	require.GreaterOrEqual(t, c.Window(), 200_000)
}

// TestAGuessPasses: a path that was shorter when QUIC measured it does not seem
// to have a queue forever, and random losses are learned on it again.
func TestAGuessPasses(t *testing.T) {
	d := delay{guess: 20 * ms}
	for at := instant(1); at < minimumLife; at += 100 * ms {
		d.trip(at, 100*ms)
		d.roundOver(100 * ms)
	}
	require.True(t, d.stands())
	d.trip(2*minimumLife, 100*ms)
	d.roundOver(100 * ms)
	require.False(t, d.stands())
}

// TestDwellIsOfRoundTrips: over round trips of 3 ms a start that had lost competed
// with nobody for 2 s, in which random losses held it at a fifth of the rate.
func TestDwellIsOfRoundTrips(t *testing.T) {
	dwells := func(rtt time.Duration) (d []time.Duration) {
		c := New(Config{})
		c.delay.trip(1, rtt)
		for i := range 7 {
			c.compete(instant(1+i) * instant(time.Second))
			d = append(d, c.competition.dwell)
		}
		return d
	}
	s := time.Second
	require.Equal(t, []time.Duration{120 * ms, 240 * ms, 480 * ms, 960 * ms, 1920 * ms, 1920 * ms, 1920 * ms}, dwells(3*ms))
	require.Equal(t, []time.Duration{2 * s, 4 * s, 8 * s, 16 * s, 32 * s, 32 * s, 32 * s}, dwells(100*ms))

	c := New(Config{})
	for i, rtt := range []time.Duration{3 * ms, 3 * ms, 80 * ms} {
		c.delay = delay{}
		c.delay.trip(instant(1+i), rtt)
		c.compete(instant(1+i) * instant(time.Second))
	}
	require.Equal(t, 2*s, c.competition.dwell, "over a path that has become longer")
}

// fillWindow sends packets of size bytes until the window is full, over an
// empty path, and returns them and when the last one was sent.
func fillWindow(c *Controller, now time.Time, size int) (flight []Sample, last time.Time) {
	for inFlight := 0; ; inFlight += size {
		at, _ := c.Next(now, size, inFlight)
		if inFlight+size > c.Window() {
			return flight, now
		}
		if at.After(now) {
			now = at
		}
		flight = append(flight, c.Sent(now, size, inFlight))
	}
}

// TestAWindowAckedAtOnceTellsARate: over a short path all of a small window is acked
// together, and the path is empty before the next one is sent. When each was taken for
// a new beginning, no flight was ever as long as a round trip, and a transfer that
// many others had reduced to four packets a flight stayed there when it was alone.
func TestAWindowAckedAtOnceTellsARate(t *testing.T) {
	const size = 1500
	c, now := New(Config{}), time.Unix(1000, 0)
	c.RoundTrip(100 * time.Microsecond)
	c.rates.set(0, 40e3)
	c.enter(Cruise, c.tick(now))
	for range 300 {
		var flight []Sample
		flight, now = fillWindow(c, now, size)
		arrived := now.Add(50 * time.Microsecond)
		now = now.Add(ms)
		c.AckDelay(900 * time.Microsecond)
		for _, s := range flight {
			arrived = arrived.Add(5 * time.Microsecond)
			c.Acked(now, s, size, arrived)
		}
		c.Feedback(now, 0)
	}
	require.Greater(t, c.Estimate(), 10e6)
}

// TestAFlightAfterTheDarkIsItsOwn: no rate is measured across Dark.
func TestAFlightAfterTheDarkIsItsOwn(t *testing.T) {
	const size = 1500
	f := newFlier(size, 2.5e6, 4<<20)
	f.arrive(f.first(), 50*ms)
	f.enter(Dark, f.now)
	now := f.begin.Add(2 * time.Second)
	f.Next(now, size, size)
	begin := f.delivery.curve.next
	f.Sent(now, size, size)
	require.Equal(t, begin, f.delivery.begin)
}

// TestClumpsBeyondTheTimes: a feedback has times for 64 packets. When the others of
// each clump counted with the clump before, they were in none: whatever arrived, a path
// that delivers each 100 ms (a Wi-Fi that saves power) carried 64 packets each 100 ms.
func TestClumpsBeyondTheTimes(t *testing.T) {
	const size, each = 1200, 150
	var d delivery
	for clump := range 8 {
		at := instant(1+clump) * 100 * ms
		for n := range each {
			s := d.packetSent(at-90*ms+instant(n)*ms/2, size, false)
			arrived := at
			if n < each-64 {
				arrived = 0
			}
			d.arrive(s, size, arrived)
		}
	}
	s, ok := d.rate(150 * ms)
	require.True(t, ok)
	require.InDelta(t, 10*each*size, s.arrival, 1000)
}

// TestFirstWindowsTellARate: if the first windows of an unknown path are each
// acked in one clump, later than a round trip, they show less than what a start
// supposes. Nothing else is ever known about the path.
func TestFirstWindowsTellARate(t *testing.T) {
	const size = 1500
	c, now := New(Config{}), time.Unix(1000, 0)
	c.delay.trip(c.tick(now), 20*ms)
	for range 12 {
		var flight []Sample
		flight, now = fillWindow(c, now, size)
		now = now.Add(100 * ms)
		for _, s := range flight {
			c.Acked(now, s, size, now.Add(-10*ms))
		}
		c.Feedback(now, 0)
	}
	require.Positive(t, c.Estimate())
	require.Greater(t, c.Window(), 32*size)
}

// TestDistanceBetweenLooks: the distance is within its bounds whatever the
// time, even if an int has 32 bits.
func TestDistanceBetweenLooks(t *testing.T) {
	var c Controller
	for at := instant(0); at < 1000*1024; at += 1024 {
		require.GreaterOrEqual(t, c.looks.drawPause(at), minPause, "%d", at)
		require.LessOrEqual(t, c.looks.drawPause(at), maxPause, "%d", at)
	}
}

// TestJitterBesideALowRate: at a twentieth of the path's rate a packet seems to
// take twenty times as long. Jitter of less than two such times was taken for a
// queue, in which random losses kept the rate low; and of many controllers the
// fast ones saw less of a common queue than the slow ones.
func TestJitterBesideALowRate(t *testing.T) {
	d := delay{}
	d.way.add(1, 100*ms)
	now := instant(0)
	stretch := func(lowest, greatest time.Duration, rival bool) {
		now += 100 * ms
		d.calmWay.note(lowest)
		for range calmSamples - 1 {
			d.calmWay.note(greatest)
		}
		d.calmWay.roundOver(now, tally{}, true, rival)
	}
	stretch(100*ms, 160*ms, false)
	for _, grain := range []time.Duration{2, 40, 1, 80} {
		d.noteGrain(grain * ms)
		require.Equal(t, 60*ms, d.jitter())
	}

	t.Logf("# in strong jitter some rounds have no low packet")
	for range 10 {
		stretch(120*ms, 160*ms, false)
		stretch(100*ms, 160*ms, false)
	}
	require.Greater(t, d.jitter(), 55*ms)

	t.Logf("# a queue that a rival keeps is his, and no jitter")
	for range 200 {
		stretch(150*ms, 160*ms, true)
	}
	require.InDelta(t, 10*ms, d.jitter(), float64(2*ms))

	t.Logf("# one that stands in all rounds is none of the jitter")
	for range 200 {
		stretch(150*ms, 160*ms, false)
	}
	require.InDelta(t, 10*ms*5/3, d.jitter(), float64(ms))
}

// TestJitterOfAShortQueue: a rise by little more than the depth of a queue that
// drops may be the queue, which many fill and empty.
func TestJitterOfAShortQueue(t *testing.T) {
	d := delay{}
	d.trip(1, 80*ms) // the target is 20 ms
	d.way.add(1, 100*ms)
	for i := range calmSamples {
		d.calmWay.note(100*ms + time.Duration(i)*2*ms)
	}
	d.calmWay.roundOver(1, tally{}, true, false)
	require.Equal(t, 14*ms, d.jitter())
	for depth, jitter := range map[time.Duration]time.Duration{5: 14, 9: 14, 10: 0, 30: 0, 40: 14} {
		d.noteDepth(1, depth*ms)
		require.Equal(t, jitter*ms, d.jitter(), "%d ms deep", depth)
	}
}

// TestJitterEndsNoStartOfPlay: play sends a packet now and then, and jitter
// makes some arrive more slowly than they were sent, as from a queue.
func TestJitterEndsNoStartOfPlay(t *testing.T) {
	c, now := New(Config{}), time.Unix(1000, 0)
	c.TrainMeasured(Train{Bytes: 16 * 1500, Span: 10 * ms})
	var flying []Sample
	for n := range 80 {
		now = now.Add(33 * ms)
		flying = append(flying, c.Sent(now, 100, 100*len(flying)))
		c.Limited(100 * len(flying))
		if len(flying) < 8 {
			continue
		}
		late := time.Duration(n%4) * 30 * ms
		c.Acked(now, flying[0], 100, now.Add(late-100*ms))
		c.Feedback(now, 100*len(flying[1:]))
		flying = flying[1:]
		require.Equal(t, Start, c.State(), "packet %d", n)
	}
}

// TestASlowTrainOfJitterIsNoHint: packets that jitter has spread show that the
// path carries at least so much, which may be next to nothing.
func TestASlowTrainOfJitterIsNoHint(t *testing.T) {
	c := New(Config{Packet: 1000})
	c.Guess(250 * ms)
	before := c.Rate()
	c.TrainMeasured(Train{Bytes: 2000, Span: 90 * ms})
	require.EqualValues(t, before, c.Rate(), "32 packets in the round trip")
	c.TrainMeasured(Train{Bytes: 15000, Span: 90 * ms})
	require.Greater(t, c.Rate(), before)
}

// TestAStartAllowsForTheJitterOfItsTrain: as much of a queue may be jitter as
// has spread the train, until the jitter itself is known.
func TestAStartAllowsForTheJitterOfItsTrain(t *testing.T) {
	after := func(even bool, queue, jitter time.Duration) State {
		c := New(Config{Packet: 1000})
		c.delay.trip(1, 60*ms) // the target is 15 ms
		c.TrainMeasured(Train{Bytes: 15000, Span: 10 * ms, Even: even})
		c.start.careful = false
		c.rates.set(0, 1e6)
		for i := range instant(41) {
			c.delivery.arrive(Sample{sent: i * ms}, 1000, 50*ms+2*i*ms)
		}
		c.delay.way.add(1, 30*ms)
		for i := range c.delay.swings.waits {
			c.delay.swings.waits[i] = jitter
		}
		c.queue = queue
		c.step(140*ms, batch{tally: tally{acked: 1}}, false)
		return c.State()
	}
	require.Equal(t, Start, after(true, 15*ms, 0))
	require.Equal(t, Drain, after(true, 16*ms, 0))
	require.Equal(t, Start, after(false, 25*ms, 0))
	require.Equal(t, Drain, after(false, 26*ms, 0))
	require.Equal(t, Start, after(false, 19*ms, 6*ms))
	require.Equal(t, Drain, after(false, 20*ms, 6*ms))
}

// TestSwings: jitter that begins shows after three rounds in which the queue
// ran empty and packets waited all the same. A queue that stands says nothing
// about it, and a round without either ends it.
func TestSwings(t *testing.T) {
	d := delay{}
	d.trip(1, 60*ms) // the target is 15 ms
	d.way.add(1, 100*ms)
	d.noteGrain(ms)
	round := func(waits ...time.Duration) {
		r := round{}
		for _, w := range waits {
			r.noteWait(w)
			r.noteTrip(60*ms + w)
		}
		d.swings.roundOver(&r, &d)
	}
	for range swingRounds {
		require.Zero(t, d.jitter())
		require.Equal(t, 60*ms, d.reach())
		round(0, 20*ms)
	}
	require.Equal(t, 20*ms, d.jitter())
	require.Equal(t, 80*ms, d.reach())
	round(30*ms, 40*ms)
	require.Equal(t, 20*ms, d.jitter(), "a queue")
	round(0, 50*ms)
	require.Equal(t, 20*ms, d.jitter(), "the least of three")
	round(0, 5*ms)
	require.Zero(t, d.jitter())
	require.Equal(t, 60*ms, d.reach())
}

// TestWhatShowsTheRate: neither a queue that jitters, nor a window that was
// full over an empty path, lowers the estimate.
func TestWhatShowsTheRate(t *testing.T) {
	d := delay{}
	d.trip(1, 60*ms) // the target is 15 ms
	require.True(t, (&round{minQueue: 16 * ms, maxQueue: 25 * ms, prevMaxQueue: 25 * ms}).scatters())
	require.False(t, (&round{minQueue: 18 * ms, maxQueue: 25 * ms, prevMaxQueue: 25 * ms}).scatters())
	require.False(t, (&round{minQueue: 16 * ms, maxQueue: 40 * ms, prevMaxQueue: 16 * ms}).scatters(), "it grows")

	require.False(t, (&round{minQueue: 20 * ms, prevMinQueue: 24 * ms, maxQueue: 40 * ms, prevMaxQueue: 40 * ms}).drainsOurs(true, 0))
	require.True(t, (&round{minQueue: 20 * ms, prevMinQueue: 24 * ms, maxQueue: 30 * ms, prevMaxQueue: 40 * ms}).drainsOurs(true, 0))

	swings := round{minWait: minDuration{0, true}, maxWait: 16 * ms}
	require.True(t, swings.showsPath(&d))
	swings.closed = true
	require.False(t, swings.showsPath(&d))
	require.True(t, (&round{closed: true, minWait: minDuration{16 * ms, true}, maxWait: 30 * ms}).showsPath(&d), "a queue stands")
}

// TestALeastDelayDoesNotProveItself: a least delay that has risen with a queue
// is not near the least before that, so a Dip looks for a lower one.
func TestALeastDelayDoesNotProveItself(t *testing.T) {
	d := delay{}
	d.trip(1, 60*ms)
	d.arrive(1, 30*ms)
	for at := instant(1); at < 3*minimumLife; at += 100 * ms {
		d.arrive(at, 90*ms)
	}
	require.Equal(t, 90*ms, d.way.min)
	require.Equal(t, instant(1), d.nearFloor)
	d.dipped(3 * minimumLife)
	d.arrive(3*minimumLife+ms, 90*ms)
	require.Equal(t, 3*minimumLife+ms, d.nearFloor, "a Dip has found no less")
}
